"""Several attempts at a time, in simulated time: how much sooner a search ends, and what it finds.

    python benchmarks/parallel.py [--seeds 100] [--attempts 30] [--json OUT]

A plan takes 20 s, code and repairs 40 s, a verdict 5 s with one candidate judged at a time; nothing else takes time.
The landscape (`tests/search/simulated.py`) lets a kernel be reached only through its ancestors, which is the hard
case for attempts that do not know of each other. Each row is the mean over seeds, each with a landscape of its own.

- *sooner*: seconds with one attempt at a time over seconds with N.
- *speed-up*: geometric mean of the root's runtime over the best kernel's.
- *of the possible*: its logarithm as a share of that of the best kernel there is.
- *as good*: share of the seeds with a best kernel at most 5 % slower than with one attempt at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "search"))

from simulated import Landscape, search

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.leaderboard import best

WAYS = ((1, 1), (2, 1), (4, 1), (8, 1), (4, 4))
"""Attempts in flight, and how many times the budget of attempts."""
CASES = {
    "5 improvements, 40 % fail": (5, 0.4),
    "6 improvements, 40 % fail": (6, 0.4),
    "6 improvements, 60 % fail": (6, 0.6),
    "10 improvements, 40 % fail": (10, 0.4),
}
"""Improvements there are, and the probability that a candidate fails."""


def measure(
    case: tuple[int, float], in_flight: int, seeds: int, attempts: int, system: str, policy: str
) -> list[tuple[float, float, float]]:
    """Return for each seed: seconds, speed-up, and its logarithm as a share of the possible one."""
    found = []
    for seed in range(seeds):
        landscape = Landscape.draw(seed, *case)
        settings = SearchSettings(system=system, policy=policy, attempts=attempts, in_flight=in_flight, seed=seed)
        tree, seconds = search(landscape, settings)
        speedup = tree.root.score / best(tree).score
        found.append((seconds, speedup, math.log(speedup) / math.log(tree.root.score / landscape.best_ms)))
    return found


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--attempts", type=int, default=30)
    parser.add_argument("--system", default="stark")
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()

    table = []
    print(f"{arguments.seeds} seeds, {arguments.system}, policy {arguments.policy}")
    heads = ("N", "attempts", "seconds", "sooner", "speed-up", "of the possible", "as good")
    print(" " * 27 + "".join(f"{head:>{len(head) + 3}}" for head in heads))
    for name, case in CASES.items():
        alone = None
        for in_flight, times in WAYS:
            attempts = times * arguments.attempts
            rows = measure(case, in_flight, arguments.seeds, attempts, arguments.system, arguments.policy)
            alone = alone or rows
            figures = {
                "case": name,
                "in_flight": in_flight,
                "attempts": attempts,
                "seconds": statistics.fmean(row[0] for row in rows),
                "sooner": statistics.fmean(row[0] for row in alone) / statistics.fmean(row[0] for row in rows),
                "speedup": statistics.geometric_mean(row[1] for row in rows),
                "of_the_possible": statistics.fmean(row[2] for row in rows),
                "as_good": statistics.fmean(one[1] >= first[1] / 1.05 for one, first in zip(rows, alone, strict=True)),
            }
            table.append(figures)
            label = name if rows is alone else ""
            print(
                f"{label:27}{in_flight:4}{attempts:11}{figures['seconds']:10.0f}{figures['sooner']:9.2f}"
                f"{figures['speedup']:11.2f}{figures['of_the_possible']:18.2f}{figures['as_good']:10.2f}"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
