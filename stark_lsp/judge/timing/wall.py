"""The judge's own clock, and a candidate that rests while others are timed.

A timed call happens in the candidate's process, which could report any figure. So the judge times whole rounds from
outside, of the candidate's process and of a trusted one that does all that goes with a call (fresh inputs, copying the
outputs) but calls nothing; what is left is the calls' time. Where that is longer than what was reported, it counts.
Nobody is accused: clocks differ for many reasons, and who reported less than is true gains nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...contract import process_trees

LONG = 200
"""Most calls of a round that the judge times by its own clock."""
LONG_MS = 20.0
"""How much longer than one of a single call such a round is to take, if it may have so many."""
SURE = 3
"""Measurements of it that are made in any case."""
MOST = 5
"""Measurements of it that are made at most."""
AGREE = {"quiet": 1.15, "busy": 1.6}
"""By how much a call with warm caches may take longer, by the judge's clock, than one with empty caches is said to."""
SLACK_MS = {"cpu": 0.0, "cuda": 0.05}
"""And how much more; the kernel that hides launches on a GPU takes some time of its own, now more, now less."""


class Sample(NamedTuple):
    """One round as the judge saw it."""

    wall_ms: float
    """From the request to the answer, by the judge's clock."""
    ms: list[float]
    """What was reported for each call."""


Run = Callable[[int], Sample]
"""Makes a round of that many calls with warm caches, after one that is not reported."""


def judged_ms(candidate: Run, empty: Run, claimed_ms: float, most: int = LONG) -> float:
    """Return how long a call takes by the judge's own clock.

    Of several rounds the shortest count, since others who are at work on the machine only make them longer.

    Parameters
    ----------
    candidate, empty
        Rounds of the candidate, and rounds of a trusted runner that calls nothing.
    claimed_ms
        What was reported; once the judge's figure is no longer than that, no more measurements are made.
    most
        Most calls of a round whose outputs can all be kept.
    """
    most = min(most, LONG)
    short, many = candidate(1).wall_ms, 1
    while many < most and (many == 1 or candidate(many).wall_ms - short < LONG_MS):
        many = min(4 * many, most)
    least: dict[tuple[str, int], float] = {}
    judged = 0.0
    for made in range(1, MOST + 1):
        for name, run in (("candidate", candidate), ("empty", empty)):
            for calls in (1, many):
                least[name, calls] = min(run(calls).wall_ms, least.get((name, calls), float("inf")))
        if many == 1:
            judged = (least["candidate", 1] - least["empty", 1]) / 2
        else:
            # The call that goes before them finds a process that was idle: it is slower, and as slow in both.
            more = {name: least[name, many] - least[name, 1] for name in ("candidate", "empty")}
            judged = (more["candidate"] - max(0.0, more["empty"])) / (many - 1)
        if made >= SURE and judged <= claimed_ms:
            break
    return judged


def disagrees(judged: float, claimed_ms: float, device: str, *, busy: bool) -> bool:
    """Whether the judge's figure is longer than noise makes it.

    Parameters
    ----------
    judged, claimed_ms
        See `judged_ms`.
    device
        `cpu` or `cuda`.
    busy
        Whether other programs kept the processors busy meanwhile.
    """
    return judged > AGREE["busy" if busy else "quiet"] * claimed_ms + SLACK_MS[device]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process and all below it in the block, so that it cannot make others slower while these are timed.

    What it starts at this very moment is stopped by the next block.
    """
    pids = [pid, *process_trees.below(pid)]
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(reversed(pids), signal.SIGCONT)


def _signal(pids: Iterator[int] | list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
