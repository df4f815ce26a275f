"""What a constructor is given, as far as the text of its file tells: numbers, layers, configurations, other blocks."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from stark_lsp.discovery.drafting.annotations import kind_of, parsed
from stark_lsp.discovery.drafting.constructors import (
    UNKNOWN,
    Constructor,
    Layer,
    Namespace,
    evaluate,
    lineage,
    method,
    parameters,
)
from stark_lsp.discovery.drafting.drafts import Argument, Plain, Record, Tensor, Value
from stark_lsp.discovery.drafting.examples import blocks_given, constructed, seen, usual
from stark_lsp.discovery.drafting.guesses import constructor_guess, is_config, layer_class, namespace_guess
from stark_lsp.discovery.syntax import find_class

NESTED = 2
"""How deep blocks of the file are constructed inside each other."""


def init_arguments(tree: ast.Module, node: ast.ClassDef, depth: int = 0) -> list[Argument]:
    """Return values for the parameters of a class's constructor that have no default.

    Parameters
    ----------
    depth
        How many classes of the file are being constructed around it.
    """
    classes = {statement.name: statement for statement in tree.body if isinstance(statement, ast.ClassDef)}
    init = method(tree, node, "__init__")
    planes = any(re.search("[cC]onv(_|2d|[A-Z]|$)", word) for word in re.findall(r"\w+", ast.unparse(node)))
    required = [part for part in (parameters(init) if init is not None else ()) if part[1] is None]
    written = constructed(tree, node.name, [argument.arg for argument, _, _ in required])
    given = usual(tree)
    found: list[Argument] = []
    for argument, _, named in required:
        value = constructor_guess(
            argument.arg, argument.annotation, classes, _compared(init, argument.arg), planes=planes
        )
        value = written.get(argument.arg) or _layer(tree, node, argument, seen(argument, value, given), depth)
        if isinstance(value, Record) and (is_config(argument.arg) or value.maker.endswith("Config")):
            value = _configuration(tree, node, argument.arg, value, classes)
        found.append(Argument(argument.arg, value, named))
    return found


def _configuration(
    tree: ast.Module, node: ast.ClassDef, name: str, value: Record, classes: dict[str, ast.ClassDef]
) -> Record:
    """Return a configuration: of the file's own class if one fits, else a namespace with what is read from it."""
    if value.maker != "SimpleNamespace":
        return value
    wanted = _attributes(tree, node, name)
    for found in classes.values():
        fields = _own_fields(found)
        if found.name.endswith(("Config", "Args", "Cfg", "Params", "Options", "Settings")) and (set(wanted) & fields):
            made = constructor_guess(name, ast.Name(found.name), classes)
            if isinstance(made, Record):
                return made
    imported = [
        alias.asname or alias.name
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.name.endswith("Config") and not alias.name.startswith("PreTrained")
    ]
    if imported:
        # The one that is called most like the class.
        imported.sort(key=lambda maker: -_alike(maker.removesuffix("Config"), node.name))
        return Record(imported[0], others=(*imported[1:], "SimpleNamespace"))
    return replace(value, fields=tuple((field, namespace_guess(field)) for field in wanted))


def _alike(one: str, other: str) -> int:
    """Return how many characters two names begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _own_fields(node: ast.ClassDef) -> set[str]:
    found = {s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "self":
            found.add(part.attr)
        if isinstance(part, ast.Assign):
            found |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return found


def _attributes(tree: ast.Module, node: ast.ClassDef, name: str) -> list[str]:
    """Return the attributes that are read from a configuration, by the class and those it passes it to."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    pending = lineage(tree, node)
    while pending:
        current = pending.pop(0)
        if current.name in seen:
            continue
        seen.add(current.name)
        for part in ast.walk(current):
            if isinstance(part, ast.Attribute) and ast.unparse(part.value) in (name, f"self.{name}"):
                found[part.attr] = None
            if isinstance(part, ast.Call) and any(
                ast.unparse(argument) in (name, f"self.{name}")
                for argument in (*part.args, *(keyword.value for keyword in part.keywords))
            ):
                pending += (
                    find_class(tree, ast.unparse(part.func))[-1:] if ast.unparse(part.func).isidentifier() else []
                )
    return list(found)


def _compared(init: ast.FunctionDef | None, name: str) -> tuple[str, ...]:
    """Return the texts that a parameter is compared with."""
    found: list[str] = []
    for part in ast.walk(init) if init is not None else ():
        if isinstance(part, ast.Compare) and getattr(part.left, "id", "") == name:
            for side in part.comparators:
                items = side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
                found += [
                    item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
                ]
    return tuple(text for text in found if text)


def _layer(tree: ast.Module, node: ast.ClassDef, argument: ast.arg, value: Value, depth: int) -> Value:
    """Return a layer, or a class of layers, for a parameter that is used as one; else the value."""
    name, kind = argument.arg, kind_of(argument.annotation)
    if isinstance(value, Record) and depth < NESTED:
        return next((nested(tree, one, depth) for one in blocks(tree) if one.name == value.maker), value)
    if not isinstance(value, Plain) or kind in ("str", "int", "float", "bool"):
        return value
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]
    if made:
        fitting = _fitting(tree, node, argument, made[0])
        if fitting is not None:
            return Plain(fitting.name, sure=False)
        return value if value.text.startswith("nn.") else layer_class(name)
    kept = {
        ast.unparse(target)
        for part in ast.walk(method(tree, node, "__init__") or node)
        if isinstance(part, ast.Assign)
        for target, given in _pairs(part)
        if getattr(given, "id", "") == name
    }
    if any(ast.unparse(call.func) in kept for call in calls if isinstance(call.func, ast.Attribute)):
        fitting = _fitting(tree, node, argument, None) if depth < NESTED else None
        if fitting is not None:
            return nested(tree, fitting, depth)
        return Plain("nn.GELU()" if "act" in name else "nn.Identity()", sure=False)
    return value


def _pairs(statement: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Return what is assigned to what, one by one."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            found += zip(target.elts, statement.value.elts, strict=False)
        else:
            found.append((target, statement.value))
    return found


def blocks(tree: ast.Module) -> list[ast.ClassDef]:
    """Return the classes of a file that can be called with tensors."""
    found = [statement for statement in tree.body if isinstance(statement, ast.ClassDef)]
    return [one for one in found if not _abstract(tree, one) and method(tree, one, "forward") is not None]


def _abstract(tree: ast.Module, node: ast.ClassDef) -> bool:
    forward = method(tree, node, "forward")
    return any(ast.unparse(base).endswith("ABC") for base in node.bases) or (
        forward is not None and "NotImplementedError" in ast.unparse(forward.body[-1])
    )


def nested(tree: ast.Module, node: ast.ClassDef, depth: int) -> Record:
    """Return the construction of a block of the file, as the argument of another."""
    arguments = init_arguments(tree, node, depth + 1)
    return Record(node.name, tuple((argument.name, argument.value) for argument in arguments), block=True)


_SAYS_CLASS = re.compile(r"_(layer|type|cls|class|fn|func|builder|module|constructor)$")


def _fitting(tree: ast.Module, node: ast.ClassDef, argument: ast.arg, made: ast.Call | None) -> ast.ClassDef | None:
    """Return the class of the file that a parameter most likely stands for, or an instance of which.

    It is one that the file gives the name elsewhere, or one of the annotation, or one that is called alike.

    Parameters
    ----------
    made
        A call of the parameter, if it stands for a class.
    """
    found = [one for one in blocks(tree) if one.name != node.name and (made is None or _takes(tree, one, made))]
    annotated = ast.unparse(argument.annotation) if argument.annotation is not None else ""
    given = {*blocks_given(tree, argument.arg), *re.findall(r"\w+", annotated)}
    for one in found:
        if one.name in given:
            return one
    word = _SAYS_CLASS.sub("", argument.arg).replace("_", "").lower()
    if len(word) < 3 or re.search("norm|^act|drop|^fn$", word):
        return None
    for fits in (str.__eq__, str.endswith, *((str.startswith,) if made is not None else ())):
        for one in found:
            if fits(one.name.lower(), word):
                return one
    return None


def _takes(tree: ast.Module, node: ast.ClassDef, call: ast.Call) -> bool:
    """Whether a class can be constructed with as many arguments, and those names."""
    init = method(tree, node, "__init__")
    pairs = parameters(init) if init is not None else []
    names = [argument.arg for argument, _, _ in pairs]
    given = {*names[: len(call.args)], *(keyword.arg for keyword in call.keywords)}
    if any(isinstance(part, ast.Starred) for part in call.args) or None in given:
        return True
    required = {argument.arg for argument, default, _ in pairs if default is None}
    others = init is not None and init.args.kwarg is not None
    return len(call.args) <= len(names) and required <= given and (others or given <= {*names})


def known(value: Value, classes: dict[str, ast.ClassDef], names: Namespace) -> Any:
    """Return what a value stands for, as far as the text tells; a configuration as its fields, a block as a layer."""
    if isinstance(value, Record) and value.block:
        return Layer(value.maker, [], {name: known(inner, classes, names) for name, inner in value.fields}, bare=True)
    if isinstance(value, Record):
        fields: Namespace = {}
        if value.maker in classes:
            made = classes[value.maker]
            fields.update(
                {
                    s.target.id: evaluate(s.value, names)
                    for s in made.body
                    if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.value is not None
                }
            )
            tree = ast.Module([made], [])
            fields.update({k: v for k, v in Constructor(tree, made, [], {}).own.items() if v is not UNKNOWN})
        fields.update({name: known(inner, classes, names) for name, inner in value.fields})
        return fields
    node = parsed(value.text)
    return evaluate(node, {}) if node is not None and not isinstance(value, Tensor) else UNKNOWN
