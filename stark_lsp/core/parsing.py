"""Parsing Python that fails in one way only, one text at a time."""

from __future__ import annotations

import ast
import sys
import threading
import warnings

BOM = "\ufeff"
LONGEST = 2_000_000
"""Most characters of a text that is looked into: a parse cannot be interrupted, and everything else waits for it."""
PYTHON = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
"""What texts are read as, for messages: the project's own may be a later one, and have other words."""
ONE_AT_A_TIME = threading.Lock()
# Texts are read in several threads. Python 3.11 counts the depth of all trees that are being made in one place and
# fails with SystemError when two are; and what warnings are ignored is no thread's own either.


def last_name(node: ast.AST) -> str:
    """Return `c` for `c` and for `a.b.c`, empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def parse(text: str) -> ast.Module:
    """Return the syntax tree of `text`; line numbers are those of `text`, a byte order mark is ignored.

    Raises
    ------
    SyntaxError
        The text is not Python, for whatever reason (null bytes and absurd nesting included).
    """
    text = text.removeprefix(BOM)
    try:
        with ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a user's invalid escape sequence is not ours to report
            return ast.parse(text)
    except SyntaxError:
        raise
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise SyntaxError(f"not readable as Python: {error}") from error
