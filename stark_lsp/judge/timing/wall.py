"""The judge's own clock.

A timed call happens in the candidate's process, which could report any figure. So the judge times whole rounds from
outside. What goes with a call besides it (fresh inputs, copying the outputs, digests, freeing them) it knows from
rounds of the original of as many calls, whose reports can be trusted; what is left is the calls' time. Where that is
longer than what was reported, it counts; where it is so by no more than its own noise, the interval of the speed-up
reaches down to it. Nobody is accused: clocks differ for many reasons, and who reported less than is true gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

LONG = 200
"""Most calls of a round that the judge times by its own clock."""
LONG_MS = 20.0
"""How long such a round is to take, if it may have so many calls ..."""
TRUSTED_MS = 200.0
"""... and how long a round of the original may take, which is as many."""
BESIDES_MS = {"cpu": 0.1, "cuda": 0.6}
"""What goes with a short call, on a GPU mostly its inputs and emptying the caches."""
SURE = 3
"""Measurements of it that are made in any case."""
MOST, MOST_MS = 12, 6000.0
"""Measurements of it that are made if need be, and how long rounds may take in all for there to be more: where others
are at work on the machine, what goes with a round varies by milliseconds, and only the shortest of many tells."""
AGREE = {"quiet": 1.15, "busy": 1.6}
"""By how much a call may take longer by the judge's clock than it is said to, on a CPU with warm caches."""
SLACK_MS = {"cpu": 0.0, "cuda": 0.05}
"""And how much more; on a GPU a host waits for it twice a call, and notices the end now sooner, now later."""


class Sample(NamedTuple):
    """One round as the judge saw it."""

    wall_ms: float
    """From the request to the answer, by the judge's clock."""
    ms: list[float]
    """What was reported for each call."""


Run = Callable[[int], Sample]
"""Makes a round of that many calls, after one that is not reported."""


class Judged(NamedTuple):
    """What the judge's clock says of a call."""

    ms: float
    noise_ms: float
    """How far it may be off: twice what the shortest rounds of the original lie below their next."""


def judged(
    candidate: Run, trusted: Run, claimed_ms: float, trusted_ms: float, device: str = "cpu", most: int = LONG
) -> Judged:
    """Return how long a call takes by the judge's own clock.

    Of several rounds the shortest count, since others who are at work on the machine only make them longer.

    Parameters
    ----------
    candidate, trusted
        Rounds of the candidate, and of the original.
    claimed_ms
        What was reported; once the judge's figure agrees with that, no more measurements are made.
    trusted_ms
        How long a call of the original takes.
    most
        Most calls of a round whose outputs can all be kept.
    """
    each = [call_ms + BESIDES_MS[device] for call_ms in (claimed_ms, trusted_ms)]
    lengths = _lengths(min(LONG_MS / each[0], TRUSTED_MS / each[1]), min(most, LONG))
    runs = (candidate, trusted)
    seen: dict[tuple[Run, int], list[float]] = {(run, calls): [] for run in runs for calls in lengths}
    found = Judged(0.0, 0.0)
    made, spent = 0, 0.0
    while made < MOST or spent < MOST_MS:
        made += 1
        for (run, calls), walls in seen.items():
            sample = run(calls)
            spent += sample.wall_ms
            told = sum(sample.ms) if run is trusted else 0.0
            # Where one call is all that can be kept, the one before it is taken to be as long.
            walls.append(sample.wall_ms - told * (2 if most == 1 else 1))
            walls.sort()
        if made >= SURE:
            ours, besides = (_of_one([seen[run, calls] for calls in lengths], lengths) for run in runs)
            found = Judged(ours.ms - max(0.0, besides.ms), 2 * besides.noise_ms)
            if most == 1:
                found = Judged(found.ms / 2, found.noise_ms / 2)
            if agreement(found, claimed_ms, device, busy=False) is Agreement.AGREES:
                break
    return found


def _lengths(fitting: float, most: int) -> tuple[int, ...]:
    """Return the numbers of calls of a short round and of a longer one; only 1 if no more can be kept.

    They are the same for the original: digests of many outputs are made at once, so that what one more of them costs
    depends on how many there are.
    """
    return (1, max(2, min(most, int(fitting)))) if most > 1 else (1,)


def _of_one(walls: list[list[float]], lengths: tuple[int, ...]) -> Judged:
    """Return what one call more makes a round longer; the call that goes before it is as slow in both."""
    few, many = walls[0], walls[-1]
    if few is many:
        return Judged(few[0], few[1] - few[0])
    more = lengths[-1] - lengths[0]
    return Judged((many[0] - few[0]) / more, (many[1] - many[0] + few[1] - few[0]) / more)


class Agreement(Enum):
    """What the judge's clock says of reported times."""

    AGREES = "agrees"
    UNSURE = "unsure"
    """Its figure is longer, by no more than it is off itself."""
    DISAGREES = "disagrees"


def agreement(judged: Judged, claimed_ms: float, device: str, *, busy: bool) -> Agreement:
    """Return whether the judge's figure is longer than noise makes it.

    Parameters
    ----------
    busy
        Whether other programs kept the processors busy meanwhile.
    """
    most = AGREE["busy" if busy else "quiet"] * claimed_ms + SLACK_MS[device]
    if judged.ms <= most:
        return Agreement.AGREES
    return Agreement.DISAGREES if judged.ms - judged.noise_ms > most else Agreement.UNSURE
