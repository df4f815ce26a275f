"""The terminal: which stream, how wide, and text that cannot take it over."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, and those that turn the direction of text around."""

PLAIN_WIDTH = 120
"""Columns when the output is not a terminal."""


class _UnreadConsole(Console):
    """A console that falls silent when its reader has gone, as in `| head`; rich's own ends the program with code 1."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # Python would complain once more when it flushes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def make(*, to_stderr: bool = False, quiet: bool = False, unread: bool = False) -> Console:
    """Return the console for people.

    Parameters
    ----------
    to_stderr
        Leave standard output to a result in a format of its own.
    quiet
        Print nothing.
    unread
        Go on when nobody reads what is printed: the exit code, or a file, is a result as well.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows a question mark, not a traceback
    kind = _UnreadConsole if unread else Console
    console = kind(stderr=to_stderr, quiet=quiet, highlight=False, soft_wrap=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console


def page(show: Callable[[Console], None]) -> str:
    """Return as plain text what `show` prints."""
    out = io.StringIO()
    show(Console(file=out, width=PLAIN_WIDTH, highlight=False, emoji=False, markup=False, color_system=None))
    return "\n".join(text.rstrip() for text in out.getvalue().strip().splitlines())


def clean(text: str) -> str:
    """Return text from a candidate, a compiler or a model with nothing in it that steers a terminal."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def line(console: Console, text: str | Text, style: str = "") -> None:
    """Print one paragraph; when the output is not a terminal it is never broken, so that paths stay whole."""
    shown = Text(clean(text)) if isinstance(text, str) else text
    console.print(shown, style=style or None, soft_wrap=not console.is_terminal)


def short_path(path: str | Path) -> str:
    """Return `path` relative to the working directory if it lies below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
