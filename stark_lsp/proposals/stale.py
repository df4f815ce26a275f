"""Whether the class is still what the candidate was verified against."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter

from stark_lsp.core.errors import StarkError
from stark_lsp.core.parsing import PYTHON
from stark_lsp.core.problem import Problem
from stark_lsp.discovery.place import places
from stark_lsp.discovery.syntax import BOM, find_class, first_line, last_line, parse, split_lines
from stark_lsp.proposals.accepted import find_accepted
from stark_lsp.proposals.dependence import Dependence, Facts, dependence


class StaleProposal(StarkError):
    """The class, or something it uses, is no longer what the proposal was verified against."""


def check_fresh(problem: Problem, tree: ast.Module, document_text: str) -> ast.ClassDef:
    """Return the class in the document (its tree and its text) if it still means what it meant when the run began.

    Formatting and comments do not count, nor does anything the class does not use.

    Raises
    ------
    StaleProposal
        It does not; the text says what differs.
    """
    found = find_class(tree, problem.qualname)
    if len(found) != 1:
        many = "is no longer in the file" if not found else "is now defined more than once"
        raise _stale(problem, f"the class {problem.qualname} {many}.", found[0].lineno if found else None)
    if document_text == problem.text:
        return found[0]
    before_tree = parse(problem.text)
    before_class = find_class(before_tree, problem.qualname)[-1]
    if ast.dump(before_class) != ast.dump(found[0]):
        raise _stale(problem, f"the class {problem.qualname} was edited since the run began.", found[0].lineno)
    known: dict[str, Facts] = {}
    before = _dependence(before_tree, problem.text, before_class, known)
    after = _dependence(tree, document_text, found[0], known)
    for name in sorted(before.names.keys() | after.names.keys()):
        if before.names.get(name, []) != after.names.get(name, []):
            raise _stale(problem, f"{_named(name, problem)} was edited since the run began.", after.lines.get(name))
    if before.order != after.order:
        message = f"the order of statements that {problem.qualname} depends on was changed since the run began."
        raise _stale(problem, message, found[0].lineno)
    return found[0]


def check_comments(problem: Problem, node: ast.ClassDef, document_text: str) -> None:
    """Raise `StaleProposal` if the class, given as it is in the document, has comments that the run did not know.

    A new class in its place has those that were there when the run began.
    """
    before = find_class(parse(problem.text), problem.qualname)[-1]
    new = _comments(node, document_text) - _comments(before, problem.text)
    if new:
        message = f"comments in {problem.qualname} were written since the run began ({next(iter(new))[:60]})."
        raise StaleProposal(message, cure="Write it beside the class.", path=problem.path, line=node.lineno)


def _comments(node: ast.ClassDef, text: str) -> Counter[str]:
    lines = split_lines(text.removeprefix(BOM))[: last_line(node) + 1]
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline)
    return Counter(one.string for one in tokens if one.type == tokenize.COMMENT and one.start[0] > first_line(node))


def _dependence(tree: ast.Module, text: str, node: ast.ClassDef, known: dict[str, Facts]) -> Dependence:
    lines = split_lines(text.removeprefix(BOM))
    place = next(place for place in places(tree) if place.node is node)
    ours = {id(part) for found in find_accepted(tree, lines) for part in (found.place.node, *found.kernels)}
    return dependence(tree, lines, place, ours, known)


def _named(name: str, problem: Problem) -> str:
    if name in ("", problem.qualname.partition(".")[0]):
        return f"code that may change {problem.qualname}"
    return f"{name}, which {problem.qualname} uses,"


def unreadable(problem: Problem, error: SyntaxError) -> StaleProposal:
    """Return what to raise when the document does not parse."""
    return StaleProposal(
        f"the file is not valid {PYTHON} at the moment: {error.msg}.",
        cure="Mend the line and try again.",
        path=problem.path,
        line=error.lineno,
    )


def _stale(problem: Problem, message: str, line: int | None) -> StaleProposal:
    return StaleProposal(message, cure="Optimize it again.", path=problem.path, line=line)
