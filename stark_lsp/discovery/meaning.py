"""What of a document the worth of attempts on a class depends on, as a digest.

Two texts have the same meaning for a class if the class, all it uses, and its inputs are the same but for formatting,
comments and place. So attempts outlive every edit elsewhere in the file, and the file's name.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from functools import lru_cache

from stark_lsp.core.problem import Problem
from stark_lsp.discovery.slicing import NoSuchClass, needed_statements
from stark_lsp.discovery.syntax import parse

_FORM = f"meaning {sys.version_info[0]}.{sys.version_info[1]}:"
"""How digests begin; a syntax tree is written differently by another version of Python."""


def meaning(problem: Problem) -> str:
    """Return the digest of a class with all it uses, its inputs, the mode and the device."""
    inputs = problem.inputs
    names = frozenset(name for name in (inputs.inputs_function, inputs.init_function) if name)
    parts = [
        problem.qualname,
        _statements(problem.text, problem.qualname, names),
        inputs.source.value,
        sorted(names),
        inputs.table,
        problem.mode.value,
        problem.device.value,
    ]
    return _FORM + hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def comparable(digest: str) -> bool:
    """Whether a digest was made as `meaning` makes them here, so that another one means another class."""
    return digest.startswith(_FORM)


@lru_cache(maxsize=8)
def _statements(text: str, qualname: str, names: frozenset[str]) -> str:
    """Return what is left of the text once layout and what the class does not need are taken away."""
    try:
        needed = needed_statements(parse(text), qualname, names)
        return "\n".join(ast.dump(definition.node) for definition in needed)
    except (SyntaxError, NoSuchClass, RecursionError):
        return text  # of a transcript by others; the text as it is stands for itself
