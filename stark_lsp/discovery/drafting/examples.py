"""What a file itself gives arguments: where it makes a class, and values under the same name elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from stark_lsp.discovery.drafting.annotations import kind_of, parsed
from stark_lsp.discovery.drafting.drafts import Plain, Record, Value

_MOST = 4
"""Values of one name that are kept."""


def constructed(tree: ast.Module, name: str, parameters: list[str]) -> dict[str, Plain]:
    """Return what a class is made with where the file gives all of some parameters as plain values, else nothing.

    Parameters
    ----------
    parameters
        The constructor's parameters that have no default, in order.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
            given = dict(zip(parameters, node.args, strict=False))
            given.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg in parameters})
            if all(argument in given and _is_plain(given[argument]) for argument in parameters):
                return {argument: Plain(_written(given[argument])) for argument in parameters}
    return {}


def usual(tree: ast.Module) -> Mapping[str, tuple[str, ...]]:
    """Return the plain values that calls and defaults of a file give under each name, the most frequent first."""
    counts: dict[str, dict[str, int]] = {}
    for name, value in _given(tree):
        if _is_plain(value) and not (isinstance(value, ast.Constant) and value.value is None):
            found = counts.setdefault(name, {})
            found[_written(value)] = found.get(_written(value), 0) + 1
    return {name: tuple(sorted(found, key=lambda text: -found[text])[:_MOST]) for name, found in counts.items()}


def seen(argument: ast.arg, value: Value, given: Mapping[str, tuple[str, ...]]) -> Value:
    """Return what the file gives a name elsewhere, where a guess by its name alone says little."""
    if isinstance(value, Record) or _WIDE.search(argument.arg):
        return value
    kind = kind_of(argument.annotation)
    for text in given.get(argument.arg, ()):
        node = parsed(text)
        plain = node.value if isinstance(node, ast.Constant) else None
        if isinstance(plain, (bool, str)) and value.sure:
            continue
        if kind in _FORMS and not isinstance(node if plain is None else plain, _FORMS[kind]):
            continue
        return Plain(text)
    return value


def blocks_given(tree: ast.Module, name: str) -> list[str]:
    """Return the names that calls, defaults and assignments of a file give under a name."""
    pairs = [*_given(tree)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs += [(target.id, node.value) for target in node.targets if isinstance(target, ast.Name)]
    return [value.id for given, value in pairs if given == name and isinstance(value, ast.Name)]


_FORMS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    **dict.fromkeys(("list", "List", "tuple", "Tuple", "Sequence"), (ast.List, ast.Tuple)),
}
_WIDE = re.compile(r"dim|chan|width|feat|planes|hidden|embed|embd|^(in|out)_|chs|inp|oup|^d_|inter|^[a-z]\d?$")
"""What widths are called: they have to agree with each other, so that none is taken from elsewhere."""


def _given(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg is not None:
                    yield keyword.arg, keyword.value
        elif isinstance(node, ast.arguments):
            places = [*node.posonlyargs, *node.args]
            if node.defaults:
                yield from ((a.arg, d) for a, d in zip(places[-len(node.defaults) :], node.defaults, strict=True))
            yield from ((a.arg, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None)


def _written(node: ast.expr) -> str:
    return ast.unparse(node).replace("'", '"')


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a number, a short text, or a tuple or list of such."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float)) or (
            isinstance(node.value, str) and node.value.isascii() and '"' not in node.value and len(node.value) < 40
        )
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_plain(node.operand)
    return isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) <= 8 and all(map(_is_plain, node.elts))
