"""Errors as a user sees them: one line that says what and where, a traceback only in the log."""

from __future__ import annotations

import os
import sys
import traceback
from datetime import datetime, timezone
from pathlib import Path
from typing import TextIO

from stark_lsp.core.errors import BadInput, StarkError

OK = 0
"""A proposal was found, or the command did what it was asked for."""
FAULT = 1
"""Something outside the user's code broke."""
BAD_INPUT = 2
"""The file, the class, its inputs or an option cannot be used as they are."""
NOTHING_FASTER = 3
"""The search ended without a proposal."""

LOG_SIZE = 4 * 1024 * 1024
"""Bytes after which the log is begun anew; the old one is kept once, as `cli.log.1`."""


def as_stark_error(error: Exception) -> StarkError:
    """Return `error` as something to show: unexpected ones become one line that names the log."""
    if isinstance(error, StarkError):
        return error
    log = Log()
    log("".join(traceback.format_exception(error)).rstrip())
    what = str(error).splitlines()[0] if str(error) else ""
    told = f"{type(error).__name__}: {what}" if what else type(error).__name__
    cure = f"The traceback is in {log.path}." if log.path else "The traceback could not be written to a log."
    return StarkError(f"Something went wrong inside stark-lsp: {told}.", cure=cure)


def report(error: Exception) -> int:
    """Print `error` on stderr and return the exit code."""
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone, as in `stark-lsp runs | head -1`. Python would complain
        # once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    shown = as_stark_error(error)
    print(shown, file=sys.stderr)
    if shown.details:
        Log()(f"{shown}\n{shown.details}")
    return BAD_INPUT if isinstance(error, BadInput) else FAULT


class Log:
    """Appends lines with the time to `cli.log` in the state directory; opened at the first line.

    A log that cannot be written must not stop the work it is about: then `path` is None.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._file: TextIO | None = None
        self._tried = False

    def __call__(self, text: str) -> None:
        """Append `text`."""
        if not self._tried:
            self._open()
        if self._file is None:
            return
        when = datetime.now(timezone.utc).isoformat(timespec="seconds")
        try:
            self._file.write(f"{when} [{os.getpid()}] {text}\n")
            self._file.flush()
        except OSError:
            # A full disk: nothing more to do here, the run itself reports it.
            self._file, self.path = None, None

    def _open(self) -> None:
        self._tried = True
        from stark_lsp.store.paths import make_private_dir, state_dir

        try:
            folder = state_dir()
            make_private_dir(folder)
            path = folder / "cli.log"
            if path.exists() and path.stat().st_size > LOG_SIZE:
                path.replace(folder / "cli.log.1")
            self._file = path.open("a", encoding="utf-8", errors="backslashreplace")
            self.path = path
        except (OSError, StarkError):
            self._file = None
