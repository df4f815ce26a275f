"""What outlives a call: attributes of `self`, globals, and what a forward pass does with them."""

from __future__ import annotations

import ast
from typing import Union

from ..candidate import Candidate
from ..names import own_nodes
from ..words import listed

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]  # noqa: UP007 - Python 3.9


_VIEWS = listed(
    "view reshape view_as detach squeeze unsqueeze narrow expand expand_as t transpose permute flatten "
    "unflatten select contiguous get setdefault pop to type as_strided alias"
)
_EMPTY = listed("empty empty_like empty_strided new_empty zeros zeros_like new_zeros full ones")
_WRITES = listed("append add setdefault update insert extend appendleft pop clear")


def forward_parameters(candidate: Candidate) -> set[str]:
    found: set[str] = set()
    for forward in candidate.forwards:
        if isinstance(forward, (ast.FunctionDef, ast.Lambda)):
            found |= {argument.arg for argument in forward.args.args[1:]}
    return found


def root_of(candidate: Candidate, node: ast.AST) -> str:
    """Return `self.name` or `name` if an expression is state that outlives the call, else an empty text."""
    while True:
        if isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            node = node.func.value
        elif (
            isinstance(node, ast.Call)
            and "builtins.getattr" in candidate.names.of(node.func)
            and len(node.args) > 1
            and isinstance(node.args[0], ast.Name)
        ):
            said = candidate.folder.fold(node.args[1])
            own = node.args[0].id == "self" or node.args[0].id in candidate.classes
            return f"self.{said.value}" if said and own else ""
        else:
            break
    if isinstance(node, ast.Attribute):
        owner = node.value
        if isinstance(owner, ast.Name) and (owner.id == "self" or owner.id in candidate.classes):
            return f"self.{node.attr}"
        if (isinstance(owner, ast.Attribute) and owner.attr == "__class__") or (
            isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "type"
        ):
            return f"self.{node.attr}"
        if any(path.endswith(".__dict__") for path in candidate.names.of(node)):
            return "self.?"
    if isinstance(node, ast.Name):
        scope = candidate.scopes.of.get(node, candidate.scopes.top)
        bounds = scope.find(node.id)
        if (
            bounds is not None
            and candidate.scopes.top.names.get(node.id) is bounds
            and scope is not candidate.scopes.top
        ):
            return node.id
        # A default of a parameter is kept between calls as well.
        if bounds and any(
            isinstance(bound.source, (ast.Dict, ast.List)) and bound.scope.node is not scope.node for bound in bounds
        ):
            return node.id
    return ""


def held(candidate: Candidate, function: Function, node: ast.AST, depth: int) -> str:
    """Return the state that an expression is, through local names."""
    if depth > 4:
        return ""
    root = root_of(candidate, node)
    if root:
        return root
    base = node
    while True:
        if isinstance(base, ast.Subscript):
            base = base.value
        elif isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr in _VIEWS:
            base = base.func.value
        else:
            break
    if isinstance(base, ast.Name):
        for part in own_nodes(function):
            values: list[ast.expr] = []
            if isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) and t.id == base.id for t in part.targets):
                values = [part.value]
                # `self.out = y = ...`: the same tensor is kept.
                for target in part.targets:
                    kept = root_of(candidate, target)
                    if kept and kept != base.id:
                        return kept
            elif isinstance(part, ast.NamedExpr) and part.target.id == base.id:
                values = [part.value]
            for value in values:
                found = held(candidate, function, value, depth + 1)
                if found:
                    return found
    if isinstance(node, ast.IfExp):
        return held(candidate, function, node.body, depth + 1) or held(candidate, function, node.orelse, depth + 1)
    if isinstance(node, ast.NamedExpr):
        return held(candidate, function, node.value, depth + 1)
    return ""


def written_in(candidate: Candidate) -> set[str]:
    """Return the state that a forward pass assigns, without libraries and compiled functions."""
    found: set[str] = set()
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            targets: list[tuple[ast.expr, ast.expr | None]] = []
            if isinstance(node, ast.Assign):
                targets = [(target, node.value) for target in node.targets]
            elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
                targets = [(node.target, node.value)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITES:
                targets = [(node.func.value, node.args[-1] if node.args else None)]
            elif (
                isinstance(node, ast.Call)
                and "builtins.setattr" in candidate.names.of(node.func)
                and len(node.args) > 2
            ):
                said = candidate.folder.fold(node.args[1])
                found.add(f"self.{said.value if said else '?'}")
            for target, value in targets:
                for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    root = root_of(candidate, one)
                    if root and not (value is not None and is_tool(candidate, value)):
                        found.add(root)
    return found


def is_tool(candidate: Candidate, value: ast.expr) -> bool:
    """Whether a value is a library, a compiled function or a plain number rather than a tensor."""
    if isinstance(value, (ast.Constant, ast.Compare, ast.BoolOp)):
        return True
    paths = candidate.names.of(value)
    if any("cpp_extension" in path or path.startswith(("ctypes.", "torch.compile")) for path in paths):
        return True
    if isinstance(value, ast.Call):
        return any(
            path.startswith(("torch.compile", "ctypes.", "torch.jit.")) for path in candidate.names.of(value.func)
        )
    return False


def buffers(candidate: Candidate) -> set[str]:
    """Return what is made as room for results: empty tensors, or zeros that a forward pass writes into."""
    found: set[str] = set()
    filled = _filled(candidate)
    for cls in candidate.classes.values():
        for name, bounds in candidate.scopes.attributes.get(cls, {}).items():
            if any(_is_room(candidate, bound.source, f"self.{name}" in filled) for bound in bounds):
                found.add(f"self.{name}")
        for node in ast.walk(cls):
            method = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            if isinstance(node, ast.Call) and method == "register_buffer" and len(node.args) > 1:
                said = candidate.folder.fold(node.args[0])
                name = f"self.{said.value if said else '?'}"
                if _is_room(candidate, node.args[1], name in filled):
                    found.add(name)
    for name, bounds in candidate.scopes.top.names.items():
        if any(_is_room(candidate, bound.source, name in filled) for bound in bounds):
            found.add(name)
    return found


def _is_room(candidate: Candidate, source: object, filled: bool) -> bool:
    if not isinstance(source, ast.Call):
        return False
    name = next((path.split(".")[-1] for path in candidate.names.of(source.func) if path.startswith("torch.")), "")
    if not name and isinstance(source.func, ast.Attribute):
        name = source.func.attr
    return name in _EMPTY and (name.startswith(("empty", "new_empty")) or filled)


def _filled(candidate: Candidate) -> set[str]:
    """Return the state that is given to calls in a forward pass, which may write into it."""
    found: set[str] = set()
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            if isinstance(node, ast.Call):
                inputs = [*node.args, *(word.value for word in node.keywords)]
                if (
                    isinstance(node.func, ast.Attribute)
                    and node.func.attr.endswith("_")
                    and not node.func.attr.startswith("_")
                ):
                    found.add(root_of(candidate, node.func.value))
                for argument in inputs:
                    inner = argument
                    if (
                        isinstance(inner, ast.Call)
                        and isinstance(inner.func, ast.Attribute)
                        and inner.func.attr == "data_ptr"
                    ):
                        inner = inner.func.value
                    found.add(root_of(candidate, inner))
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                found.add(root_of(candidate, node.value))
    found.discard("")
    return found
