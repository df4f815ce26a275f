"""The time limit of a search: seconds of work, a pause not counted, changeable while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TimeLimit:
    """Counts the seconds that a search was at work."""

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._limit = seconds
        self._worked = 0.0
        self._since: float | None = clock()
        self._changed = asyncio.Event()

    @property
    def seconds(self) -> float | None:
        """The limit in seconds, None is no limit."""
        return self._limit

    def change(self, seconds: float | None) -> None:
        """Set another limit."""
        self._limit = seconds
        self._changed.set()

    def pause(self, paused: bool) -> None:
        """Stop counting, or go on."""
        now = self._clock()
        if self._since is not None:
            self._worked += now - self._since
        self._since = None if paused else now
        self._changed.set()

    @property
    def left(self) -> float | None:
        """Seconds left, None without a limit or during a pause."""
        if self._limit is None or self._since is None:
            return None
        return self._limit - self._worked - (self._clock() - self._since)

    async def reached(self) -> None:
        """Return once the limit is reached."""
        while True:
            self._changed.clear()
            left = self.left
            if left is not None and left <= 0:
                return
            await event_or(self._changed, left)


async def event_or(event: asyncio.Event, seconds: float | None) -> None:
    """Return when the event is set, or after so many seconds.

    Not `asyncio.wait_for`: before Python 3.12 it can swallow a cancel that comes together with the event.
    """
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
