"""A unified diff for people."""

from __future__ import annotations

from difflib import unified_diff

from stark_lsp.discovery.syntax import split_lines


def unified(before: str, after: str, path: str) -> str:
    """Return the unified diff between two texts of a file, empty if they are equal.

    Line ends do not show. `path` is written as given; a text that is empty stands for no file (`/dev/null`).
    """
    old, new = split_lines(before), split_lines(after)
    from_file = f"a/{path.lstrip('/')}" if before else "/dev/null"
    to_file = f"b/{path.lstrip('/')}" if after else "/dev/null"
    lines = unified_diff(old, new, from_file, to_file, lineterm="")
    return "".join(f"{line}\n" for line in lines)
