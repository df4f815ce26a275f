"""What rows add up to: the paper's figures (section 5), each with its uncertainty. Pure; seeded where they draw.

How cells are counted:

- Only measured cells count. Degenerate and unusable problems say nothing about the agents, nor do faults of the
  machine; `left_out` lists them.
- *Success*: cells with a verified candidate, of all measured cells.
- *Fast1*: cells whose best verified candidate is at least as fast as the baseline, of the measured cells in which that
  baseline was timed. An unsolved cell is not fast. *Strictly*, the whole 95 % interval has to lie at 1 or above.
- *Speed*: over solved cells, time of the baseline over that of the best verified candidate. The paper averages it
  arithmetically; since ratios are concerned, the geometric mean is the fairer one, and the median the most robust.
- *Compile rate* and *correct rate* (Table 2): of all attempts with a verdict, the one that a corrected attempt has in
  the end. What was stopped, crashed or ran out of
  memory while it was built or loaded did not compile; the verdict says where that was.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from random import Random
from statistics import fmean, median

from stark_lsp.bench.rows import Attempt, Baseline, Gain, Outcome, Row
from stark_lsp.core.status import Limit, VerdictStatus
from stark_lsp.core.verdict import NOT_BUILT

RESAMPLES = 2000
"""Bootstrap samples behind an interval."""
FAST_P = (1.0, 1.5, 2.0)
"""Speed-ups p for which fast_p is told (KernelBench, https://arxiv.org/abs/2502.10517)."""
BETTER_COMPILE = "better compile"
RIVALS = {
    **{baseline.value: (baseline,) for baseline in Baseline},
    BETTER_COMPILE: (Baseline.COMPILE, Baseline.MAX_AUTOTUNE),
}
"""What arms are held against: each baseline, and in each cell the faster of torch.compile's two modes."""
FEWEST = 3
"""Problems from which on there is an interval; with so few it is a rough one."""
SEED = 20250607
"""Of the bootstrap, so that a report can be made again to the last digit."""
Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

NOT_COMPILED = frozenset(
    {VerdictStatus.REFUSED, VerdictStatus.COMPILE_ERROR, VerdictStatus.LOAD_ERROR, VerdictStatus.NO_CANDIDATE}
)
"""Verdicts of attempts that do not count as compiled; a refused one was never given to a compiler."""


@dataclass(frozen=True)
class Share:
    """How many of how many."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """Between 0 and 1, None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval by Wilson (https://doi.org/10.2307/2276774), None of nothing."""
        if not self.n:
            return None
        p, n, z = self.hits / self.n, self.n, Z95
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))


@dataclass(frozen=True)
class Estimate:
    """A figure over problems with its 95 % bootstrap interval."""

    value: float
    low: float | None
    """None for fewer than `FEWEST` problems."""
    high: float | None
    n: int
    """Values behind it."""


@dataclass(frozen=True)
class Speeds:
    """Speed against one baseline, over solved cells."""

    mean: Estimate
    """Arithmetic mean, the paper's."""
    geomean: Estimate
    median: Estimate


@dataclass(frozen=True)
class Against:
    """How an arm does against one baseline."""

    fast: Share
    """Fast1 by the median."""
    strictly: Share
    """Fast1 by the interval."""
    fast_p: tuple[Share, ...]
    """More than so many times as fast, for each of `FAST_P`; a tie is in `fast`, but not in KernelBench's fast_1."""
    speeds: Speeds | None
    """None if nothing was solved."""


def measured(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows that count."""
    return tuple(row for row in rows if row.outcome is Outcome.MEASURED)


def left_out(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows that do not count."""
    return tuple(row for row in rows if row.outcome is not Outcome.MEASURED)


def levels(rows: Iterable[Row]) -> tuple[int, ...]:
    """Return the levels there are."""
    return tuple(sorted({row.level for row in rows}))


# --- Table 1 -------------------------------------------------------------------------------------------


def success(rows: Iterable[Row]) -> Share:
    """Return how many cells have a verified candidate."""
    counted = measured(rows)
    return Share(sum(row.best is not None for row in counted), len(counted))


def ended_early(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the cells whose search ended since its agents had nothing more to propose, not by its budget."""
    return tuple(row for row in measured(rows) if row.ended_by is Limit.IDEAS)


def gave_out(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the cells whose agents gave out before the budget: no candidates any more, or a question too long."""
    return tuple(row for row in measured(rows) if row.reason or row.ended_by is Limit.CANDIDATES)


def limited(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the cells that were ended by a limit of time, tokens or money before all attempts were made."""
    return tuple(row for row in measured(rows) if row.ended_by in (Limit.SECONDS, Limit.TOKENS, Limit.DOLLARS))


def timed(row: Row, *baselines: Baseline) -> bool:
    """Whether any of these baselines was timed in a cell."""
    if row.baselines is None:
        return False
    times = {
        Baseline.EAGER: row.baselines.eager,
        Baseline.COMPILE: row.baselines.compile,
        Baseline.MAX_AUTOTUNE: row.baselines.max_autotune,
    }
    return any(times[baseline] is not None for baseline in baselines)


def gain(row: Row, *baselines: Baseline) -> Gain | None:
    """Return how much faster than a baseline a cell's best candidate is, None if it has none or it was not timed.

    Of several baselines it is held against the fastest that was timed; its interval then reaches as low as any's.
    """
    gains = row.best.gains if row.best is not None else {}
    found = [gains[baseline.value] for baseline in baselines if baseline.value in gains]
    if not found:
        return None
    lows, highs = [one.low for one in found if one.low is not None], [one.high for one in found if one.high is not None]
    paired = len(lows) == len(highs) == len(found)
    return Gain(min(one.value for one in found), min(lows) if paired else None, min(highs) if paired else None)


def against(rows: Iterable[Row], *baselines: Baseline) -> Against | None:
    """Return how an arm does against a baseline, or the fastest of several; None where none was ever timed."""
    counted = [row for row in measured(rows) if timed(row, *baselines)]
    if not counted:
        return None
    gains = [(row, found) for row in counted if (found := gain(row, *baselines)) is not None]
    return Against(
        Share(sum(found.value >= 1.0 for _, found in gains), len(counted)),
        Share(sum(found.low is not None and found.low >= 1.0 for _, found in gains), len(counted)),
        tuple(Share(sum(found.value > p for _, found in gains), len(counted)) for p in FAST_P),
        speeds([((row.problem, row.digest), found.value) for row, found in gains]),
    )


def speeds(values: Iterable[tuple[Hashable, float]]) -> Speeds | None:
    """Return mean, geometric mean and median of ratios, None of nothing.

    Parameters
    ----------
    values
        Problem and ratio; a problem may come several times, with several seeds.
    """
    clusters = _clusters(values)
    return _speeds(tuple(map(tuple, clusters))) if clusters else None


@lru_cache(maxsize=4096)
def _speeds(clusters: tuple[tuple[float, ...], ...]) -> Speeds:
    """Several tables and the plots show the same figures."""
    return Speeds(*(bootstrap(clusters, statistic) for statistic in (fmean, geomean, median)))


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(fmean(map(math.log, values)))


def bootstrap(
    clusters: Sequence[Sequence[float]],
    statistic: Callable[[Sequence[float]], float],
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Return a statistic with its 95 % percentile interval.

    Whole problems are drawn with replacement, so that seeds of one problem do not count as problems of their own.

    Parameters
    ----------
    clusters
        The values of each problem; none is empty.
    """
    everything = list(chain.from_iterable(clusters))
    if len(clusters) < FEWEST:
        return Estimate(statistic(everything), None, None, len(everything))
    rng = Random(seed)
    drawn = sorted(
        statistic(list(chain.from_iterable(rng.choices(clusters, k=len(clusters))))) for _ in range(resamples)
    )
    value = statistic(everything)
    low, high = drawn[int(0.025 * resamples)], drawn[math.ceil(0.975 * resamples) - 1]
    return Estimate(value, min(low, value), max(high, value), len(everything))


def _clusters(values: Iterable[tuple[Hashable, float]]) -> list[list[float]]:
    found: dict[Hashable, list[float]] = defaultdict(list)
    for problem, value in values:
        found[problem].append(value)
    return list(found.values())


# --- Table 2 -------------------------------------------------------------------------------------------


def attempts(rows: Iterable[Row]) -> tuple[Attempt, ...]:
    """Return the attempts of all measured cells."""
    return tuple(chain.from_iterable(row.attempts for row in measured(rows)))


def compile_rate(rows: Iterable[Row]) -> Share:
    """Return how many attempts gave something that compiles and loads."""
    made = attempts(rows)
    return Share(sum(compiled(attempt) for attempt in made), len(made))


def compiled(attempt: Attempt) -> bool:
    """Whether an attempt gave something that compiles and loads."""
    return attempt.status not in NOT_COMPILED and attempt.failed_in not in NOT_BUILT


def correct_rate(rows: Iterable[Row]) -> Share:
    """Return how many attempts gave a verified candidate."""
    made = attempts(rows)
    return Share(sum(attempt.status is VerdictStatus.OK for attempt in made), len(made))


def corrected(rows: Iterable[Row]) -> Share:
    """Return how many attempts were corrected by their author, of those whose rows tell it."""
    made = [attempt.corrections for attempt in attempts(rows) if attempt.corrections is not None]
    return Share(sum(count > 0 for count in made), len(made))


def statuses(rows: Iterable[Row]) -> dict[VerdictStatus, int]:
    """Return how many attempts ended with which verdict, the most frequent first."""
    counts: dict[VerdictStatus, int] = defaultdict(int)
    for attempt in attempts(rows):
        counts[attempt.status] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0].value)))


# --- Figure 1 ------------------------------------------------------------------------------------------


def runtime_ratios(ours: Iterable[Row], theirs: Iterable[Row]) -> tuple[tuple[str, float], ...]:
    """Return for each problem that both solved (with the same seed) the runtime of their best over that of ours.

    Each was timed in turns with eager, in another session; the ratio of the two speed-ups over eager is the ratio of
    the runtimes without what the machine did meanwhile.
    """
    base = _eager_gains(theirs)
    return tuple((place[0], value / base[place]) for place, value in _eager_gains(ours).items() if place in base)


def _eager_gains(rows: Iterable[Row]) -> Mapping[tuple[str, str, int], float]:
    """Return gains by problem, digest of its text, and seed."""
    return {
        (row.problem, row.digest, row.search.seed): found.value
        for row in measured(rows)
        if (found := gain(row, Baseline.EAGER)) is not None
    }
