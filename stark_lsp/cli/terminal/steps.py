"""Says on standard error what goes on, for work that takes longer than a moment."""

from __future__ import annotations

import asyncio
from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.text import Text

from stark_lsp.cli.terminal.console import clean, line

SLOW_S = 1.0
"""A step that takes longer than this is told."""


class Steps:
    """Called with each step as it begins; use it as a context manager around the work, on the event loop.

    A terminal shows the step that goes on in a line that is gone afterwards. Elsewhere each slow step is a line.

    Parameters
    ----------
    console
        Where to print; standard error, so that a result on standard output stays whole.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("", console=console, spinner="dots") if console.is_terminal else None
        self._shown = False
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_waiting()
        if self._status is not None:
            self._status.stop()

    def __call__(self, text: str) -> None:
        """Take note that a step begins."""
        self._stop_waiting()
        if self._status is not None and self._shown:
            self._show(text)
        elif text != self._told:
            self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._show, text)

    def _show(self, text: str) -> None:
        self._told = text
        if self._status is None:
            line(self._console, f"{text} …", "dim")
            return
        self._status.update(Text(clean(text)))
        if not self._shown:
            self._shown = True
            self._status.start()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
