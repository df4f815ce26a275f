"""Errors with place and cure; the judge's: what the user can mend (`Bad`), and what broke around it (`Broken`)."""

from __future__ import annotations

import errno
import os
import traceback
from typing import Any


class Reported(Exception):
    """An error with the place and the cure, as the server shows it.

    Parameters
    ----------
    message
        What is wrong, one sentence.
    cure
        What to do about it, one sentence; empty when there is nothing to do.
    path, line
        Where, or None; `line` counts from 1.
    details
        Longer evidence, such as a traceback or captured output; shown in logs and on request.
    """

    kind = "fault"

    def __init__(
        self,
        message: str,
        cure: str = "",
        path: str | None = None,
        line: int | None = None,
        details: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        self.path = path
        self.line = line
        self.details = details

    def to_wire(self) -> dict[str, Any]:
        """Return the error as JSON values."""
        names = ("kind", "message", "cure", "path", "line", "details")
        return {name: getattr(self, name) for name in names}


class Bad(Reported):
    """The user's file, class, inputs or options cannot be used as they are."""

    kind = "bad_input"


class Degenerate(Bad):
    """The reference runs, and nothing that is compared with it would be known to be right."""

    kind = "degenerate"


class Broken(Reported):
    """Something outside the user's code broke."""


class Unusable(Broken):
    """Special inputs left the GPU of no more use to this process."""

    kind = "unusable"


MACHINE = {
    errno.ENOSPC: ("The disk is full", "Free some space on it; what was judged so far is kept."),
    errno.EDQUOT: ("Your quota of the disk is used up", "Free some space; what was judged so far is kept."),
    errno.EMFILE: ("Too many files are open", "Raise the limit (ulimit -n)."),
    errno.ENFILE: ("Too many files are open on this machine", "End other programs."),
    errno.EAGAIN: ("No more process can be started", "End other programs, or raise the limit (ulimit -u or -v)."),
    errno.ENOMEM: ("The machine has no memory left", "End other programs, or use smaller inputs."),
}
"""What the system lacks, and the cure, by the number of the error (errno(3))."""
IN_THE_WAY = frozenset((errno.EEXIST, errno.ENOTDIR, errno.EACCES, errno.EROFS))
"""Numbers of what is there already, or is another's."""


def broken(error: BaseException, folder: str = "") -> Broken:
    """Return what is reported of an error that nobody expected.

    Parameters
    ----------
    folder
        Where it was most likely written to, if the error does not say.
    """
    number, file, details = getattr(error, "errno", None), getattr(error, "filename", None), full_text(error)
    if number in IN_THE_WAY and isinstance(file, str):
        cure = "Move it away or make it yours; STARK_STATE_DIR names another state folder."
        return Broken(f"This is in the way: {describe(error)}.", cure, details=details)
    if "can't start new thread" in str(error):  # in Python's words
        number, folder = errno.EAGAIN, ""
    if number not in MACHINE:
        return Broken(f"The worker failed: {describe(error)}.", "Please report this.", details=details)
    what, cure = MACHINE[number]
    place = os.path.dirname(file) if isinstance(file, str) else folder
    return Broken(f"{what} ({place})." if place else f"{what}.", cure, details=details)


def describe(error: BaseException, limit: int = 400) -> str:
    """Return `ValueError: text` with the text cut to one paragraph of at most `limit` characters."""
    text = " ".join(str(error).split())
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def first_line(error: BaseException, limit: int = 150) -> str:
    """Return `ValueError: text` with the first line of the text, as a part of a sentence."""
    text = (str(error).strip().splitlines() or [""])[0][:limit]
    return f"{type(error).__name__}: {text}".rstrip(": .")


def mistake(error: BaseException) -> str:
    """Return `a mistake of ours (ValueError: text, file.py, line 7)`, with where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"a mistake of ours ({first_line(error)}, {os.path.basename(where.filename)}, line {where.lineno})"


def line_in(error: BaseException, path: str) -> int | None:
    """Return the innermost line of `path` that the error passed through, None if it never did."""
    if isinstance(error, SyntaxError) and error.filename and same_file(error.filename, path):
        return error.lineno
    found = None
    for frame in traceback.extract_tb(error.__traceback__):
        if same_file(frame.filename, path):
            found = frame.lineno
    return found


def same_file(one: str, other: str) -> bool:
    """Whether two paths name the same file, by name alone."""
    return os.path.normpath(one) == os.path.normpath(other)


def full_text(error: BaseException, limit: int = 20000) -> str:
    """Return the traceback, head and tail of it when it is long."""
    return cut("".join(traceback.format_exception(type(error), error, error.__traceback__)), limit)


def cut(text: str, limit: int) -> str:
    """Return head and tail of a long text."""
    return text if len(text) <= limit else text[: limit // 2] + "\n…\n" + text[-limit // 2 :]


def ended(text: str) -> str:
    """Return a sentence with a full stop, unless it ends in its own way."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def blame(error: BaseException, message: str, cure: str, path: str, fallback: int | None = None) -> Bad:
    """Return a `Bad` for an error of the user's code, at the line of `path` it came from."""
    line = line_in(error, path)
    return Bad(
        ended(f"{message}: {describe(error)}"), cure, path, line if line is not None else fallback, full_text(error)
    )
