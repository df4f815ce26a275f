"""Several attempts in flight, in simulated time: sooner done, and as good where there are rounds enough for it."""

from __future__ import annotations

import asyncio
import statistics

import pytest
from simulated import CODE_S, JUDGE_S, PLAN_S, Landscape, search, simulate

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.leaderboard import best

SEEDS = range(30)


def found(in_flight: int, seed: int) -> tuple[float, float]:
    """Return seconds and speed-up of a search with 30 attempts where five improvements build on each other."""
    landscape = Landscape.draw(seed, improvements=5, bug=0.4)
    tree, seconds = search(landscape, SearchSettings(in_flight=in_flight, seed=seed))
    return seconds, tree.root.score / best(tree).score


def test_simulated_time_jumps_from_one_event_to_the_next() -> None:
    async def wait() -> str:
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(1800))
        return "done"

    assert simulate(wait()) == ("done", 3600.0)

    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="something that never comes"):
        simulate(never())


def test_one_attempt_at_a_time_takes_the_sum_of_its_parts() -> None:
    tree, seconds = search(Landscape.draw(1, improvements=40, bug=0.0), SearchSettings(attempts=3, epsilon=0.0))
    assert len(tree.nodes) == 4
    assert seconds == pytest.approx(3 * (PLAN_S + CODE_S + JUDGE_S))


def test_four_attempts_in_flight_end_three_times_sooner_and_find_as_good_a_kernel() -> None:
    alone = [found(1, seed) for seed in SEEDS]
    four = [found(4, seed) for seed in SEEDS]
    for (slow, _), (fast, _) in zip(alone, four, strict=True):
        assert slow / fast >= 3.0
    ratios = [few / one for (_, one), (_, few) in zip(alone, four, strict=True)]
    assert statistics.median(ratios) == pytest.approx(1.0)
    assert statistics.geometric_mean(ratios) > 0.97


def test_simulated_searches_are_the_same_every_time() -> None:
    landscape = Landscape.draw(5, improvements=8, bug=0.5)
    runs = []
    for _ in range(2):
        tree, seconds = search(landscape, SearchSettings(in_flight=4, seed=5))
        runs.append(([(n.id, n.parent, n.score) for n in tree.nodes.values()], seconds))
    assert runs[0] == runs[1]
