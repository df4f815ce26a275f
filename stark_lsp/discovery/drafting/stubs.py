"""What "Add get_inputs for STARK" writes: from a class to a draft of its inputs, from a draft to functions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from stark_lsp.core.editing import newline_of
from stark_lsp.core.errors import BadInput
from stark_lsp.core.parsing import PYTHON
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.drafting.arguments import init_arguments, known
from stark_lsp.discovery.drafting.constructors import (
    UNKNOWN,
    Constructor,
    Namespace,
    constants,
    evaluate,
    method,
    parameters,
)
from stark_lsp.discovery.drafting.drafts import Argument, Draft, Plain, Several, Tensor, Value, function
from stark_lsp.discovery.drafting.examples import usual
from stark_lsp.discovery.drafting.flow import forward_facts
from stark_lsp.discovery.drafting.guesses import EDGES, LENGTH, PLANE, WIDTH, call_guess, size_of
from stark_lsp.discovery.drafting.wants import Facts
from stark_lsp.discovery.slicing import Definition
from stark_lsp.discovery.syntax import find_class, first_line, last_line, parse, split_lines


@dataclass(frozen=True)
class Stub:
    """Where the functions of a class's inputs go, and what they are called."""

    qualname: str
    line: int
    """0-based line at whose column 0 the text goes: right behind the statement that holds the class. It is one more
    than there are lines when the class ends a text without a last line end."""
    suffix: str
    """What the names end with: nothing, or `_for_` and the class."""
    bound: frozenset[str]
    """Names that the file binds at its top level."""
    draft: Draft
    """What the text alone tells."""
    document: str

    def functions(self, draft: Draft, suffix: str = "") -> tuple[str, str]:
        """Return the text of `get_init_inputs`, empty if there are no arguments, and of `get_inputs`."""
        init = function(
            f"get_init_inputs{suffix}", f"Arguments {self.qualname} is constructed with.", draft.init, self.bound
        )
        call = function(f"get_inputs{suffix}", f"Inputs of one call of {self.qualname}.", draft.call, self.bound)
        return "\n".join(init) + "\n" if draft.init else "", "\n".join(call) + "\n"

    def text(self, draft: Draft, note: str = "") -> str:
        """Return what is inserted; a `note` goes before the functions as a comment."""
        init, call = self.functions(draft, self.suffix)
        lines = [*([f"# {note}"] if note else []), *split_lines(call), *(["", "", *split_lines(init)] if init else [])]
        return _placed(self.document, self.line - 1, lines)


def make_stub(text: str, qualname: str, path: str | None = None) -> Stub:
    """Read a class.

    The functions are called `get_inputs` and `get_init_inputs` if these belong to the class by the rule of `inputs`
    and are not there yet, else `get_inputs_for_<Class>` and `get_init_inputs_for_<Class>`.

    Raises
    ------
    BadInput
        The text is not Python, or there is no class `qualname`.
    """
    try:
        tree = parse(text)
    except SyntaxError as error:
        raise BadInput(
            f"the file is not valid {PYTHON}: {error.msg}.", cure="Mend the line first.", line=error.lineno
        ) from error
    found = find_class(tree, qualname)
    if not found:
        raise BadInput(f"there is no class {qualname} in this file.", cure="Save the file and try again.")
    node = found[-1]
    holder = next(
        statement for statement in tree.body if first_line(statement) <= node.lineno - 1 <= last_line(statement)
    )
    return Stub(
        qualname=qualname,
        line=last_line(holder) + 1,
        suffix=_suffix(text, tree, qualname, path),
        bound=_bound(tree),
        draft=_draft(tree, node),
        document=text,
    )


def _placed(text: str, end: int, lines: list[str]) -> str:
    document = split_lines(text)
    newline = newline_of(text)
    before = ["", ""]
    if end + 1 >= len(document) and not text.endswith(("\n", "\r")):
        before = ["", "", ""]  # the first one ends the last line
    after = ["", ""] if end + 1 < len(document) and document[end + 1].strip() else []
    return "".join(line + newline for line in [*before, *lines, *after])


def _suffix(text: str, tree: ast.Module, qualname: str, path: str | None) -> str:
    """Return what the functions' names end with: nothing if plain `get_inputs` would belong to the class."""
    bound = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if not bound & {"get_inputs", "get_init_inputs"}:
        owners = find_modules(f"{text.rstrip()}\n\n\ndef get_inputs():\n    return []\n", path)
        if [found.qualname for found in owners if found.inputs.inputs_function == "get_inputs"] == [qualname]:
            return ""
    return f"_for_{qualname.replace('.', '_')}"


def _bound(tree: ast.Module) -> frozenset[str]:
    """Return the names that imports and definitions at the top level bind."""
    wanted = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    return frozenset(name for node in tree.body if isinstance(node, wanted) for name in Definition(node).binds)


def _draft(tree: ast.Module, node: ast.ClassDef) -> Draft:
    classes = {statement.name: statement for statement in tree.body if isinstance(statement, ast.ClassDef)}
    arguments = init_arguments(tree, node)
    values = {argument.name: known(argument.value, classes, constants(tree)) for argument in arguments}
    owner = Constructor(tree, node, [], values)
    return Draft(tuple(arguments), tuple(_call(owner, tree, node, values)), usual(tree))


def _call(owner: Constructor, tree: ast.Module, node: ast.ClassDef, values: Namespace) -> list[Argument]:
    facts = forward_facts(owner)
    forward = method(tree, node, "forward")
    width, heads = _width(owner, values), _heads(owner)
    if forward is None:
        return [Argument("x", call_guess("x", None, facts.get("x", Facts()), width, heads))]
    _documented(forward, node, facts)
    arguments: list[Argument] = []
    made: dict[str, Value] = {}
    names = {argument.arg.lower() for argument, _, _ in parameters(forward)}
    for argument, default, named in parameters(forward):
        if default is not None:
            continue
        fact = facts.get(argument.arg, Facts())
        value = call_guess(argument.arg, argument.annotation, fact, width, heads)
        if (
            argument.annotation is None
            and argument.arg.lower() in PLANE
            and fact == Facts()
            and len(names & {*PLANE}) == 2
        ):
            value = Plain(PLANE[argument.arg.lower()])
        if isinstance(value, Several) and fact.parts:
            parts = [
                call_guess(argument.arg, None, facts.get(f"{argument.arg}.{i}", Facts()), width, heads)
                for i in range(fact.parts)
            ]
            value = Several(tuple(parts), value.brackets)
        if EDGES in names and isinstance(value, Tensor) and value.kind == "randn" and fact.rank in (None, 2):
            # A row for each node, or for each edge.
            rows = 2 * LENGTH if "edge" in argument.arg.lower() else LENGTH
            last = () if argument.arg.lower() == "edge_weight" else value.shape[-1:]
            value = replace(value, shape=(rows, *last))
        other = made.get(fact.like)
        if isinstance(value, Tensor) and isinstance(other, Tensor) and fact.rank is None and value.kind == "randn":
            value = replace(value, shape=other.shape)
        made[argument.arg] = value
        arguments.append(Argument(argument.arg, value, named))
    if forward.args.vararg is not None and not arguments:
        value = call_guess(forward.args.vararg.arg, None, facts.get(forward.args.vararg.arg, Facts()), width, heads)
        arguments.append(Argument(forward.args.vararg.arg, value, spread=True))
    return arguments


_WIDTHS = re.compile(
    r"^(in_)?(dim|hidden_size|hidden_dim|n_embd|d_model|embed_dim|embedding_dim|channels|in_channels|inplanes|"
    r"in_features|input_dim|input_size|width|planes|in_chs|num_features|features|in_dim|size|inp|c1)$"
)


def _width(owner: Constructor, values: Namespace) -> int:
    """Return the size that inputs of the class most likely have: what its constructor calls a width."""
    flat: Namespace = {}
    for place in (values, owner.own):
        for name, value in place.items():
            flat.setdefault(name, value)
            if isinstance(value, dict):
                for inner, size in value.items():
                    flat.setdefault(inner, size)
    init = method(owner.tree, owner.node, "__init__")
    for argument, default, _ in parameters(init) if init is not None else ():
        flat.setdefault(argument.arg, evaluate(default, {}) if default is not None else UNKNOWN)
    for name, value in flat.items():
        if _WIDTHS.search(name) and type(value) is int and 0 < value <= 1 << 16:
            return value
    return WIDTH


def _heads(owner: Constructor) -> int:
    for name, value in owner.own.items():
        if re.search(r"(num_|n_)heads?$|^heads$|num_attention_heads", name) and type(value) is int and value > 0:
            return value
    return size_of("heads")


def _documented(forward: ast.FunctionDef, node: ast.ClassDef, facts: dict[str, Facts]) -> None:
    """Learn from docstrings such as `x: (B, N, C)`."""
    text = "\n".join(filter(None, [ast.get_docstring(forward), ast.get_docstring(node)]))
    for name, fact in facts.items():
        if fact.rank is not None or fact.parts or not text:
            continue
        found = re.search(
            rf"^\W*`*{re.escape(name)}`*\b[^\n]*?[(\[]\s*(\w+(?:\s*[,x*]\s*[\w./* ]+)+)\s*[)\]]", text, re.MULTILINE
        )
        if found:
            axes = [axis.strip() for axis in re.split(r"[,]|\sx\s", found[1])]
            if (
                1 < len(axes) <= 5
                and all(re.fullmatch(r"[\w./* ]{1,24}", axis) for axis in axes)
                and not _is_type(axes)
            ):
                fact.rank = len(axes)


def _is_type(axes: list[str]) -> bool:
    return any(re.search(r"optional|tensor|float|int|default|bool|tuple", axis, re.IGNORECASE) for axis in axes)
