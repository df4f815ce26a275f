"""Inductor's kernels for a CPU as one C++ file: each under a name of its own, in shorter words."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stark_lsp.playbook.inductor.naming import POINTER
from stark_lsp.playbook.inductor.reader import CannotEmit, Kernel, Step

CTYPES = {"int64_t": "c_int64", "int": "c_int", "double": "c_double", "float": "c_float", "bool": "c_bool"}
HEADER = "#include <torch/csrc/inductor/cpp_prefix.h>"
_BOUNDS = re.compile(r"\b(x\d+ ?(?:[<>]=?|\+?=) ?)static_cast<int64_t>\((\d+)L?\)")
_INDEX = re.compile(r"\[static_cast<int64_t>\((\w+)\)\]")
_OFFSET = re.compile(r"\+ static_cast<int64_t>(?=\()")
_DIVISION = re.compile(r"^.*inductor_cpu_(?:integer_div_error|throw_if_integer_div_error).*\n", re.MULTILINE)
_HEAD = re.compile(r'extern "C"\s+void\s+kernel\(([^)]*)\)')


def source(
    kernels: Mapping[str, Kernel], capability: str, given: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str:
    """Return the file.

    Parameters
    ----------
    kernels
        By the name that each gets.
    capability
        Vector instructions that they are written for, as `torch.backends.cpu.get_cpu_capability` names them.
    given
        See `naming.given`.
    """
    vectors = [f"#define CPU_CAPABILITY {capability}", f"#define CPU_CAPABILITY_{capability}"]
    head = [*(vectors if capability in ("AVX2", "AVX512") else []), HEADER]
    parts = ["\n".join(head)]
    for name, kernel in kernels.items():
        parts.append(_renamed(kernel, name, given.get(kernel.name, ())))
    return "\n\n".join(parts) + "\n"


def prototype(kernel: Kernel) -> str:
    """Return the ctypes prototype of a kernel."""
    arguments = []
    for one in kernel.types:
        plain = one.replace("const", "").strip()
        if not plain.endswith("*") and plain not in CTYPES:
            raise CannotEmit(f"{kernel.name} takes a {one}")
        arguments.append("ctypes.c_void_p" if plain.endswith("*") else f"ctypes.{CTYPES[plain]}")
    if len(set(arguments)) == 1 and len(arguments) > 2:
        return f"ctypes.CFUNCTYPE(None, *[{arguments[0]}] * {len(arguments)})"
    return f"ctypes.CFUNCTYPE(None, {', '.join(arguments)})"


def call(step: Step, name: str) -> str:
    """Return the statement that calls a kernel."""
    given = step.statement.value.args  # type: ignore[attr-defined]
    whole = [ast.unparse(one) if isinstance(one, ast.Constant) else f"{ast.unparse(one)}.data_ptr()" for one in given]
    return f'kernels["{name}"]({", ".join(whole)})'


def _renamed(kernel: Kernel, name: str, given: Sequence[str]) -> str:
    text = kernel.text
    if HEADER not in text or not _HEAD.search(text):
        raise CannotEmit(f"{kernel.name} does not begin as is known here")
    # A kernel that divides integers throws where one is zero, and nothing could catch that on its way to Python.
    text = _DIVISION.sub("", text.replace(HEADER, ""))
    if "div_error" in text or "throw" in text:
        raise CannotEmit(f"{kernel.name} divides integers")
    parameters = [one.split()[-1].lstrip("*") for one in _HEAD.findall(text)[0].split(",")]
    text = _HEAD.sub(lambda found: f'extern "C" void {name}({" ".join(found[1].split())})', text)
    for parameter, word in zip(parameters, given, strict=False):
        if word and POINTER.match(parameter) and not re.search(rf"\b{word}_ptr\b", text):
            text = re.sub(rf"\b{parameter}\b", f"{word}_ptr", text)
    text = _OFFSET.sub("+ ", _INDEX.sub(r"[\1]", _BOUNDS.sub(r"\1\2", text)))
    return text.strip()
