"""Seeds stand below the root first, at the same places in a resumed and a replayed run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Agents, HashJudge, Recorder, make_engine

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Draft
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.steering import Course
from stark_lsp.search.policies import Recorded, make_policy
from stark_lsp.search.seeds import SeededPolicy
from stark_lsp.search.tree import Tree

SEEDS = {n: Draft(Candidate(f"# seed {n}"), Plan(f"known {n}", "Do it.", strategy="fuse-all")) for n in (1, 2, 3)}


def shape(tree: Tree) -> list[tuple[int, int | None, str]]:
    return [(node.id, node.parent, node.candidate.source) for node in tree.nodes.values()]


async def grown(attempts: int = 8, agents: Agents | None = None, recorder: Recorder | None = None) -> Tree:
    settings = SearchSettings(attempts=attempts)
    engine = make_engine(settings=settings, seeds=SEEDS, judge=HashJudge(0), agents=agents, recorder=recorder)
    await engine.run()
    return engine.tree


async def test_the_root_has_them_as_children_before_anybody_is_asked() -> None:
    agents = Agents()
    tree = await grown(agents=agents)
    assert [(tree.nodes[n].parent, tree.nodes[n].candidate, tree.nodes[n].plan) for n in SEEDS] == [
        (0, seed.candidate, seed.plan) for seed in SEEDS.values()
    ]
    asked = [context for _, context in agents.contexts]
    assert asked[0].attempt == 4
    assert {node.id for context in asked for node in context.window} >= set(SEEDS)


async def test_where_attempts_go_side_by_side_agents_wait_for_what_comes_of_the_seeds() -> None:
    agents = Agents()
    settings = SearchSettings(attempts=8, in_flight=4)
    engine = make_engine(settings=settings, seeds=SEEDS, judge=HashJudge(0), agents=agents)
    await engine.run()
    assert len(engine.tree.nodes) == 9
    first = agents.contexts[0][1]
    assert {node.id for node in first.made if node.verdict is not None} >= {0, *SEEDS}


@given(st.integers(1, 8))
async def test_a_run_that_was_cut_off_anywhere_goes_on_as_it_would_have(cut: int) -> None:
    recorder = Recorder()
    whole = await grown(recorder=recorder)
    written = [(node, state) for node, state in recorder.written if node.verdict is not None][:cut]
    nodes: list[Node] = [whole.root, *(node for node, _ in written)]
    engine = make_engine(
        tree=Tree.from_nodes(nodes), state=written[-1][1], settings=SearchSettings(attempts=8), seeds=SEEDS,
        judge=HashJudge(0),
    )  # fmt: skip
    await engine.run()
    assert shape(engine.tree) == shape(whole)


async def test_a_replay_draws_what_the_run_drew() -> None:
    whole = await grown()
    settings = SearchSettings(attempts=8)
    parents = {node.id: node.parent for node in whole.nodes.values() if node.parent is not None}
    policy = Recorded(parents, SeededPolicy(SEEDS, make_policy(settings.policy, settings)))
    engine = make_engine(settings=settings, seeds=SEEDS, policy=policy, judge=HashJudge(0))
    await engine.run()
    assert shape(engine.tree) == shape(whole)


@pytest.mark.parametrize("course", [Course(pinned=1), Course(pruned=frozenset({0}))])
async def test_what_the_user_says_goes_first(course: Course) -> None:
    first = await grown(attempts=1)
    engine = make_engine(
        tree=Tree.from_nodes(first.nodes.values()), settings=SearchSettings(attempts=3), seeds=SEEDS, judge=HashJudge(0)
    )
    engine.steer(course)
    await engine.run()
    assert not any("seed" in node.candidate.source for node in engine.tree.nodes.values() if node.id > 1)
