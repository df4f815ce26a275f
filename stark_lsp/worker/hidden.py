"""How long the gate before each call of a session is, so that launching the originals is hidden, and what was not.

What a GPU takes for a call is compared. Were the gate shorter than a launch, the rest of it would be charged to the
call: a busy processor would make what torch.compile made slower, and a candidate of one kernel faster than it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from .gate import GATE_MS
from .timer import MOST_LEAD_MS

TIMES, TIMES_LONG, ROOM_MS = 4.0, 2.0, 1.0
"""A gate is so many times as long as the launch it hides: on a busy processor one took almost three times as long."""
LONGER = 4.0
"""So many times as long is the gate of a second session, where that of the first hid too little."""
TRIED = 5
"""Calls that are looked at to see whether a gate is long enough."""
SHARE = 0.2
"""Of a side's calls may be launched later, before it is said."""
SIDES = {
    "eager": "Launching the original",
    "compile": "Launching what torch.compile made",
    "max_autotune": "Launching what torch.compile made with max-autotune",
    "candidate": "Launching it",
}


def length_ms(launch_ms: float) -> float:
    """Return how long a gate must be to hide a launch that takes so long on a quiet processor."""
    return min(max(GATE_MS, min(TIMES * launch_ms, TIMES_LONG * launch_ms + ROOM_MS)), MOST_LEAD_MS)


class Cover(NamedTuple):
    """What hides launching in a session."""

    gate_ms: float | None
    """How long the gate is before each call; None where there is none, on a CPU."""
    whole: bool
    """Whether it hid the launches of all originals when it was tried."""

    @property
    def longer(self) -> Cover | None:
        """A gate that hides more, None where none would."""
        if self.gate_ms is None or not self.whole or self.gate_ms >= MOST_LEAD_MS:
            return None
        return Cover(min(LONGER * self.gate_ms, MOST_LEAD_MS), True)


def cover(launch_ms: float, hides: Callable[[float], bool]) -> Cover:
    """Return the gate for all sides of a session on a GPU.

    What a candidate needs to be launched beyond that counts as its own.

    Parameters
    ----------
    launch_ms
        Of the original that takes longest to launch, by itself or compiled.
    hides
        Tries a length; returns whether it hid the launches of all originals.
    """
    first = length = length_ms(launch_ms)
    while not hides(length):
        if length >= MOST_LEAD_MS:
            # One waits for the device in the midst of a call, which nothing hides.
            return Cover(first, False)
        length = min(2 * length, MOST_LEAD_MS)
    return Cover(length, True)


def mostly(late: int, calls: int) -> bool:
    """Whether the launches of a round were hidden."""
    return late <= SHARE * calls


class _Count(NamedTuple):
    late: int
    made: int


class Tally:
    """Of which sides launching was not hidden.

    Parameters
    ----------
    cover
        What was to hide it.
    """

    def __init__(self, cover: Cover) -> None:
        self.cover = cover
        self._counts: dict[str, _Count] = {}

    @property
    def gate_ms(self) -> float | None:
        """Length of the gate."""
        return self.cover.gate_ms

    def add(self, name: str, late: int, made: int) -> None:
        """Take in a round.

        Parameters
        ----------
        late
            Calls that were still being launched when the gate had opened.
        made
            All its calls.
        """
        before = self._counts.get(name, _Count(0, 0))
        self._counts[name] = _Count(before.late + late, before.made + made)

    def better(self, originals: Iterable[str]) -> Cover | None:
        """Return what to time with once more, since launching was charged to an original; None if it was not."""
        counts = [self._counts[name] for name in originals if name in self._counts]
        return None if all(mostly(count.late, count.made) for count in counts) else self.cover.longer

    def notes(self) -> list[str]:
        """Say which sides' times hold more than the device's work."""
        found = []
        for name, count in self._counts.items():
            if self.gate_ms is None or mostly(count.late, count.made):
                continue
            share = f"{100 * count.late / count.made:.0f} % of its calls"
            found.append(f"{SIDES[name]} took longer than the {self.gate_ms:.2g} ms that are hidden in {share}.")
        return found


def waiting_counts(original_ms: float, candidate_ms: float, median_ms: float) -> list[str]:
    """Say that launching the original takes longer than its work, which counts where nothing else keeps the GPU busy.

    Parameters
    ----------
    original_ms, candidate_ms
        How long launching takes.
    median_ms
        Of the original's work.
    """
    if original_ms <= max(median_ms, GATE_MS / 2):
        return []
    return [
        f"Launching one call takes the processor {original_ms:.2g} ms for the original, {candidate_ms:.2g} ms for the "
        "kernel. That is hidden here; where a program waits for each call, it counts."
    ]
