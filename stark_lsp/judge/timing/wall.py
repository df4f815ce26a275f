"""What a candidate's own times are held against: the judge's clock, the memory's speed, and idle threads.

A timed call happens in the candidate's process, which could report any figure. The judge therefore takes its own
time of whole rounds at two numbers of calls. What is left of the slope after the reported times is what goes with a
call besides it (fresh inputs, copying the outputs); a trusted runner that calls nothing tells how much that is. If a
candidate's rounds take longer than that explains, work was done outside of what was reported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

from ...contract import process_trees

REPEATS = 12
"""Nobody is accused unless so many measurements in a row agree; the first that does not ends it."""
FEW = 2
"""Calls of the shorter of the two rounds."""
MANY = 42
"""Most calls of the longer one."""
AIM_MS = {"cpu": 6.0, "cuda": 25.0}
"""How much longer it should take; on a GPU each call has a gate before it."""
SLACK_MS = {"cpu": 0.3, "cuda": 0.06}
"""Time of a call that noise may account for."""
SHARE = {"cpu": 1.0, "cuda": 0.4}
"""Share of the reported time that may stay unexplained; on a CPU `judged_ms` is the finer measure."""
LONG = 200
"""Most calls of a round that the judge times by its own clock."""
LONG_MS = 20.0
"""How much longer than a short round it is to take."""
SURE = 3
"""Measurements of it that are made in any case."""
MOST = 5
"""Measurements of it that are made at most."""
AGREE = {"quiet": 1.15, "busy": 1.6}
"""By how much a call with warm caches may take longer, by the judge's clock, than one with empty caches is said to."""
FORGED = 3.0
"""From this factor on it is no noise."""
BUSY = 20.0
"""Patience while other programs keep the machine busy: they may hold up one process for long, and not the other."""
COLD = {"cpu": 0.5, "cuda": 0.8}
"""A call with empty caches is never faster than this share of one with warm caches, as the judge's clock has it.

It does the same work and waits longer for memory, so that only the clock of the device, which may fall between the two,
makes it seem faster. On a GPU a fifth is more than that does while one candidate is timed, and the calls with warm
caches, between which the GPU rests, find it no hotter. On a CPU others may slow down one phase far more; there
`judged_ms` is the finer measure.
"""
FLOOR = 0.5
"""Nor faster than this share of what writing its outputs takes."""
WORKING = 0.2
"""Share of one CPU from which a process that should wait is at work."""
GRACE_S = 0.5
"""Threads of OpenMP libraries may spin up to 0.2 s before they sleep."""
LOOK_S = 0.02
IDLE_S = 0.05
"""Over less time nothing can be told."""
IDLE_ROOM_S = 0.3
"""What threads of OpenMP libraries may spin, over all turns of the others, before they sleep."""


class Sample(NamedTuple):
    """One round as the judge saw it."""

    wall_ms: float
    """From the request to the answer, by the judge's clock."""
    ms: list[float]
    """What was reported for each call."""


Run = Callable[[int], Sample]
"""Makes a round of that many calls with warm caches."""


class Slope(NamedTuple):
    """What rounds of two lengths say about one call."""

    besides_ms: float
    """Time of a call that was not reported."""
    reported_ms: float
    """Mean of the reported times of a longer round."""


class Rounds:
    """Rounds of one runner at two numbers of calls, of which the shortest count.

    Others who are at work on the machine only make a round longer, and one interruption of a few milliseconds is
    more than what noise may account for in forty short calls.

    Parameters
    ----------
    run
        Makes a round.
    device
        Where the calls are made.
    lead_ms
        Gate before each call, which goes with no call.
    most
        Most calls of a round whose outputs can all be kept.
    """

    def __init__(self, run: Run, device: str = "cpu", lead_ms: float = 0.0, most: int = LONG) -> None:
        self._run = run
        self._few, self._most = shortest(most), min(most, MANY)
        self._aim_ms = AIM_MS.get(device, AIM_MS["cpu"])
        self._lead_ms = lead_ms
        self._walls: dict[int, float] = {}
        self._besides: dict[int, float] = {}
        self._reported: dict[int, float] = {}

    def slope(self) -> Slope:
        """Make two rounds more, and return what the shortest of all so far say about a call."""
        few = self._few
        self._make(few)
        each = max(self._walls[few] / few, 1e-3)
        many = few + max(few, min(self._most - few, int(self._aim_ms / each)))
        self._make(many)
        besides = self._besides[many] - self._besides[few]
        return Slope(besides / (many - few) - self._lead_ms, self._reported[many])

    def _make(self, calls: int) -> None:
        made = self._run(calls)
        reported = sum(made.ms)
        for least, found in (
            (self._walls, made.wall_ms),
            (self._besides, made.wall_ms - reported),
            (self._reported, reported / calls),
        ):
            least[calls] = min(found, least.get(calls, found))


def shortest(most: int) -> int:
    """Return the calls of the shorter of two rounds, where the longer one has no more than `most`, if that is not 1."""
    return FEW if most >= 2 * FEW else 1


def unexplained_ms(candidate: Slope, empty: Slope) -> float:
    """Return the time of a call that neither the reported times nor what goes with a call account for."""
    return candidate.besides_ms - empty.besides_ms


def bound_ms(candidate: Slope, empty: Slope, device: str, patience: float = 1.0) -> float:
    """Return how much of a call may stay unexplained."""
    slack = SLACK_MS.get(device, 0.3) + 0.5 * max(0.0, empty.besides_ms)
    return patience * max(slack, SHARE.get(device, 1.0) * candidate.reported_ms)


def accusation(
    candidate: Run,
    empty: Run,
    own_empty: Run,
    device: str,
    median_ms: float,
    lead_ms: float = 0.0,
    patience: float = 1.0,
    most: int = LONG,
) -> str | None:
    """Say in what way the reported times cannot be true, None if they can.

    Parameters
    ----------
    candidate, empty, own_empty
        Rounds of the candidate, rounds of a trusted runner that calls nothing, and such rounds of the candidate's
        runner, which may be slower for reasons of its own (fewer threads, for one).
    median_ms
        What was reported for calls with empty caches.
    lead_ms
        Gate before each call of these rounds: the processor's work is hidden behind it, the device's adds to it.
    patience
        How many times larger than usual a gap must be; see `BUSY`.
    most
        Most calls of a round whose outputs can all be kept.
    """
    rounds, base_rounds, own_rounds = (Rounds(run, device, lead_ms, most) for run in (candidate, empty, own_empty))
    text: str | None = None
    # Once is not enough: an interruption of the trusted runner would explain whatever the candidate left out.
    base_rounds.slope()
    for _ in range(REPEATS):
        found, base = rounds.slope(), base_rounds.slope()
        text = _compare(found, base, device, median_ms, patience)
        if text is not None:
            # The trusted runner has as many threads as there are cores, so that is how much slower another can be.
            cores = os.cpu_count() or 1
            own = min(own_rounds.slope().besides_ms, cores * max(base.besides_ms, 0.0) + 0.3)
            base = Slope(max(own, base.besides_ms), base.reported_ms)
            text = _compare(found, base, device, median_ms, patience)
        if text is None:
            return None
    return text


def _compare(found: Slope, base: Slope, device: str, median_ms: float, patience: float) -> str | None:
    extra = unexplained_ms(found, base)
    if extra > bound_ms(found, base, device, patience):
        return (
            f"It reported {found.reported_ms:.4g} ms for a call, but by the judge's clock a call took "
            f"{found.reported_ms + extra:.4g} ms."
        )
    cold = median_ms + SLACK_MS.get(device, 0.3)
    warm = warm_ms(found, base)
    if patience * cold < COLD.get(device, 0.5) * warm:
        return (
            f"It reported {median_ms:.4g} ms for a call with empty caches, but a call took {warm:.4g} ms with warm "
            "ones, which can only be faster."
        )
    return None


def warm_ms(found: Slope, base: Slope) -> float:
    """Return how long a call with warm caches takes by the judge's clock, at least.

    What was reported, and what was not: a process that leaves out a part of these calls as well gains nothing by it.
    What goes with a call differs between processes, so half of that is not counted.
    """
    extra = unexplained_ms(found, base) - 0.5 * max(0.0, base.besides_ms)
    return found.reported_ms + max(0.0, extra)


def judged_ms(candidate: Run, empty: Run, claimed_ms: float, most: int = LONG) -> float:
    """Return how long a call with warm caches takes by the judge's own clock, on a CPU.

    A process that reports its own times can report any, as long as the judge looks at the reports. On a CPU nothing
    of a call is hidden behind anything else, so the time of whole rounds, less what goes with a call, is the call's.
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
    few = shortest(most)
    many = _enough(candidate, few, max(2 * few, min(most, LONG)))
    walls: dict[tuple[str, int], list[float]] = {}
    judged = 0.0
    for made in range(1, MOST + 1):
        for name, run in (("candidate", candidate), ("empty", empty)):
            for calls in (few, many):
                walls.setdefault((name, calls), []).append(run(calls).wall_ms)
        least = {key: min(found) for key, found in walls.items()}
        more = {name: least[name, many] - least[name, few] for name in ("candidate", "empty")}
        judged = (more["candidate"] - max(0.0, more["empty"])) / (many - few)
        if made >= SURE and judged <= claimed_ms:
            break
    return judged


def _enough(run: Run, few: int, most: int) -> int:
    """Return how many calls make a round that is much longer than what goes with a request."""
    short = run(few).wall_ms
    many = min(4 * few, most)
    while many < most and run(many).wall_ms - short < LONG_MS:
        many = min(2 * many, most)
    return many


def floor_ms(output_bytes: int, cache_bytes: int, bytes_per_s: float | None) -> float:
    """Return the milliseconds that writing the outputs takes at least.

    Parameters
    ----------
    cache_bytes
        Size of the last-level cache, where that much may still lie when a call is done.
    bytes_per_s
        Measured bandwidth of the device's memory; None if it is not known.
    """
    if not bytes_per_s:
        return 0.0
    return max(0, output_bytes - cache_bytes) / bytes_per_s * 1e3


def too_fast(median_ms: float, floor: float) -> str | None:
    """Say that a time is impossible, None if it is not."""
    if median_ms >= FLOOR * floor:
        return None
    return (
        f"It reported {median_ms:.4g} ms for a call, but writing its outputs alone takes {floor:.4g} ms on this device."
    )


def wanted_ns(pids: list[int]) -> int:
    """Return for how long processes ran or waited for a CPU, in nanoseconds (Linux).

    Of the threads that live now; the waiting counts since it says on a busy machine what was wanted.
    """
    total = 0
    for one in pids:
        try:
            threads = os.listdir(f"/proc/{one}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{one}/task/{thread}/schedstat") as file:
                    total += sum(int(word) for word in file.read().split()[:2])
            except (OSError, ValueError, IndexError):
                continue
    return total


class Idle:
    """Sees whether a process rests while others have their turn.

    Parameters
    ----------
    pid
        The process; those below it count as well.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._wanted = 0
        self._elapsed = 0

    def during(self, turn: Callable[[], list[float]]) -> list[float]:
        """Let another have its turn, and look what this process does meanwhile."""
        # What it starts only now is found by the next turn; looking for it takes as long as many a turn.
        pids = [self._pid, *process_trees.below(self._pid)]
        before, begin = wanted_ns(pids), time.monotonic_ns()
        found = turn()
        self._wanted += max(0, wanted_ns(pids) - before)
        self._elapsed += time.monotonic_ns() - begin
        return found

    def busy(self) -> float:
        """Return how many CPUs it kept busy, or wanted to; 0 if it rested, or was not looked at for long enough."""
        if self._elapsed < IDLE_S * 1e9:
            return 0.0
        share = (self._wanted - IDLE_ROOM_S * 1e9) / self._elapsed
        return share if share > WORKING else 0.0


def thread_count(pid: int) -> int:
    """Return how many threads a process and all below it have; 0 where the system does not tell."""
    count = 0
    for one in [pid, *process_trees.below(pid)]:
        try:
            count += len(os.listdir(f"/proc/{one}/task"))
        except OSError:
            continue
    return count


def still_working(pid: int) -> float:
    """Return how many CPUs a process keeps busy that should wait for its next request; 0 if it comes to rest."""
    deadline = time.monotonic() + GRACE_S
    quiet = 0
    while True:
        pids = [pid, *process_trees.below(pid)]
        before, begin = wanted_ns(pids), time.monotonic_ns()
        time.sleep(LOOK_S)
        busy = (wanted_ns(pids) - before) / (time.monotonic_ns() - begin)
        quiet = quiet + 1 if busy < WORKING else 0
        # What waits for a CPU for the whole of a look is counted only afterwards.
        if quiet == 2:
            return 0.0
        if busy >= WORKING and time.monotonic() > deadline:
            return busy
