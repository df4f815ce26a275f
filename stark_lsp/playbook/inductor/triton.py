"""Inductor's kernels for a GPU as Triton functions: in public spelling, under shorter names, with what was tuned."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from stark_lsp.playbook.inductor.reader import CannotEmit, Kernel, Program, Step

WIDTH = 120
_IMPORTS = """\
try:
    import triton
    import triton.language as tl
except ImportError:  # only a GPU needs it
    triton = None
"""
_NOTICE = "# From PyTorch's torch/_inductor/runtime/triton_helpers.py, (c) PyTorch contributors, BSD-3-Clause"
_PREFIX = "_stark_tl_"
_KIND = re.compile(r"^triton_(?:[a-z]{3}_)?(?:fused_)?")
_LITERALS = re.compile(r"\btl_math\b")
_NOISE = ("# inductor generates a suffix",)
_BARE = re.compile(r"^\s+(?P<name>\w+)(?: ?: ?tl\.constexpr)? = .*$")


def rows(kernels: Mapping[str, Kernel], helpers: Mapping[str, str]) -> list[str]:
    """Return the kernels, with torch's own functions that they call, as lines of Python.

    Parameters
    ----------
    kernels
        By the name that each gets.
    helpers
        Sources of torch's own functions by name.
    """
    texts = [f"{_replaces(kernel)}\n{_function(kernel, name)}" for name, kernel in kernels.items()]
    if helpers:
        functions = [_helper(text, helpers) for _, text in sorted(helpers.items())]
        texts.insert(0, "\n\n\n".join([f"{_NOTICE}\n{functions[0]}", *functions[1:]]))
    whole = "\n\n\n".join(texts)
    imports = _IMPORTS
    if "libdevice." in whole:
        imports = imports.replace("tl\n", "tl\n    from triton.language.extra import libdevice\n")
    block = [f"    {line}" if line else "" for line in whole.splitlines()]
    return [*imports.splitlines(), "", "if triton is not None:", *block]


def launch(step: Step, name: str, how: Mapping[str, Any]) -> str:
    """Return the statement that launches a kernel.

    Parameters
    ----------
    step
        The call in Inductor's program.
    how
        What `judge/analysis/inductor_gpu` noted of it.
    """
    call = step.statement.value  # type: ignore[attr-defined]
    grid = [int(size) for size in how["grid"]]
    given = [ast.unparse(item) for item in call.args]
    if how["fixed"]:
        # A template's grid is passed as its last three arguments.
        given = given[:-3]
    while len(grid) > 1 and grid[-1] == 1:
        grid.pop()
    tuned = {**how["config"], "num_warps": how["num_warps"], "num_stages": how["num_stages"]}
    words = [f"{word}={value!r}" for word, value in tuned.items()]
    return f"{name}[{tuple(grid)!r}]({', '.join([*given, *words])})"


def short(name: str) -> str:
    """Return a kernel's name, as `fused_add_gelu_0`."""
    return "fused_" + _KIND.sub("", name).strip("_").replace("native_", "")


def by_step(program: Program, launches: list[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
    """Return for each step how its kernel was launched, None where it launches none.

    Raises
    ------
    CannotEmit
        Other kernels were launched than the program has.
    """
    left = list(launches)
    found: list[Mapping[str, Any] | None] = []
    for step in program.steps:
        if not step.kernel:
            found.append(None)
            continue
        if not left or left[0]["kernel"] != step.kernel:
            raise CannotEmit("its program launched other kernels than it has")
        found.append(left.pop(0))
    if left:
        raise CannotEmit("its program launched more kernels than it has")
    return found


def _replaces(kernel: Kernel) -> str:
    words = f"# In place of: {kernel.origins or 'operations that have no name'}"
    return words if len(words) < WIDTH - 4 else words[: WIDTH - 8].rpartition(",")[0] + ", …"


def _function(kernel: Kernel, name: str) -> str:
    """Return a kernel's function without what only Inductor needs."""
    tree = ast.parse(kernel.text)
    functions = [item for item in tree.body if isinstance(item, ast.FunctionDef)]
    if not functions:
        raise CannotEmit(f"{kernel.name} is not a function")
    main = functions[-1]
    lines = kernel.text.splitlines()
    parts = []
    for function in functions:
        # One that combines values of a scan or a reduction stands before the kernel.
        body = lines[function.lineno - 1 : function.end_lineno]
        parts.append("\n".join(["@triton.jit", *_without_unused(body)]))
    text = "\n\n\n".join(parts)
    for function in functions[:-1]:
        text = re.sub(rf"\b{function.name}\b", f"{name}_{function.name.strip('_')}", text)
    text = re.sub(rf"\b{main.name}\b", name, text)
    text = _LITERALS.sub("tl.math", re.sub(r"\btriton_helpers\.(\w+)", rf"{_PREFIX}\1", text))
    if "triton_helpers" in text or "_inductor" in text or "triton_heuristics" in text:
        raise CannotEmit(f"{kernel.name} calls what is torch's own")
    return text


def _without_unused(lines: list[str]) -> list[str]:
    """Return a function's lines without assignments that nothing reads, and without empty ones."""
    lines = [line.rstrip() for line in lines if line.strip() and line.strip() not in _NOISE]
    while True:
        words = re.findall(r"\b[A-Za-z_]\w*\b", "\n".join(lines))
        count = {word: words.count(word) for word in set(words)}

        def unused(line: str, count: Mapping[str, int] = count) -> bool:
            found = _BARE.match(line)
            return found is not None and count[found["name"]] == 1 and line.count("(") == line.count(")")

        kept = [line for line in lines if not unused(line)]
        if len(kept) == len(lines):
            return kept
        lines = kept


def _helper(text: str, helpers: Mapping[str, str]) -> str:
    """Return one of torch's own functions under a name that nobody else has."""
    tree = ast.parse(text)
    for item in ast.walk(tree):
        if isinstance(item, ast.Name) and item.id in helpers:
            item.id = _PREFIX + item.id
        elif isinstance(item, ast.Name) and item.id == "math":
            item.id = "tl.math"
        elif isinstance(item, ast.FunctionDef):
            item.name = _PREFIX + item.name
            if ast.get_docstring(item) is not None and len(item.body) > 1:
                item.body = item.body[1:]
    return ast.unparse(tree)
