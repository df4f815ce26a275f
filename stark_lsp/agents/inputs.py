"""What the example inputs of a problem are made by: its functions with what they need, or its table."""

from __future__ import annotations

import ast
import json

from stark_lsp.core.problem import Problem
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.slicing import Definition
from stark_lsp.discovery.syntax import first_line, last_line, parse, split_lines


def inputs_source(problem: Problem) -> str:
    """Return the text that makes the inputs: Python for functions, JSON for a table, empty if there is none."""
    spec = problem.inputs
    if spec.source is InputSource.TABLE:
        return json.dumps(spec.table, indent=2, default=str)
    wanted = {name for name in (spec.inputs_function, spec.init_function) if name}
    if spec.source is not InputSource.FUNCTIONS or not wanted:
        return ""
    return _functions(problem, wanted)


def _functions(problem: Problem, wanted: set[str]) -> str:
    """Return the functions, and the constants at module level that they use, as they stand in the document."""
    tree = parse(problem.text)
    definitions = [Definition(statement) for statement in tree.body if not isinstance(statement, ast.ClassDef)]
    kept: set[int] = set()
    while True:
        more = {
            number
            for number, definition in enumerate(definitions)
            if number not in kept and definition.binds & wanted and not _is_import(definition.node)
        }
        if not more:
            break
        kept |= more
        wanted = wanted.union(*(definitions[number].uses for number in more))
    lines = split_lines(problem.text)
    parts = [definitions[number].node for number in sorted(kept)]
    text, previous = [], None
    for node in parts:
        if previous is not None and (isinstance(node, ast.FunctionDef) or isinstance(previous, ast.FunctionDef)):
            text += ["", ""]
        text += lines[first_line(node) : last_line(node) + 1]
        previous = node
    return "".join(f"{line}\n" for line in text)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))
