"""Inductor's kernels for a CPU as one C++ file: each under a name of its own, in shorter words."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stark_lsp.playbook.inductor.naming import POINTER
from stark_lsp.playbook.inductor.reader import CannotEmit, Kernel, Step

CTYPES = {"int64_t": "c_int64", "int": "c_int", "double": "c_double", "float": "c_float", "bool": "c_bool"}
CHECK = "TORCH_CHECK("
"""What a kernel has that reads where another tensor says."""
_CHEAP = """
// PyTorch says what is wrong: it runs then in place of these kernels.
#undef TORCH_CHECK
#define TORCH_CHECK(fits, text) if (!(fits)) throw std::out_of_range(text)"""
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
    head += [_CHEAP] if any(CHECK in kernel.text for kernel in kernels.values()) else []
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
    gives = "ctypes.c_bool" if CHECK in kernel.text else "None"
    if len(set(arguments)) == 1 and len(arguments) > 2:
        return f"ctypes.CFUNCTYPE({gives}, *[{arguments[0]}] * {len(arguments)})"
    return f"ctypes.CFUNCTYPE({gives}, {', '.join(arguments)})"


def call(step: Step, name: str, kernel: Kernel) -> list[str]:
    """Return the statement that calls a kernel; PyTorch raises what is to be raised where that finds a bad index."""
    given = step.statement.value.args  # type: ignore[attr-defined]
    texts = zip(map(ast.unparse, given), kernel.types, strict=True)
    whole = [f"{text}.data_ptr()" if kind.endswith("*") else text for text, kind in texts]
    run = f'kernels["{name}"]({", ".join(whole)})'
    return [f"if {run}:", "    return None"] if CHECK in kernel.text else [run]


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
    return _caught(text.strip())


def _caught(text: str) -> str:
    """Return a kernel that tells of an index out of bounds; an exception would end a thread, and so the process."""
    if CHECK not in text:
        return text
    lines = text.replace('extern "C" void', 'extern "C" bool', 1).splitlines()
    if not lines[0].startswith("extern") or lines[1] != "{":
        raise CannotEmit("what checks an index is written as is not known here")
    indents = [len(line) - len(line.lstrip()) for line in lines]
    around = {}
    for place, line in enumerate(lines):
        begin = place if CHECK in line else 0
        while begin:
            begin -= 1
            if re.match(r" *for\(", lines[begin]) or not begin:
                end = lines.index(" " * indents[begin] + "}", begin)  # Inductor gives each loop its braces
                if end > place:
                    around[end] = begin + 1
                    break
    made = []
    for place, line in enumerate(lines):
        indent = " " * (indents[place] + 4)
        if place in around:
            made += [f"{indent}}} catch (const std::out_of_range&) {{", f"{indent}    bad = true;", f"{indent}}}"]
        made += [line, f"{indent}try {{"] if place in around.values() else [line]
    return "\n".join([*made[:2], "    std::atomic<bool> bad{false};", *made[2:-1], "    return bad;", "}"])
