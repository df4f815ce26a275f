"""The text that "Add get_inputs for STARK" writes: a first guess that runs and that a person can correct."""

from __future__ import annotations

import ast

from stark_lsp.core.errors import BadInput
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.guesses import (
    Guess,
    Layer,
    constructor_guess,
    evaluate,
    first_layer,
    forward_guess,
)
from stark_lsp.discovery.syntax import find_class, first_line, last_line, parse, split_lines


def inputs_stub(text: str, qualname: str) -> tuple[int, str]:
    """Return where to insert a `get_inputs` for a class, and its text.

    The functions are called `get_inputs` and `get_init_inputs` if these belong to the class by the rule of `inputs`
    and are not there yet, else `get_inputs_for_<Class>` and `get_init_inputs_for_<Class>`.

    Returns
    -------
    line, new_text
        0-based line at whose column 0 the text goes: right behind the statement that holds the class. It is one more
        than there are lines when the class ends a text without a last line end.

    Raises
    ------
    BadInput
        The text is not Python, or there is no class `qualname`.
    """
    try:
        tree = parse(text)
    except SyntaxError as error:
        raise BadInput(
            f"the file is not valid Python: {error.msg}.", cure="Mend the line first.", line=error.lineno
        ) from error
    found = find_class(tree, qualname)
    if not found:
        raise BadInput(f"there is no class {qualname} in this file.", cure="Save the file and try again.")
    node = found[-1]
    holder = next(
        statement for statement in tree.body if first_line(statement) <= node.lineno - 1 <= last_line(statement)
    )
    suffix = _suffix(text, tree, qualname)
    init = _method(tree, node, "__init__")
    forward = _method(tree, node, "forward")
    values = _constants(tree)
    construct = _constructor(tree, init, values)
    layer = first_layer(init, values)
    arguments = _forward(forward, layer)
    importing = (
        [] if _binds_torch(tree) or not any("torch." in guess.text for _, guess in arguments) else ["import torch"]
    )
    lines = _function(f"get_inputs{suffix}", f"Inputs of one call of {qualname}.", arguments, importing)
    if construct:
        title = f"Arguments {qualname} is constructed with."
        lines += ["", "", *_function(f"get_init_inputs{suffix}", title, construct, [])]
    return _placed(text, last_line(holder), lines)


def _placed(text: str, end: int, lines: list[str]) -> tuple[int, str]:
    document = split_lines(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    before = ["", ""]
    if end + 1 >= len(document) and not text.endswith(("\n", "\r")):
        before = ["", "", ""]  # the first one ends the last line
    after = ["", ""] if end + 1 < len(document) and document[end + 1].strip() else []
    return end + 1, "".join(line + newline for line in [*before, *lines, *after])


def _suffix(text: str, tree: ast.Module, qualname: str) -> str:
    """Return what the functions' names end with: nothing if plain `get_inputs` would belong to the class."""
    bound = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if not bound & {"get_inputs", "get_init_inputs"}:
        owners = find_modules(f"{text.rstrip()}\n\n\ndef get_inputs():\n    return []\n")
        if [found.qualname for found in owners if found.inputs.inputs_function == "get_inputs"] == [qualname]:
            return ""
    return f"_for_{qualname.replace('.', '_')}"


def _function(name: str, title: str, values: list[tuple[str, Guess]], importing: list[str]) -> list[str]:
    head = [
        f"def {name}():",
        f'    """{title}"""',
        *(f"    {line}" for line in importing),
        *([""] if importing else []),
    ]
    if not values:
        return [*head, "    return []"]
    body = [
        f"        {guess.text},  # {parameter}{'' if guess.sure else ': a guess, please check'}"
        for parameter, guess in values
    ]
    return [*head, "    return [", *body, "    ]"]


def _method(tree: ast.Module, node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return a method of a class or of its bases in the same file."""
    seen: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop(0)
        for statement in current.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return statement
        for base in current.bases:
            written = ast.unparse(base)
            if written not in seen and written.replace(".", "").isidentifier():
                seen.add(written)
                pending.extend(find_class(tree, written)[-1:])
    return None


def _parameters(function: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the positional parameters behind `self`, each with its default."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(function.args.defaults))
    return list(zip(arguments, [*defaults, *function.args.defaults], strict=True))[1:]


def _constructor(tree: ast.Module, init: ast.FunctionDef | None, values: dict[str, int]) -> list[tuple[str, Guess]]:
    """Return guesses for the constructor's required parameters, and note in `values` what all of them stand for."""
    if init is None:
        return []
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    guesses: list[tuple[str, Guess]] = []
    for argument, default in _parameters(init):
        if default is None:
            guess = constructor_guess(argument.arg, argument.annotation, classes)
            guesses.append((argument.arg, guess))
            default = ast.parse(guess.text, mode="eval").body
        number = evaluate(default, values)
        if number is None and isinstance(default, ast.Tuple) and default.elts:
            number = evaluate(default.elts[-1], values)
        values.pop(argument.arg, None)
        if number is not None:
            values[argument.arg] = number
    return guesses


def _forward(forward: ast.FunctionDef | None, layer: Layer | None) -> list[tuple[str, Guess]]:
    if forward is None:
        return [("x", forward_guess("x", None, layer, first=True))]
    required = [argument for argument, default in _parameters(forward) if default is None]
    return [
        (argument.arg, forward_guess(argument.arg, argument.annotation, layer, first=index == 0))
        for index, argument in enumerate(required)
    ]


def _constants(tree: ast.Module) -> dict[str, int]:
    values: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            number = evaluate(node.value, values)
            for target in node.targets:
                if isinstance(target, ast.Name) and number is not None:
                    values[target.id] = number
    return values


def _binds_torch(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Import)
        and any(
            alias.asname == "torch" or (not alias.asname and alias.name.partition(".")[0] == "torch")
            for alias in node.names
        )
        for node in tree.body
    )
