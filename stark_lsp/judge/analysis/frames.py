"""Which of the user's lines an operation comes from, or is why a module cannot be analysed."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from types import FrameType

import torch


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


_SKIPPED = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in (
        os.path.dirname(torch.__file__),
        os.path.dirname(__file__),
        sysconfig.get_paths()["stdlib"],
        sysconfig.get_paths()["platstdlib"],
    )
)
_PACKAGES = tuple(os.path.join(os.path.realpath(sysconfig.get_paths()[kind]), "") for kind in ("purelib", "platlib"))


@functools.cache
def is_user_file(name: str) -> bool:
    """Whether a file is neither the standard library, nor torch, nor this analysis."""
    path = os.path.realpath(name)
    # site-packages lies inside the standard library's folder; a package there is still "theirs".
    theirs = path.startswith(_PACKAGES) and not path.startswith(_SKIPPED[:2])
    return not name.startswith("<frozen") and (theirs or not path.startswith(_SKIPPED))


def user_frames(stop: FrameType) -> list[FrameType]:
    """Return the user's frames from the innermost outwards, up to `stop`."""
    found: list[FrameType] = []
    frame = sys._getframe().f_back
    while frame is not None and frame is not stop:
        if is_user_file(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found
