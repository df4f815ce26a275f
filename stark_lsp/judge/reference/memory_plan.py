"""How much of a problem is made and kept at a time, so that gigabytes fit beside each other and are judged soon.

All of it follows from sizes and times that are measured once, before the first candidate. A GPU is filled to a half, or
by four times the problem if that is more; where even the least does not fit in there, the least is taken.
"""

from __future__ import annotations

from typing import NamedTuple

from ..timing import fresh, kept, recheck

MEMORY_SHARE = 0.25
"""Share of the machine's memory that inputs and expected outputs of all cases may take."""
SETS = 3
"""Input sets that the inputs of timed calls are mixed from."""
SETS_LIMIT = {"cpu": 1 << 30, "cuda": 8 << 30}
"""Bytes of inputs that a runner holds for timing; one set is held in any case."""
TWIN_LIMIT = 256 << 20
"""Bytes of inputs up to which eager has a second process."""
COMPILED = 2
"""Processes of what torch.compile makes."""
TIMES = 4
"""So many times the problem a GPU is filled by, where that is more than half of it."""
CONTEXTS, CONTEXTS_SHARE = 3 << 30, 16
"""Bytes that processes take on a GPU however small a problem is, and the part of a small GPU that they take."""
MOST_SHARE = 0.85
"""Share of what is free on a GPU that is used at all."""
RATE = 1.5e9
"""Bytes a second that go from one process to another by way of a file, written, read and compared."""
CASES_S = 6.0
"""Seconds for which whole cases of one candidate may be run and compared, once there are `CASES` of them."""
MAKING_S = 15.0
"""Seconds for which inputs may be made, once there are `CASES` of them."""
CASES = 2
LOOKS_S = 12.0
"""Seconds for which outputs of timed calls may be fetched and compared, once there are `LOOKS` of them."""
LOOKS = 2
PARALLEL = 64
"""Candidates that are verified at a time at most."""
LARGE = 256 << 20
"""Bytes of a problem on a GPU from which memory is given back as soon as it is free, and not kept for the next use."""


class Sizes(NamedTuple):
    """What one call of the reference takes."""

    inputs: int
    """In bytes, as the others."""
    outputs: int
    weights: int = 0
    working: int = 0
    """What it needs meanwhile, besides inputs and outputs."""
    seconds: float = 0.0
    """Of the call."""
    making_s: float = 0.0
    """Of making its inputs."""

    @property
    def problem(self) -> int:
        """What counts as the size of the problem."""
        return self.inputs + self.outputs + self.weights


class Plan(NamedTuple):
    """What is made and kept."""

    cases: int
    """With inputs as the user makes them."""
    sets: int
    """Of inputs that a timed process holds."""
    looks: int
    """Rounds whose outputs are looked at, see `recheck.Recheck`."""
    twin: bool
    """Whether eager has a second process."""
    compiled: bool
    """Whether what torch.compile made stays while candidates are judged."""
    beside: int
    """How much of what torch.compile made fits beside eager and a candidate for the length of a session."""
    parallel: int
    """Candidates that are verified at a time."""
    large: bool = False
    """Whether memory is given back as soon as it is free."""

    def note(self, seeds: int) -> str | None:
        """Return what is left out of what a small problem gets, for a user; None if nothing is."""
        left = []
        if self.cases < seeds:
            left.append(f"{self.cases} instead of {seeds} different inputs are checked")
        if self.sets < min(SETS, self.cases):
            one = "one of them" if self.sets == 1 else f"{self.sets} of them"
            left.append(f"the inputs of timed calls are made from {one}")
        if self.looks < recheck.FEWEST:
            left.append(f"the outputs of {self.looks} timed rounds are looked at")
        if self.beside < COMPILED:
            left.append(
                "torch.compile is timed in sessions of its own and not beside candidates"
                if self.beside == 0
                else "of what torch.compile makes one is timed beside candidates"
            )
        return f"The problem is large or slow: {'; '.join(left)}." if left else None


def timed_bytes(sizes: Sizes, sets: int, room: int) -> int:
    """Return what a process takes that is timed.

    Parameters
    ----------
    sets
        Of inputs that it holds; the buffers that they are mixed in come on top.
    room
        Bytes of outputs that it may keep in one round, see `kept.room`.
    """
    # Of calls that are alone in their round nothing is copied.
    alone = sizes.outputs >= kept.SINGLE and room < 2 * sizes.outputs
    kept_outputs = 0 if alone else max(sizes.outputs, min(room, kept.MOST * sizes.outputs))
    inputs = (sets + fresh.buffers(sizes.inputs)) * sizes.inputs
    return sizes.weights + inputs + sizes.outputs + kept_outputs + sizes.working


def lacking(sizes: Sizes, free: int) -> str | None:
    """Say that a GPU cannot hold the original and a candidate that take turns, None if it can."""
    needed = 2 * timed_bytes(sizes, 1, 0)
    words = f"The original and a candidate, timed by turns, would take {needed / 2**30:.1f} GiB of the GPU's memory"
    return f"{words}; {free / 2**30:.1f} GiB are free" if needed > free else None


def on_cpu(sizes: Sizes, seeds: int, memory: int) -> Plan:
    """Return the plan for a CPU: `seeds` different inputs were asked for, the machine has so many bytes of memory."""
    small = sizes.inputs <= TWIN_LIMIT
    cases = max(1, min(seeds, int(MEMORY_SHARE * memory / max(1, sizes.inputs + sizes.outputs))))
    return Plan(cases, _sets(sizes, "cpu"), recheck.MOST, small, small, COMPILED, PARALLEL)


def on_gpu(sizes: Sizes, seeds: int, memory: int, free: int, total: int) -> Plan:
    """Return the plan for a GPU; so many bytes of it are free before any process of the judge uses it, and in total."""
    budget = max(free // 2 - min(CONTEXTS, free // CONTEXTS_SHARE), TIMES * sizes.problem)
    room = max(kept.LEAST["cuda"], min(total // kept.SHARE["cuda"], free // kept.FREE_SHARE))
    most = _sets(sizes, "cuda")
    small = sizes.inputs <= TWIN_LIMIT
    choices = [(most, small, True), (most, small, False), (most, False, False), (2, False, False), (1, False, False)]

    # Each is fetched from the candidate and from eager.
    looks = int(min(max(LOOKS, LOOKS_S / max(2 * sizes.outputs / RATE, 1e-9)), recheck.MOST))
    # The judge itself has what it expects of a case, what it looks at, and what eager gives for that.
    own = 3 * sizes.outputs

    def needed(choice: tuple[int, bool, bool]) -> int:
        return own + timed_bytes(sizes, min(choice[0], most), room) * (2 + choice[1] + COMPILED * choice[2])

    choice = next((one for one in choices if needed(one) <= budget), choices[-1])
    sets, twin, compiled = choice
    verified = sizes.weights + sizes.inputs + 4 * sizes.outputs + sizes.working
    beside = int((MOST_SHARE * free - own) / timed_bytes(sizes, min(sets, most), room)) - 2
    case_s = sizes.seconds + (sizes.inputs + sizes.outputs) / RATE
    cases = min(CASES_S / max(case_s, 1e-9), MAKING_S / max(sizes.making_s, 1e-9), seeds)
    return Plan(
        min(max(int(cases), min(CASES, seeds)), on_cpu(sizes, seeds, memory).cases),
        min(sets, most),
        looks,
        twin,
        compiled,
        max(0, min(COMPILED, beside)),
        1 + max(0, min(PARALLEL - 1, (budget - needed(choice)) // max(1, verified))),
        sizes.problem > LARGE,
    )


def _sets(sizes: Sizes, device: str) -> int:
    return max(1, min(SETS, SETS_LIMIT[device] // max(1, sizes.inputs)))
