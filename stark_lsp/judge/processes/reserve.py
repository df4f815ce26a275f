"""When processes that stand ready for the next candidates are replaced.

On a GPU a process that comes up takes the device for half a second; a timing has to wait for that, or is disturbed. So
those that were used are replaced while a compiler is at work, or once nothing has been judged for a moment; at once
only when none is left.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol

CALM_S = 1.0
"""After so long without a candidate, those that were used are replaced."""
FEW = 3
"""With no more than so many left, they are replaced while a compiler is at work."""


class Spares(Protocol):
    """Processes that stand ready; `children.Children` keeps them."""

    def left(self) -> int:
        """Return how many runners stand ready, or are under way."""

    def replenish(self, count: int) -> None:
        """See that so many runners and builders are under way or ready."""


class Reserve:
    """Keeps processes ready.

    Parameters
    ----------
    children
        Starts them.
    count
        How many are to be ready.
    patient
        Wait for a good moment; otherwise each is replaced as soon as its candidate is judged.
    """

    def __init__(self, children: Spares, count: int, *, patient: bool) -> None:
        self._children = children
        self._count = count
        self._patient = patient
        self._lock = threading.Lock()
        self._under_way = 0
        self._timer: threading.Timer | None = None

    def fill(self) -> None:
        """Replace all that were used."""
        self._children.replenish(self._count)

    def begin(self) -> None:
        """Take note that a candidate is judged from now on."""
        with self._lock:
            self._under_way += 1
            self._forget()

    def building(self) -> None:
        """Take note that a compiler is at work, so that nothing is timed for a while."""
        # On a CPU new processes would get in the way of the timing that follows.
        if self._patient and self._children.left() <= FEW:
            self.fill()

    def end(self) -> None:
        """Take note that a candidate was judged."""
        with self._lock:
            self._under_way -= 1
            if self._patient and self._children.left() > 0:
                if self._under_way == 0:
                    self._timer = threading.Timer(CALM_S, self._later)
                    self._timer.daemon = True
                    self._timer.start()
                return
        self.fill()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self) -> None:
        # Python may be ending, when no thread can be started any more.
        with contextlib.suppress(RuntimeError):
            self.fill()
