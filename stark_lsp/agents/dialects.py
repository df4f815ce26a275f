"""How kernels are asked for, and how a candidate's kernels turn out to be embedded."""

from __future__ import annotations

import ast

from stark_lsp.core.agent_settings import DIALECTS
from stark_lsp.core.errors import BadInput
from stark_lsp.core.parsing import last_name
from stark_lsp.core.status import Dialect
from stark_lsp.discovery.syntax import parse

CPU = "cpu"


def check_dialect(name: str) -> None:
    """Raise `BadInput` if kernels cannot be asked for in this way."""
    if name not in DIALECTS:
        raise BadInput(f"There is no dialect {name!r}.", cure=f"Choose one of: {', '.join(DIALECTS)}.")


def embedding(dialect: str, device_type: str) -> str:
    """Return which rules and example a question has: `raw`, `inline`, `triton` or `cpu`.

    A CPU has one way, whatever is set; `auto` on a GPU is `raw`, which builds fastest.

    Raises
    ------
    BadInput
        There is no such dialect.
    """
    check_dialect(dialect)
    if device_type == "cpu":
        return CPU
    return Dialect.RAW.value if dialect == "auto" else dialect


def detect(source: str) -> Dialect:
    """Return how a candidate embeds its kernels; of several ways, Triton first, then `inline`."""
    try:
        tree = parse(source)
    except SyntaxError:
        return Dialect.TORCH
    found: set[Dialect] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.update(Dialect.TRITON for decorator in node.decorator_list if _is_triton(decorator))
        elif isinstance(node, ast.Call):
            name = last_name(node.func)
            if name == "load_inline":
                found.add(Dialect.RAW if _says_raw(node) else Dialect.INLINE)
            elif name in ("CDLL", "PyDLL", "_compile_kernel"):
                found.add(Dialect.RAW)
    order = (Dialect.TRITON, Dialect.INLINE, Dialect.RAW)
    return next((dialect for dialect in order if dialect in found), Dialect.TORCH)


def _says_raw(call: ast.Call) -> bool:
    said = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
    return said.get("is_python_module") is False or said.get("no_implicit_headers") is True


def _is_triton(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "triton" and node.attr == "jit"
    return False
