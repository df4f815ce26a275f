"""Parsing from several threads."""

from __future__ import annotations

import ast
import threading

_LOCK = threading.Lock()
# Python 3.11 counts the depth of all trees that are being made in one place: when the garbage
# collector lets another thread run in between, both fail with SystemError.


def syntax_tree(source: str) -> ast.Module:
    """Return the syntax tree of a source; raises what `ast.parse` does."""
    with _LOCK:
        return ast.parse(source)
