"""Names in kernels of Inductor's after what they are given: `x_ptr` (and `x`, in Triton) for `in_ptr0` (and `tmp0`)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping

from stark_lsp.playbook.inductor.reader import Program

POINTER = re.compile(r"^(in|out|in_out)_ptr\d*$")
"""Inductor's names of pointers."""
_OWN = re.compile(r"^(buf|arg)\d")
"""Names of Inductor's, which say no more than its pointers do."""
_TAKEN = {"tl", "triton", "libdevice"}
_KIND = re.compile(r"^(?:cpp|triton)_(?:[a-z]{3}_)?(?:fused_)?")


def short(name: str) -> str:
    """Return the name of a kernel in C++ or Triton, as `fused_add_gelu_0`."""
    return "fused_" + _KIND.sub("", name).strip("_").replace("native_", "")


def given(program: Program, spelled: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what each kernel that is launched once is given, in order; empty where it has no name of the user's.

    Parameters
    ----------
    spelled
        Names of inputs and weights by those that Inductor gave them.
    """
    steps = [step for step in program.steps if step.kernel]
    often = Counter(step.kernel for step in steps)
    found = {}
    for step in steps:
        if often[step.kernel] == 1:
            call = step.statement.value  # type: ignore[attr-defined]
            names = [spelled.get(one.id, one.id) if isinstance(one, ast.Name) else "" for one in call.args]
            found[step.kernel] = ["" if _OWN.match(name) else name for name in names]
    return found


def named(function: ast.FunctionDef, names: Mapping[str, str]) -> ast.FunctionDef:
    """Return a function with pointers, and what is loaded from them first, called after names, changed in place.

    Parameters
    ----------
    names
        By parameter.
    """
    stored = Counter(
        item.id for item in ast.walk(function) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
    )
    taken = _TAKEN | {one.arg for one in function.args.args}
    taken |= {item.id for item in ast.walk(function) if isinstance(item, ast.Name)}
    called: dict[str, str] = {}

    def call(old: str, new: str) -> None:
        if new.isidentifier() and new not in taken:
            called[old] = new
            taken.add(new)

    for parameter, name in names.items():
        if name and POINTER.match(parameter):
            call(parameter, f"{name}_ptr")
    for item in ast.walk(function):
        target, pointer = _loaded(item)
        if pointer in called and stored[target] == 1:
            call(target, called[pointer].removesuffix("_ptr"))
    for item in ast.walk(function):
        if isinstance(item, ast.Name):
            item.id = called.get(item.id, item.id)
        elif isinstance(item, ast.arg):
            item.arg = called.get(item.arg, item.arg)
    return function


def _loaded(item: ast.AST) -> tuple[str, str]:
    """Return the target of `tmp = tl.load(pointer + ..., ...)` and the pointer; empty for all else."""
    if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name) and isinstance(item.value, ast.Call):
        place = item.value.args[0] if item.value.args else None
        if isinstance(place, ast.BinOp) and isinstance(place.left, ast.Name) and "load" in ast.unparse(item.value.func):
            return item.targets[0].id, place.left.id
    return "", ""
