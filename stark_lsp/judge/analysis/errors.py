"""Why a module cannot be analysed, with the line it is about."""

from __future__ import annotations


class NotTraceable(Exception):
    """The module's computation depends on something a recording of one call cannot stand for.

    Parameters
    ----------
    message
        One sentence for a person.
    path
        The user's file, or None if no line of theirs is to blame.
    line
        1-based line in `path`.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
