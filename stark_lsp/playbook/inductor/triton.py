"""Inductor's kernels for a GPU as Triton functions: in public spelling, under shorter names, with what was tuned.

What they compute and how is Inductor's; `tidy` writes it in fewer statements.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from stark_lsp.playbook import handwritten
from stark_lsp.playbook.inductor.naming import named
from stark_lsp.playbook.inductor.reader import CannotEmit, Kernel, Program, Step
from stark_lsp.playbook.inductor.tidy import constants, tidied
from stark_lsp.playbook.names import as_tuple

WIDTH = 120
_IMPORTS = """\
triton = None
if importlib.util.find_spec("triton"):  # only a GPU needs it
    import triton
    import triton.language as tl
"""
_NOTICE = "# From PyTorch's torch/_inductor/runtime/triton_helpers.py, (c) PyTorch contributors, BSD-3-Clause"
_PREFIX = "_stark_tl_"
_LAUNCHED = re.compile(r"^@triton\.jit\ndef (?:\w+_\d+|_stark_(?!tl_)\w+)\(", re.MULTILINE)
"""Beginnings of what is launched; others are called by these."""
_ACROSS = (("idx_c", "& there\n", "there"), ("idx_n", "mask = (idx_m < M) & (idx_n < N)\n", "idx_n < N"))
"""In templates: what counts the columns of a block, by what that is known, and which columns there are."""
_PLACE = re.compile(r"(?ms)^ +xindex = (.+) \+ (\d+)\*idx_c \+ \d+\*idx_n$.*?^ +(\w+) = \(xindex % \2\)$")
"""Where in an image a block's row is, and the name that gets as a remainder, for each element."""
_PUBLIC = {"math": "tl.math", "constexpr_function": "triton.constexpr_function"}
_KINDS = {
    "triton_poi": "each program computes a block of elements",
    "triton_per": "each program holds all that is reduced to its results at once",
    "triton_red": "each program walks along what is reduced to its results in blocks",
    "triton_tem": "each program computes a block of the product, in an order that keeps the L2 cache warm",
}
"""How a kernel goes about it, by how Inductor begins its name."""


def rows(
    kernels: Mapping[str, Kernel],
    helpers: Mapping[str, str],
    given: Mapping[str, Sequence[str]] = MappingProxyType({}),
    own: Sequence[str] = (),
) -> list[str]:
    """Return the kernels, with torch's own functions that they call, as lines of Python.

    Parameters
    ----------
    kernels
        By the name that each gets.
    helpers
        Sources of torch's own functions by name.
    given
        See `naming.given`.
    own
        Functions of ours that the program calls.
    """
    if any(kernel.types for kernel in kernels.values()):
        raise CannotEmit("a part of it is computed on the CPU")
    texts = [
        f"{_replaces(kernel)}\n{_function(kernel, name, given.get(kernel.name, ()))}"
        for name, kernel in kernels.items()
    ]
    functions = _needed({_PREFIX + name: _helper(text, helpers) for name, text in sorted(helpers.items())}, texts)
    if functions:
        functions[0] = f"{_NOTICE}\n{functions[0]}"
    # A single operator reads better without; where there are several, launches add up.
    launched = [handwritten.written("launched").strip()] if len(texts) > 1 or own else []
    whole = "\n\n".join([*launched, *functions, *texts, *own])
    if launched:
        whole = _LAUNCHED.sub(r"@_StarkLaunched\n\g<0>", whole)
    imports = _IMPORTS
    if "libdevice." in whole:
        imports = imports.replace("tl\n", "tl\n    from triton.language.extra import libdevice\n")
    block = [f"    {line}" if line else "" for line in whole.splitlines()]
    block = [part for line in block for part in wrapped(line)]
    return [*imports.splitlines(), "", "if triton is not None:", *block, ""]


def launch(kernel: Kernel, step: Step, name: str, how: Mapping[str, Any], *, any_size: bool = False) -> str:
    """Return the statement that launches a kernel.

    Parameters
    ----------
    kernel
        As Inductor wrote it.
    step
        The call in Inductor's program.
    how
        What `judge/analysis/inductor_gpu` noted of it.
    any_size
        Whether the grid is that of other sizes as well.
    """
    call = step.statement.value  # type: ignore[attr-defined]
    grid = [str(int(size)) for size in how["grid"]]
    given = [ast.unparse(item) for item in call.args]
    main = _functions(kernel)[-1]
    by_name = dict(zip([one.arg for one in main.args.args], given, strict=False))
    if how["fixed"]:
        # A template's grid is passed as its last three arguments.
        grid, given = given[-3:] if any_size else grid, given[:-3]
    elif any_size:
        if not how["lengths"]:
            raise CannotEmit(f"the grid of {kernel.name} has no spelling")
        grid = [_length(text, by_name) for text in how["lengths"]]
    known = constants(main)
    # What is left over is said by name.
    given = [text for text, one in zip(given, main.args.args, strict=False) if one.arg not in known]
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    tuned = {**how["config"], "num_warps": how["num_warps"], "num_stages": how["num_stages"]}
    words = [f"{word}={value!r}" for word, value in tuned.items()]
    return f"{name}[{as_tuple(grid)}]({', '.join([*given, *words])})"


def _length(text: str, given: Mapping[str, str]) -> str:
    """Return one length of a grid, an expression of a kernel's parameters, by what these are given."""
    text = re.sub(r"[a-z]\w*", lambda found: f"({given.get(found[0], found[0])})", text)
    if not re.search("[a-z]", text):
        return str(eval(text))  # arithmetic of numbers
    up = re.fullmatch(r"-\(\((.+)\) // -\((\d+)\)\)", text)
    return ast.unparse(ast.parse(f"({up[1]} + {int(up[2]) - 1}) // {up[2]}" if up else text))


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
    how, words = _KINDS.get(kernel.name[:10], ""), f"# In place of {kernel.origins or 'operations that have no name'}"
    whole = f"{words}: {how}." if how else f"{words}."
    if len(whole) <= WIDTH - 4 or not how:
        return whole
    words = words if len(words) < WIDTH - 5 else words[: WIDTH - 8].rpartition(",")[0] + ", …"
    return f"{words}:\n# {how}."


def _functions(kernel: Kernel) -> list[ast.FunctionDef]:
    """Return a kernel's function, behind those that combine values of a scan or a reduction for it."""
    functions = [item for item in ast.parse(_across(kernel.text)).body if isinstance(item, ast.FunctionDef)]
    if not functions:
        raise CannotEmit(f"{kernel.name} is not a function")
    return functions


def _across(text: str) -> str:
    """Return a template's text; what each row or column has one of is computed once, not for each element."""
    for index, sign, there in _ACROSS:
        if sign in text:
            text = text.replace(f"(tl.broadcast_to({index}, [BLOCK_M, BLOCK_N])), mask", f"({index}), {there}")
    if place := _PLACE.search(text):
        text = text.replace(f"({place[3]} + {place[2]}*idx_c", f"({place[1]} + {place[2]}*idx_c")
    return text


def _function(kernel: Kernel, name: str, given: Sequence[str]) -> str:
    """Return a kernel's function without what only Inductor needs."""
    functions = _functions(kernel)
    texts = []
    for function in functions:
        function.decorator_list = []
        # The last one is what is launched.
        names = zip([one.arg for one in function.args.args], given if function is functions[-1] else (), strict=False)
        called = dict(names)
        texts.append("@triton.jit\n" + ast.unparse(named(tidied(function, constants(function)), called)))
    text = "\n\n".join(texts)
    for function in functions[:-1]:
        text = re.sub(rf"\b{function.name}\b", f"{name}_{function.name.strip('_')}", text)
    text = re.sub(rf"\b{functions[-1].name}\b", name, text)
    text = re.sub(r"^(\s*)(\w+), = ", r"\1(\2,) = ", text, flags=re.MULTILINE)
    # A size of one is a constant in Triton, which has no such method.
    text = re.sub(r"(\(\d+ \* ks\d+\)|\bks\d+)\.to\(", r"tl.cast(\1, ", text)
    text = re.sub(r"\btl_math\b", "tl.math", re.sub(r"\btriton_helpers\.(\w+)", rf"{_PREFIX}\1", text))
    if "triton_helpers" in text or "_inductor" in text or "triton_heuristics" in text:
        raise CannotEmit(f"{kernel.name} calls what is torch's own")
    return _quoted(text)


def wrapped(line: str) -> list[str]:
    """Return a line; if it is too long, with what is in its brackets on lines of their own."""
    # Not at the grid of a launch.
    at = line.find("](") + 1 or line.find("(")
    head, rest = line[:at], line[at + 1 :]
    inner, end = (rest[:-2], "):") if rest.endswith("):") else (rest[:-1], ")")
    if len(line) <= WIDTH or not rest.endswith(end) or "#" in line:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    deeper = f"{indent}    "
    rows, parts = [deeper + inner], inner.split(", ")
    if end == ")":
        try:
            call = ast.parse(f"_({inner})", mode="eval").body
        except SyntaxError:
            return [line]
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return [line]  # the first bracket is not closed by the last one
        parts = [_quoted(ast.unparse(one)) for one in (*call.args, *call.keywords)]
    if len(rows[0]) > WIDTH and ":= " in inner.partition("(")[0]:
        rows = wrapped(rows[0])
    elif len(rows[0]) > WIDTH and (len(parts) > 1 or re.search(r"[\w\])]$", head)):  # with a comma a sum were a tuple
        rows = [row for part in parts for row in ("\n".join(wrapped(deeper + part)) + ",").split("\n")]
    return [f"{head}(", *rows, f"{indent}{end}"]


def _quoted(text: str) -> str:
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', text)


def _needed(helpers: Mapping[str, str], texts: Sequence[str]) -> list[str]:
    """Return those functions that texts call, and those that they call themselves."""
    found: set[str] = set()
    todo = list(texts)
    while todo:
        called = set(re.findall(r"\w+", todo.pop())) & set(helpers) - found
        found |= called
        todo += [helpers[name] for name in called]
    return [text for name, text in helpers.items() if name in found]


class _OfNumbers(ast.NodeTransformer):
    """Takes the branch for real numbers: what looks for NaN finds none in whole ones."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if ast.unparse(node.test).startswith("is_floating(") else node


def _helper(text: str, helpers: Mapping[str, str]) -> str:
    """Return one of torch's own functions under a name that nobody else has."""
    tree = _OfNumbers().visit(ast.parse(text))
    for item in ast.walk(tree):
        if isinstance(item, ast.Name) and item.id in helpers:
            item.id = _PREFIX + item.id
        elif isinstance(item, ast.Name):
            item.id = _PUBLIC.get(item.id, item.id)
        elif isinstance(item, ast.FunctionDef):
            item.name = _PREFIX + item.name
            if ast.get_docstring(item) is not None and len(item.body) > 1:
                item.body = item.body[1:]
    return ast.unparse(tree)
