"""Names made at run time: what they reach cannot be read, so that each must have a reason to be one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..scopes import SelfOf
from ..uses import CALL
from ..words import Refusal
from .interpreter import GADGETS

_ATTRIBUTES = frozenset(f"builtins.{name}" for name in ("getattr", "setattr", "hasattr", "delattr"))
_GETTERS = ("operator.attrgetter", "operator.methodcaller")
_FORMATTERS = ("string.Formatter",)
_OWN = (
    "torch.utils.cpp_extension.load_inline()",
    "torch.utils.cpp_extension.load()",
    "torch.cuda._compile_kernel()",
    "ctypes.CDLL()",
    "ctypes.PyDLL()",
    "torch.ops.",
    "torch.jit.CompilationUnit()",
)
"""What a file builds itself: functions of it may be chosen by names that are put together."""


def made_names(candidate: Candidate) -> Iterator[Refusal]:
    """`getattr` and its like by names that cannot be told; what reaches attributes by text in other ways."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Call) and candidate.names.of(node.func) & _ATTRIBUTES and len(node.args) >= 2:
            if not _is_told(candidate, node, ours):
                yield Refusal("It reaches an attribute whose name is only known at run time.", node.lineno)
        elif isinstance(node, ast.Call) and any(isinstance(argument, ast.Starred) for argument in node.args):
            if candidate.names.of(node.func) & _ATTRIBUTES:
                yield Refusal("It reaches an attribute whose name is only known at run time.", node.lineno)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield from _match_names(candidate, node)
    for use in candidate.uses:
        path = use.path.split("()")[0]
        if path in _GETTERS and use.path == path:
            yield from _getter(candidate, use.node, use.kind == CALL, use.line)
        elif path in _FORMATTERS:
            yield Refusal("It reads attributes by a format text (string.Formatter).", use.line)
        elif use.kind == CALL and path == "builtins.dir" and isinstance(use.node, ast.Call) and use.node.args:
            listed = candidate.names.of(use.node.args[0])
            if listed and not any(name.startswith(_OWN) for name in listed):
                yield Refusal("It goes through the names of a module, so that what it takes cannot be read.", use.line)


def _is_told(candidate: Candidate, call: ast.Call, ours: set[str]) -> bool:
    """Whether what a call of `getattr` and its like reaches can be read, or is the file's own."""
    target, name = call.args[0], call.args[1]
    if candidate.names.spellings.of(name) is not None:
        return True
    paths = candidate.names.of(target)
    if paths and {f"{path}.?" for path in paths} <= ours:
        return True
    if isinstance(name, ast.Starred):
        return False
    beginning = candidate.names.spellings.beginning(name)
    begun = bool(beginning) and not beginning.startswith("_")
    if paths:
        return begun and all(path.startswith(_OWN) for path in paths)
    if not _is_self(candidate, target):
        return False
    # Parameters of another module are often taken over by their names, in the constructor.
    stores = bool(candidate.names.of(call.func) & {"builtins.setattr"})
    return begun or (stores and _in_constructor(candidate, call))


def _is_self(candidate: Candidate, node: ast.expr) -> bool:
    if not isinstance(node, ast.Name):
        return False
    bounds = candidate.scopes.of.get(node, candidate.scopes.top).find(node.id) or []
    return bool(bounds) and all(isinstance(bound.source, SelfOf) for bound in bounds)


def _in_constructor(candidate: Candidate, node: ast.AST) -> bool:
    scope = candidate.scopes.of.get(node)
    while scope is not None:
        if isinstance(scope.node, ast.FunctionDef):
            return scope.node.name == "__init__"
        scope = scope.parent
    return False


def _getter(candidate: Candidate, node: ast.AST, called: bool, line: int) -> Iterator[Refusal]:
    """`operator.attrgetter` and `methodcaller`, whose names must be texts."""
    given = node.args[:1] if isinstance(node, ast.Call) and called else []
    for argument in given:
        said = candidate.names.spellings.of(argument)
        if said is None:
            break
        for text in said:
            if any(part in GADGETS for part in text.split(".")):
                yield Refusal(f"It uses {text}, which leads into the interpreter.", line)
                return
    else:
        if given:
            return
    yield Refusal("It reaches an attribute whose name is only known at run time.", line)


def _match_names(candidate: Candidate, node: ast.Assign | ast.AnnAssign) -> Iterator[Refusal]:
    """`__match_args__` says which attributes a pattern reads."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        word = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
        if word != "__match_args__":
            continue
        items = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else [None]
        for item in items:
            said = candidate.names.spellings.of(item) if item is not None else None
            if said is None or any(text in GADGETS for text in said):
                yield Refusal("It reaches an attribute whose name is only known at run time.", node.lineno)
