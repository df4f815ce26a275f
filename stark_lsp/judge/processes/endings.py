"""End the processes of candidates whose verdict is known, while somebody reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures


class Endings:
    """What ends behind a verdict; safe to use from several threads.

    A process with a context on a GPU takes a tenth of a second or two to go, after the signal that ends it.

    Parameters
    ----------
    most
        How many end at a time.
    """

    def __init__(self, most: int) -> None:
        self._pool = futures.ThreadPoolExecutor(max(1, most), thread_name_prefix="stark-ending")
        self._lock = threading.Lock()
        self._pending: list[futures.Future[None]] = []

    def begin(self, end: Callable[[], None]) -> None:
        """Have `end` called now, in another thread."""
        with self._lock:
            self._pending = [one for one in self._pending if not one.done() or one.exception() is not None]
            self._pending.append(self._pool.submit(end))

    def wait(self) -> None:
        """Wait for all that were begun, so that nothing of theirs is in the way any more.

        Raises
        ------
        Exception
            What one of them raised, once.
        """
        with self._lock:
            pending, self._pending = self._pending, []
        futures.wait(pending)
        for one in pending:
            one.result()

    def finish(self, seconds: float) -> None:
        """Wait for all that were begun, but no longer than that, and whatever comes of them."""
        with self._lock:
            pending = list(self._pending)
        futures.wait(pending, timeout=seconds)
