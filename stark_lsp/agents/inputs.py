"""What the example inputs of a problem are made by: its functions with what they need, or its table."""

from __future__ import annotations

import ast
import json

from stark_lsp.contract.secrets import KEY, REMOVED, without_secrets
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.slicing import closure
from stark_lsp.discovery.syntax import first_line, last_line, parse, split_lines


def inputs_source(problem: Problem) -> str:
    """Return the text that makes the inputs, without secrets: Python for functions, JSON for a table, else empty."""
    spec = problem.inputs
    if spec.source is InputSource.TABLE:
        return json.dumps(without_secrets(spec.table), indent=2, default=str)
    wanted = {name for name in (spec.inputs_function, spec.init_function) if name}
    if spec.source is not InputSource.FUNCTIONS or not wanted:
        return ""
    return KEY.sub(REMOVED, _functions(problem, wanted))


def _functions(problem: Problem, wanted: set[str]) -> str:
    """Return the functions, and the constants at module level that they use, as they stand in the document."""
    left_out = (ast.ClassDef, ast.Import, ast.ImportFrom)
    body = [statement for statement in parse(problem.text).body if not isinstance(statement, left_out)]
    lines = split_lines(problem.text)
    text, previous = list[str](), None
    for node in (definition.node for definition in closure(body, (), wanted)):
        if previous is not None and (isinstance(node, ast.FunctionDef) or isinstance(previous, ast.FunctionDef)):
            text += ["", ""]
        text += lines[first_line(node) : last_line(node) + 1]
        previous = node
    return "".join(f"{line}\n" for line in text)
