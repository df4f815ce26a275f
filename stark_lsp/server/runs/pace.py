"""How long a run may still take, told from how long its attempts took so far."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """The seconds that a search was at work, pauses not counted, and the attempts that were judged in them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        """When it began to work or went on; None before, and while it is paused."""
        self._before = 0.0
        """Seconds of work before that."""
        self._begun = False
        self._judged = 0
        self._until_last = 0.0
        """Seconds of work until the last verdict."""

    @property
    def worked(self) -> float:
        """Seconds of work so far."""
        return self._before + (self._clock() - self._since if self._since is not None else 0.0)

    def begin(self) -> None:
        """Take note that attempts are made; only the first time counts."""
        if not self._begun:
            self._begun, self._since = True, self._clock()

    def judged(self) -> None:
        """Take note of a verdict."""
        self._judged += 1
        self._until_last = self.worked

    def pause(self, paused: bool) -> None:
        """Stop counting, or go on."""
        if self._begun and paused == (self._since is not None):
            self._before, self._since = self.worked, None if paused else self._clock()

    def left(self, attempts: int, limit: float | None = None) -> float | None:
        """Return the seconds until so many more attempts are judged, None as long as nothing tells.

        A `limit` of the seconds that the search may work bounds them.
        """
        bounds = [] if limit is None or not self._begun else [max(0.0, limit - self.worked)]
        if self._judged:
            each = self._until_last / self._judged
            bounds.append(max(0.0, each * attempts - (self.worked - self._until_last)))
        return min(bounds, default=None)
