"""How long the judge's own work takes, on a machine where others work as well."""

from __future__ import annotations

import time


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._work = time.process_time()

    def seconds(self) -> float:
        """Return the time since then, or this process's processor time if that is less.

        Waiting for a busy processor takes none, and work on several cores takes more of it than has passed.
        """
        return min(time.monotonic() - self._wall, time.process_time() - self._work)
