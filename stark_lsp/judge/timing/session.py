"""Sessions of timing: what is planned, what one gave, and when it is made again."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from ..device import observe
from . import clock, kept, rounds
from .problem_runners import Bench
from .recheck import Recheck

OFFICIAL_ROUNDS = 10
"""Rounds that a fixed number of calls is divided into; more, if a round cannot have so many calls."""
FINAL_SHARE = 2
"""Of the final rounds, one half is made in any case."""


class Plan:
    """How many rounds are made, and how many calls each has.

    Parameters
    ----------
    settings
        `core.EvaluationSettings` in wire form.
    final
        Whether it is for a proposal.
    most
        Most calls of a round.
    """

    def __init__(self, settings: dict[str, Any], *, final: bool, most: int = kept.MOST) -> None:
        total = int(settings.get("timed_calls", 0))
        self.calls: list[int] | None = None
        """Calls of each round; None for as many as make a round."""
        self.rounds = int(settings["final_rounds" if final else "rounds"])
        self.seconds = float(settings["final_timing_s" if final else "timing_s"])
        self.target = float(settings.get("target_error", 0.0))
        self.fewest = self.rounds // FINAL_SHARE if final else rounds.FEWEST
        if total > 0:
            self.rounds = min(total, max(OFFICIAL_ROUNDS, -(-total // most)))
            each, more = divmod(total, self.rounds)
            self.calls = [each + (index < more) for index in range(self.rounds)]
            self.seconds, self.target = float("inf"), 0.0
        self.seeds = [secrets.token_hex(8) for _ in range(self.rounds)]
        """For each round what its inputs are made from."""

    def interleave(
        self, sides: dict[str, rounds.Side], between: float, *, candidate: str | None = None, give_up: int = 0
    ) -> rounds.RoundTimes:
        """Time all sides as planned."""
        return rounds.interleave(
            sides,
            self.rounds,
            seconds=self.seconds,
            candidate=candidate,
            target=self.target,
            fewest=self.fewest,
            give_up=0 if self.calls else give_up,
            each=self.calls is not None,
            between=between,
        )


@dataclass(eq=False)
class Session:
    """What one session gave."""

    times: rounds.RoundTimes
    watch: observe.Watch
    recheck: Recheck
    """Draws of the candidate's outputs; none were made if it had no candidate."""

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
