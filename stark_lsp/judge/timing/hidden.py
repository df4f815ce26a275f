"""How long the gate before each call of a session is, so that launching the originals is hidden, and what was not.

What a GPU takes for a call is compared. Were the gate shorter than a launch, the rest of it would be charged to the
call: a busy processor would make what torch.compile made slower, and a candidate of one kernel faster than it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .gate import GATE_MS
from .timer import MOST_LEAD_MS

TIMES, TIMES_LONG, ROOM_MS = 4.0, 2.0, 1.0
"""A gate is so many times as long as the launch it hides, or so many times and that much: a processor may be busy."""
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


def needed_ms(launch_ms: float, hides: Callable[[float], bool]) -> float | None:
    """Return how long a gate must be for one original; None where none hides its launch.

    That is so where it waits for the device in the midst of a call, or has more launches than the driver queues.

    Parameters
    ----------
    launch_ms
        How long its launch takes.
    hides
        Tries a length.
    """
    length = length_ms(launch_ms)
    while not hides(length):
        if length >= MOST_LEAD_MS:
            return None
        length = min(2 * length, MOST_LEAD_MS)
    return length


class Cover(NamedTuple):
    """The gate before all calls of a session, the same for all sides.

    What a candidate needs to be launched beyond it counts as its own.
    """

    gate_ms: float | None
    """Its length; None where there is none, on a CPU."""
    originals: tuple[str, ...] = ()
    """Those whose launches it hid when it was tried."""

    @property
    def longer(self) -> Cover | None:
        """A gate that hides more, None where there is none."""
        if self.gate_ms is None or self.gate_ms >= MOST_LEAD_MS:
            return None
        return Cover(min(LONGER * self.gate_ms, MOST_LEAD_MS), self.originals)


def cover(needed: Mapping[str, float | None]) -> Cover:
    """Return the gate for a session on a GPU with these originals.

    Parameters
    ----------
    needed
        What each needs, see `needed_ms`.
    """
    lengths = {name: length for name, length in needed.items() if length is not None}
    return Cover(max(lengths.values(), default=GATE_MS), tuple(lengths))


def mostly(late: int, calls: int) -> bool:
    """Whether the launches of a round were hidden."""
    return late <= SHARE * calls


class _Count(NamedTuple):
    late: int = 0
    made: int = 0


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
        before = self._counts.get(name, _Count())
        self._counts[name] = _Count(before.late + late, before.made + made)

    def hid(self, name: str) -> bool:
        """Whether the launches of a side were hidden."""
        count = self._counts.get(name, _Count())
        return self.gate_ms is not None and mostly(count.late, count.made)

    @property
    def better(self) -> Cover | None:
        """What to time with once more, since launching was charged to an original that can do without."""
        return None if all(self.hid(name) for name in self.cover.originals) else self.cover.longer

    def notes(self) -> list[str]:
        """Say which sides' times hold more than the device's work."""
        found = []
        for name, count in self._counts.items():
            if self.gate_ms is None or self.hid(name):
                continue
            share = f"{100 * count.late / count.made:.0f} % of its calls"
            found.append(f"{SIDES[name]} took longer than the {self.gate_ms:.2g} ms that are hidden in {share}.")
        return found


def waiting_counts(original_ms: float, candidate_ms: float, median_ms: float) -> list[str]:
    """Say that launching the original takes longer than its work, which counts where nothing else keeps the GPU busy.

    Parameters
    ----------
    original_ms, candidate_ms
        How long launching takes; of the candidate only its own process knows.
    median_ms
        Of the original's work.
    """
    if original_ms <= max(median_ms, GATE_MS / 2):
        return []
    return [
        f"Launching one call takes the processor {original_ms:.2g} ms for the original; for the kernel "
        f"{candidate_ms:.2g} ms, by its own account. That is hidden here; where a program waits for each call, it "
        "counts."
    ]
