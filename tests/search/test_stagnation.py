"""How long a search has gone on without a new best is told to whoever is asked."""

from __future__ import annotations

import pytest
from scripted import Agents, HashJudge, make_engine

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.systems import system_names


@pytest.mark.parametrize("system", system_names())
@pytest.mark.parametrize("seed", range(4))
async def test_attempts_since_the_best_are_counted(system: str, seed: int) -> None:
    agents = Agents(empty=20)
    settings = SearchSettings(attempts=25, seed=seed, system=system, in_flight=1, corrections=0, empty_limit=25)
    engine = make_engine(agents=agents, judge=HashJudge(failing=60), settings=settings)
    await engine.run()
    scores = {node.id: node.score for node in engine.tree.nodes.values()}
    seen = set()
    for _, context in agents.contexts:
        before = [number for number in scores if number < context.attempt]
        best = min(before, key=lambda number: (scores[number], number))
        assert context.stagnant == context.attempt - 1 - best
        seen.add(context.stagnant)
    assert {0, 1, 2, 3} <= seen
