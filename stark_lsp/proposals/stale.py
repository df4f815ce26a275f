"""Whether the class is still what the candidate was verified against."""

from __future__ import annotations

import ast

from stark_lsp.core.errors import StarkError
from stark_lsp.core.problem import Problem
from stark_lsp.discovery.slicing import definition_of, statements_behind
from stark_lsp.discovery.syntax import find_class, parse
from stark_lsp.proposals.bindings import import_paths


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
    before = _meanings(before_tree, before_class)
    after = _meanings(tree, found[0])
    for name in sorted(before.keys() | after.keys()):
        if before.get(name, set()) != after.get(name, set()):
            raise _stale(problem, f"{name}, which {problem.qualname} uses, was edited since the run began.", None)
    return found[0]


def unreadable(problem: Problem, error: SyntaxError) -> StaleProposal:
    """Return what to raise when the document does not parse."""
    return StaleProposal(
        f"the file is not valid Python at the moment: {error.msg}.",
        cure="Mend the line and try again.",
        path=problem.path,
        line=error.lineno,
    )


def _stale(problem: Problem, message: str, line: int | None) -> StaleProposal:
    return StaleProposal(message, cure="Optimize it again.", path=problem.path, line=line)


def _meanings(tree: ast.Module, target: ast.ClassDef) -> dict[str, set[str]]:
    """Return what each name that a class uses means: statements without formatting, and paths of imports."""
    needed = statements_behind(tree, target)
    used = set(definition_of(target).uses).union(*(definition.uses for definition in needed))
    found: dict[str, set[str]] = {}
    for definition in needed:
        node = definition.node
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for _, name, path, _ in import_paths(node):
                if name in used:
                    found.setdefault(name, set()).add(path)
        else:
            for name in definition.binds & used:
                found.setdefault(name, set()).add(ast.dump(node))
    return found
