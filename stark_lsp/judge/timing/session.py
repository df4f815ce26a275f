"""Sessions of timing: what is planned, what one gave, and when it is made again."""

from __future__ import annotations

from dataclasses import dataclass

from ..device import observe
from . import clock, kept, rounds
from .problem_runners import Bench


@dataclass(eq=False)
class Session:
    """What one session gave."""

    times: rounds.RoundTimes
    watch: observe.Watch

    def notes(self, bench: Bench) -> list[str]:
        """Have the bench learn from the session, and return what a user should know about it."""
        if not self.times.early and not self.watch.unlucky:
            # How much sessions differ.
            bench.remember(self.times.rounds_ms("eager"))
        return list(self.watch.notes)


def fitting(bench: Bench) -> int:
    """Return how many calls of a round all have their outputs kept."""
    return kept.fitting(bench.device, bench.output_bytes)


def longest(bench: Bench) -> int:
    """Return how many calls a round may have that is timed with empty caches."""
    return min(fitting(bench), clock.FRESH) if bench.device == "cuda" else fitting(bench)
