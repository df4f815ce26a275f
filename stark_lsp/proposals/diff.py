"""A unified diff, for people and for `patch`."""

from __future__ import annotations

from difflib import unified_diff

from stark_lsp.discovery.syntax import split_lines


def unified(before: str, after: str, path: str) -> str:
    """Return the unified diff between two texts of a file, empty if they are equal.

    Kinds of line ends do not show, but a missing one at the end of the file does, in the way that
    diff tools write it. `path` is written as given; a text that is empty stands for no file (`/dev/null`).
    """
    from_file = f"a/{path.lstrip('/')}" if before else "/dev/null"
    to_file = f"b/{path.lstrip('/')}" if after else "/dev/null"
    lines = unified_diff(_lines(before), _lines(after), from_file, to_file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each with a line feed, but for a last one that has no line end."""
    lines = split_lines(text)
    ended = text.endswith(("\n", "\r"))
    return [line if index == len(lines) - 1 and not ended else f"{line}\n" for index, line in enumerate(lines)]
