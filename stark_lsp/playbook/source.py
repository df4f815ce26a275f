"""Editing the user's class as text: rename it, keep its forward under another name, put a new one beside it."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stark_lsp.core.editing import split_lines
from stark_lsp.discovery.syntax import blocks

NEW_NAME = "ModelNew"
OLD_FORWARD = "_forward_pytorch"


class CannotEdit(Exception):
    """The class is written in a way this cannot edit; `str()` says which, for a person."""


@dataclass(frozen=True)
class Forward:
    """The user's forward: how it is called."""

    header: str
    """`def forward(…) -> …:` as written, with decorators, dedented to the class body's level."""
    parameters: tuple[str, ...]
    """Names of all parameters but self."""
    call: str
    """What to pass on, for instance `x, mask=mask`."""
    optional: frozenset[str]
    """Names of those that are None where nothing is given."""


@dataclass(frozen=True)
class UserClass:
    """The user's class in its slice."""

    text: str
    """The slice."""
    node: ast.ClassDef
    tree: ast.Module
    name: str
    top_level: bool
    forward: Forward


def find_user_class(text: str, qualname: str) -> UserClass:
    """Find the class and its forward in a slice.

    Raises
    ------
    CannotEdit
        The class stands inside a function, or has no forward that can be found.
    """
    tree = ast.parse(text)
    body: list[ast.stmt] = tree.body
    node: ast.ClassDef | None = None
    parts = qualname.split(".")
    for part in parts:
        node = _last_class(body, part)
        if node is None:
            raise CannotEdit(f"class {qualname} stands inside a function, where a new class cannot be put beside it")
        body = node.body
    assert node is not None
    forward = _forward_of(tree, node)
    if forward is None and _binds_forward(node):
        raise CannotEdit(f"the forward of class {qualname} is no plain `def` in its body")
    if forward is None:
        raise CannotEdit(f"class {qualname} has no forward of its own, and its base class is in another file")
    return UserClass(text, node, tree, node.name, len(parts) == 1 and node in tree.body, forward)


def _last_class(body: list[ast.stmt], name: str) -> ast.ClassDef | None:
    found = None
    for statement in body:
        if isinstance(statement, ast.ClassDef) and statement.name == name:
            found = statement
        elif not isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            # A fallback stands behind `except ImportError`.
            for inner in blocks(statement):
                found = _last_class(inner, name) or found
    return found


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((s for s in reversed(node.body) if isinstance(s, ast.FunctionDef) and s.name == name), None)


def _binds_forward(node: ast.ClassDef) -> bool:
    """Whether a class has a forward that is no method of its body, as `forward = _fast` or one within an `if`."""
    others = [one for one in node.body if not isinstance(one, (ast.FunctionDef, ast.ClassDef))]
    return any(
        getattr(item, "name", "") == "forward"
        or (isinstance(item, ast.Name) and item.id == "forward" and isinstance(item.ctx, ast.Store))
        for statement in others
        for item in ast.walk(statement)
    )


def _forward_of(tree: ast.Module, node: ast.ClassDef) -> Forward | None:
    """Return the forward of a class, or of the first of its bases in the file that has one."""
    method = _method(node, "forward")
    if method is not None:
        return _describe(method)
    # Of a generic base, `Base[int]`, it is the class.
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    parents = [_last_class(tree.body, base.id) for base in bases if isinstance(base, ast.Name)]
    found = (_forward_of(tree, parent) for parent in parents if parent is not None)
    return next((forward for forward in found if forward is not None), None)


def _describe(method: ast.FunctionDef) -> Forward:
    if method.decorator_list:
        raise CannotEdit("forward has a decorator, and what it does cannot be seen")
    if not method.args.args and not method.args.posonlyargs:
        raise CannotEdit("forward does not take self by name")
    a = method.args
    names = [*(p.arg for p in a.posonlyargs), *(p.arg for p in a.args)][1:]
    call = list(names)
    if a.vararg:
        names.append(a.vararg.arg)
        call.append(f"*{a.vararg.arg}")
    for extra in a.kwonlyargs:
        names.append(extra.arg)
        call.append(f"{extra.arg}={extra.arg}")
    if a.kwarg:
        names.append(a.kwarg.arg)
        call.append(f"**{a.kwarg.arg}")
    if (a.posonlyargs or a.args)[0].arg != "self":
        raise CannotEdit(f"the first parameter of forward is called {(a.posonlyargs or a.args)[0].arg}, not self")
    returns = f" -> {ast.unparse(method.returns)}" if method.returns is not None else ""
    header = f"def forward({ast.unparse(a)}){returns}:"
    plain = [*a.posonlyargs, *a.args][-len(a.defaults) or len(a.args) + len(a.posonlyargs) :]
    given = zip([*plain, *a.kwonlyargs], [*a.defaults, *a.kw_defaults], strict=True)
    optional = {one.arg for one, default in given if isinstance(default, ast.Constant) and default.value is None}
    return Forward(header, tuple(names), ", ".join(call), frozenset(optional))


def always_there(user: UserClass, target: str) -> bool:
    """Whether a tensor such as `self.weight` is made by every constructor, so that it is never None.

    True only where the class itself assigns or registers it, each time what a call returns, and not inside a condition
    or an expression that chooses.
    """
    name = target.removeprefix("self.")
    if not name.isidentifier():
        return False
    constructor = _method(user.node, "__init__")
    made = [] if constructor is None else [s for s in constructor.body if _gives(s, name) is not None]
    every = [s for s in ast.walk(user.tree) if isinstance(s, ast.stmt) and _gives(s, name) is not None]
    return bool(made) and all(isinstance(_gives(s, name), ast.Call) and _is_tensor_call(_gives(s, name)) for s in every)


def _gives(statement: ast.stmt, name: str) -> ast.expr | None:
    """Return what a statement stores under an attribute, None if it does not store there."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        inside = [item for target in targets for item in ast.walk(target)]
        if any(isinstance(item, ast.Attribute) and item.attr == name for item in inside):
            return statement.value or ast.Constant(None)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        registers = isinstance(call.func, ast.Attribute) and call.func.attr in ("register_buffer", "register_parameter")
        if registers and len(call.args) > 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == name:
            return call.args[1]
    return None


def _is_tensor_call(value: ast.expr | None) -> bool:
    """Whether a call makes a tensor by the looks of it: `nn.Parameter(…)`, `torch.ones(…)`."""
    if not isinstance(value, ast.Call):
        return False
    called = ast.unparse(value.func)
    return called.rpartition(".")[2] == "Parameter" or called.startswith("torch.")


def renamed_class(user: UserClass, new_forward: list[str], extra: Sequence[str] = (), *, keep_old: bool) -> list[str]:
    """Return the lines of the class as `ModelNew`, with the new forward.

    Parameters
    ----------
    new_forward
        Lines of the new forward, not indented.
    extra
        Lines for the class body before it (attributes and helpers), not indented.
    keep_old
        Keep the old forward as `_forward_pytorch`; otherwise the new one takes its place.
    """
    lines = split_lines(user.text)
    head = lines[user.node.lineno - 1]
    column = head.find(user.name, head.index("class", user.node.col_offset) + 5)
    if column < 0:
        raise CannotEdit(f"the name of class {user.name} does not stand on the line of its `class`")
    edits = [(user.node.lineno - 1, column, column + len(user.name), NEW_NAME)]
    for item in ast.walk(user.node):
        if isinstance(item, ast.Name) and item.id == user.name and item.lineno > user.node.lineno:
            start = len(lines[item.lineno - 1].encode()[: item.col_offset].decode())
            edits.append((item.lineno - 1, start, start + len(user.name), NEW_NAME))
    method = _method(user.node, "forward")
    if method is not None and keep_old:
        text = lines[method.lineno - 1]
        column = text.find("forward", text.index("def") + 3)
        if column < 0:
            raise CannotEdit(f"the name of {user.name}'s forward does not stand on the line of its `def`")
        edits.append((method.lineno - 1, column, column + len("forward"), OLD_FORWARD))
    for row, start, end, new in sorted(edits, reverse=True):
        lines[row] = lines[row][:start] + new + lines[row][end:]
    first, last = class_lines(user)
    indent = head[: user.node.col_offset]
    body_indent = _body_indent(lines, user.node)
    inserted = [f"{body_indent}{line}" if line else "" for line in [*extra, *new_forward, ""]]
    at = rest = last + 1 if method is None else method.lineno - 1
    if method is None:
        kept = [f"def {OLD_FORWARD}(self, *args, **kwargs):", "    return super().forward(*args, **kwargs)"]
        inserted = ["", *inserted, *(f"{body_indent}{line}" for line in kept)] if keep_old else ["", *inserted[:-1]]
    elif not keep_old:
        rest = method.end_lineno or method.lineno
        inserted = inserted[:-1]
        if ast.get_docstring(method) is not None:
            told = method.body[0]
            header = len(extra) + 1
            inserted[header:header] = lines[told.lineno - 1 : told.end_lineno]
    result = [*lines[first:at], *inserted, *lines[rest : last + 1]]
    return [line[len(indent) :] if line.startswith(indent) else line for line in result]


def _body_indent(lines: list[str], node: ast.ClassDef) -> str:
    text = lines[node.body[0].lineno - 1]
    if node.body[0].lineno == node.lineno:
        raise CannotEdit("the class is written on one line")
    return text[: len(text) - len(text.lstrip())]


def class_lines(user: UserClass) -> tuple[int, int]:
    """Return the first and the last line (0-based, included) of the class in its slice."""
    first = min([user.node.lineno, *(d.lineno for d in user.node.decorator_list)]) - 1
    return first, (user.node.end_lineno or user.node.lineno) - 1


def used_elsewhere(user: UserClass) -> bool:
    """Whether other statements of the slice refer to the class."""
    return any(
        isinstance(item, ast.Name) and item.id == user.name
        for statement in user.tree.body
        if statement is not user.node
        for item in ast.walk(statement)
    )


def module_names(tree: ast.Module) -> set[str]:
    """Return every name that the slice binds or uses at module level."""
    names: set[str] = set()
    for item in ast.walk(tree):
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            names.add(item.name)
        elif isinstance(item, ast.alias):
            names.add((item.asname or item.name).partition(".")[0])
    for statement in tree.body:
        for item in ast.walk(statement):
            if (
                isinstance(item, ast.Name)
                and isinstance(item.ctx, ast.Store)
                and isinstance(statement, (ast.Assign, ast.AnnAssign))
            ):
                names.add(item.id)
    return names


def spelled(tree: ast.Module) -> dict[str, str]:
    """Return how a slice calls the modules it imports at module level, for instance `torch.nn.functional: F`."""
    names: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname is not None:
                    names[alias.name] = alias.asname
                else:
                    names.setdefault(alias.name.partition(".")[0], alias.name.partition(".")[0])
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                names.setdefault(f"{statement.module}.{alias.name}", alias.asname or alias.name)
    return names


def beside(tree: ast.Module, library: str) -> tuple[str, Callable[[str], str]]:
    """Return what stands beside a class as its file leaves room for it, and what renames it elsewhere.

    A file with accepted classes has such helpers already: one that is there alike is not written again, and one that
    is another, or reads another, has a name of its own.
    """
    ours, theirs = _definitions(ast.parse(library)), _definitions(tree)
    apart = {name for name in ours.keys() & theirs.keys() if ast.dump(ours[name]) != ast.dump(theirs[name])}
    alike = (ours.keys() & theirs.keys()) - apart
    while reading := {name for name in alike if apart & {getattr(each, "id", "") for each in ast.walk(ours[name])}}:
        apart, alike = apart | reading, alike - reading
    begins = {
        name: min(each.lineno for each in [ours[name], *getattr(ours[name], "decorator_list", [])]) for name in alike
    }
    rows = {row for name, line in begins.items() for row in range(line - 1, ours[name].end_lineno or line)}
    left = "\n".join(line for row, line in enumerate(split_lines(library)) if row not in rows)
    tag = hashlib.sha256(library.encode()).hexdigest()[:6]
    pattern = re.compile(rf"\b({'|'.join(sorted(apart)) or '(?!)'})\b")

    def renamed(text: str) -> str:
        return pattern.sub(rf"\1_{tag}", text)

    return renamed(left), renamed


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return functions, classes and constants of a file by name, and other statements by what they say."""
    found: dict[str, ast.stmt] = {}
    for one in tree.body:
        inside = one.body if isinstance(one, ast.If) else [one]  # `if triton is not None:`
        bound = [each.name for each in inside if isinstance(each, (ast.FunctionDef, ast.ClassDef))]
        if isinstance(one, ast.Assign):
            bound = [item.id for target in one.targets for item in ast.walk(target) if isinstance(item, ast.Name)]
        found |= dict.fromkeys(bound or [ast.unparse(one)], one)
    return found
