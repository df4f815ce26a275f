"""A plan that combines two attempts: the code agent is shown both, and the tree stays a tree."""

from __future__ import annotations

from random import Random

import pytest
from scripted import Agents, Correcting, HashJudge, make_engine

from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, NoCandidate
from stark_lsp.core.settings import SearchSettings


class Combining(Correcting):
    """Agents whose plans combine the selected node with the first other one of the window, or with none there is."""

    def __init__(self, other: int | None = None, empty: int = 0) -> None:
        super().__init__(empty=empty)
        self.other = other

    async def plan(self, context: Context, rng: Random) -> Plan:
        plan = await super().plan(context, rng)
        others = [node.id for node in context.window if node.id not in (context.selected.id, 0)]
        number = self.other if self.other is not None else next(iter(others), None)
        return Plan(plan.title, plan.advice, combines=number)


@pytest.mark.parametrize("seed", range(3))
async def test_whoever_writes_is_shown_the_other_attempt_whatever_the_window_holds(seed: int) -> None:
    agents = Combining()
    engine = make_engine(
        agents=agents, judge=HashJudge(failing=20), settings=SearchSettings(attempts=25, seed=seed, window_size=3)
    )
    await engine.run()
    nodes = engine.tree.nodes
    combined = {node.id: node.second_parent for node in nodes.values() if node.second_parent is not None}
    assert len(combined) > 5
    for role, context in agents.contexts:
        other = combined.get(context.attempt)
        shown = [node.id for node in context.window]
        assert len(set(shown)) == len(shown)
        line = {number for number in nodes if context.selected.id in engine.tree.subtree(number)}
        assert {context.selected.id, *context.ancestors} == line
        if role == "code" and other is not None:
            assert other in shown
            assert len([number for number in shown if number != other]) <= 3
    assert all(node.parent in nodes for node in nodes.values() if node.parent is not None)
    assert sum(len(engine.tree.child_ids(number)) for number in nodes) == len(nodes) - 1, "nobody is a child of two"


async def test_an_attempt_that_there_is_not_is_not_shown() -> None:
    agents = Combining(other=999)
    engine = make_engine(agents=agents, settings=SearchSettings(attempts=4))
    await engine.run()
    assert len(engine.tree.nodes) == 5
    assert all(node.id != 999 for _, context in agents.contexts for node in context.window)


async def test_who_answers_anew_after_an_empty_answer_is_shown_it_too() -> None:
    class Silent(Combining):
        async def code(self, context: Context, plan: Plan, rng: Random) -> object:  # type: ignore[override]
            self.contexts.append(("code", context))
            if context.attempt == 2:
                raise NoCandidate("It was empty.")
            return await Agents.code(self, context, plan, rng)

    agents = Silent(other=1)
    engine = make_engine(agents=agents, judge=HashJudge(failing=0), settings=SearchSettings(attempts=2))
    await engine.run()
    windows = [[node.id for node in given.window] for role, given in agents.contexts if role == "correct"]
    assert windows == [[1]]
