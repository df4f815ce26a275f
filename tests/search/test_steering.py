"""What the user tells a run takes effect at the next selection, also while the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import Agents, HashJudge, Recorder, failed, make_engine, node, ok, tree_of
from test_tree import EMPTY

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import Limit
from stark_lsp.core.steering import Course, Hint
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.engine import Engine
from stark_lsp.search.helm import Helm
from stark_lsp.search.leaderboard import best, leaders
from stark_lsp.search.policies import policy_names
from stark_lsp.search.systems import system_names
from stark_lsp.search.tree import Tree

QUICK = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])


class Stepping(HashJudge):
    """Calls back before each verdict, with the number of verdicts so far."""

    def __init__(self, before: Callable[[int], None], failing: int = 40) -> None:
        super().__init__(failing)
        self.before = before

    async def evaluate(self, candidate: Candidate) -> Verdict:
        self.before(len(self.evaluated))
        return await super().evaluate(candidate)


def parents(tree: Tree) -> list[int | None]:
    return [tree.nodes[i].parent for i in sorted(tree.nodes)][1:]


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(50):
        await asyncio.sleep(0)


# --- pins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", policy_names())
async def test_a_pinned_node_goes_first_whatever_the_policy(policy: str) -> None:
    tree = tree_of(node(1, 0, ok(3.0)), node(2, 0, ok(19.0)), node(3, 0, failed()))
    engine = make_engine(tree=tree, settings=SearchSettings(policy=policy, attempts=9), judge=HashJudge(0))
    engine.steer(Course(pinned=2))
    await engine.run()
    assert parents(tree)[3:] == [2] * 6


async def test_a_pinned_node_that_may_not_be_expanded_is_left_to_the_policy() -> None:
    tree = tree_of(node(1, 0, ok(3.0)), node(2, 0, ok(9.0)))
    engine = make_engine(
        tree=tree, judge=HashJudge(100), settings=SearchSettings(policy="greedy", attempts=8, dead_branch_children=2)
    )
    engine.steer(Course(pinned=2))
    await engine.run()
    # Three failures make a dead branch; then the best goes on.
    assert parents(tree)[2:] == [2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize("pinned", [7, 3, 4])
async def test_a_pin_on_what_is_not_there_yet_or_empty_does_no_harm(pinned: int) -> None:
    tree = tree_of(node(1, 0, ok(3.0)), node(3, 0, EMPTY))
    engine = make_engine(tree=tree, settings=SearchSettings(attempts=4), judge=HashJudge(0))
    engine.steer(Course(pinned=pinned))
    assert await engine.run() == "All 4 attempts were made."
    assert 3 not in parents(tree)


async def test_a_pin_takes_effect_while_the_run_goes_on_and_is_taken_back() -> None:
    steps: dict[int, Course] = {3: Course(pinned=1), 6: Course()}
    judge = Stepping(lambda count: engine.steer(steps[count]) if count in steps else None, failing=0)
    settings = SearchSettings(policy="linear", system="reflexion", attempts=9)
    engine: Engine = make_engine(judge=judge, settings=settings)
    await engine.run()
    assert parents(engine.tree) == [0, 1, 2, 3, 1, 1, 1, 7, 8]


# --- pruning ---------------------------------------------------------------------------------------


@QUICK
@given(
    st.sampled_from(system_names()),
    st.sampled_from(["auto", *policy_names()]),
    st.integers(0, 8),
    st.integers(1, 5),
    st.integers(0, 1000),
    st.integers(1, 3),
)
async def test_nothing_below_a_pruned_node_is_selected_any_more(
    system: str, policy: str, when: int, pruned: int, seed: int, in_flight: int
) -> None:
    begun_before: set[int] = set()

    def steer(count: int) -> None:
        if count == when:
            engine.steer(Course(pruned=frozenset({pruned})))
            begun_before.update(range(engine.tree.next_id() + in_flight))

    options = SearchSettings(system=system, policy=policy, attempts=14, seed=seed, in_flight=in_flight)
    engine = make_engine(settings=options, judge=Stepping(steer))
    await engine.run()
    tree = engine.tree
    if pruned in tree.nodes and begun_before:
        below = tree.subtree(pruned)
        for one in tree.nodes.values():
            if one.parent in below:
                assert one.id in begun_before


async def test_a_search_in_which_all_is_pruned_ends_and_says_so() -> None:
    engine = make_engine()
    engine.steer(Course(pruned=frozenset({0})))
    assert await engine.run() == "Nothing is left to try, apart from what was pruned."


async def test_a_prune_is_taken_back() -> None:
    steps = {1: Course(pruned=frozenset({1})), 4: Course()}
    judge = Stepping(lambda count: engine.steer(steps[count]) if count in steps else None, failing=0)
    engine: Engine = make_engine(judge=judge, settings=SearchSettings(system="reflexion", attempts=8))
    await engine.run()
    assert parents(engine.tree) == [0, 1, 0, 3, 4, 5, 6, 7]


def test_a_child_that_comes_later_is_pruned_with_its_parent() -> None:
    tree = tree_of(node(1, 0, ok(3.0)))
    helm = Helm(tree, 30)
    helm.steer(Course(pruned=frozenset({1, 4})))
    for added in (node(2, 1), node(3, 0), node(4, 0), node(5, 4)):
        tree.add(added)
        helm.added(added.id)
    assert helm.pruned == {1, 2, 4, 5}


# --- hints -----------------------------------------------------------------------------------------


async def test_agents_get_the_hints_for_the_run_and_for_the_node_and_those_above_it() -> None:
    hints = (Hint("try half2", 1), Hint("no atomics"), Hint("elsewhere", 3), Hint("tile it", 2), Hint("above all", 0))
    tree = tree_of(node(1, 0, ok(5.0)), node(2, 1, ok(2.0)), node(3, 0, ok(8.0)))
    agents = Agents()
    engine = make_engine(tree=tree, agents=agents, settings=SearchSettings(attempts=4, policy="greedy"))
    engine.steer(Course(hints=hints))
    await engine.run()
    assert [context.selected.id for _, context in agents.contexts] == [2, 2]
    for _, context in agents.contexts:
        assert context.hints == (hints[0], hints[1], hints[3], hints[4])
    assert Helm(tree, 1).hints(2) == ()


async def test_a_hint_given_while_the_run_goes_on_is_in_the_next_context() -> None:
    hint = Hint("use shared memory")
    judge = Stepping(lambda count: engine.steer(Course(hints=(hint,))) if count == 1 else None)
    agents = Agents()
    engine: Engine = make_engine(agents=agents, judge=judge, settings=SearchSettings(attempts=4))
    await engine.run()
    assert {context.attempt: context.hints for _, context in agents.contexts} == {1: (), 2: (), 3: (hint,), 4: (hint,)}


# --- the budget ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "made", "ending"),
    [
        (12, 12, "All 12 attempts were made."),
        (3, 4, "4 attempts were made, with a budget of 3."),
        (4, 4, "All 4 attempts were made."),
    ],
)
async def test_the_budget_of_attempts_changes_at_once(changed: int, made: int, ending: str) -> None:
    course = Course(budget=Budget(attempts=changed))
    judge = Stepping(lambda count: engine.steer(course) if count == 3 else None)
    engine: Engine = make_engine(judge=judge, settings=SearchSettings(attempts=8))
    assert await engine.run() == ending
    assert len(engine.tree.nodes) - 1 == made


async def test_what_is_told_of_progress_names_the_new_budget() -> None:
    recorder = Recorder()
    engine = make_engine(recorder=recorder)
    engine.steer(Course(budget=Budget(attempts=2)))
    await engine.run()
    assert {event.attempts for event in recorder.events if hasattr(event, "attempts")} == {2}


# --- pauses ----------------------------------------------------------------------------------------


async def test_a_paused_run_begins_nothing_finishes_what_is_under_way_and_waits() -> None:
    judge = Stepping(lambda count: engine.steer(Course(paused=True)) if count == 2 else None)
    engine: Engine = make_engine(judge=judge, settings=SearchSettings(attempts=6))
    search = asyncio.create_task(engine.run())
    await settle()
    assert not search.done()
    assert len(engine.tree.nodes) == 4
    assert not engine.tree.pending
    engine.steer(Course())
    assert await search == "All 6 attempts were made."


async def test_a_run_that_is_paused_from_the_start_waits_with_what_was_left_unjudged() -> None:
    tree = tree_of(node(1, 0))
    engine = make_engine(tree=tree, settings=SearchSettings(attempts=2))
    engine.steer(Course(paused=True))
    search = asyncio.create_task(engine.run())
    await settle()
    assert tree.nodes[1].verdict is None
    engine.steer(Course())
    assert await search == "All 2 attempts were made."


async def test_a_pause_after_the_last_attempt_leaves_time_to_raise_the_budget() -> None:
    judge = Stepping(lambda count: engine.steer(Course(paused=True)) if count == 1 else None)
    engine: Engine = make_engine(judge=judge, settings=SearchSettings(attempts=2))
    search = asyncio.create_task(engine.run())
    await settle()
    assert not search.done()
    engine.steer(Course(budget=Budget(attempts=3)))
    assert await search == "All 3 attempts were made."


async def test_a_paused_run_can_be_stopped_and_cancelled() -> None:
    for end in ("stop", "cancel"):
        engine = make_engine()
        engine.steer(Course(paused=True))
        before = asyncio.all_tasks()
        search = asyncio.create_task(engine.run())
        await settle()
        if end == "stop":
            engine.stop("The time limit was reached.")
            assert await search == "The time limit was reached."
        else:
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
        assert asyncio.all_tasks() == before


async def test_a_pause_under_several_attempts_lets_all_of_them_finish() -> None:
    release = asyncio.Event()

    class Held(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            await release.wait()
            return await super().evaluate(candidate)

    engine = make_engine(judge=Held(), settings=SearchSettings(attempts=9, in_flight=3))
    search = asyncio.create_task(engine.run())
    await settle()
    engine.steer(Course(paused=True))
    release.set()
    await settle()
    assert len(engine.tree.nodes) == 4
    assert not engine.tree.pending
    engine.steer(Course())
    assert await search == "All 9 attempts were made."


def test_what_was_given_up_is_no_leader_until_it_is_taken_up_again() -> None:
    tree = tree_of(node(1, 0, ok(3.0)), node(2, 1, ok(2.0)), node(3, 0, ok(5.0)))
    helm = Helm(tree, 9)
    assert [one.id for one in leaders(tree, 3)] == [2, 1, 3]
    helm.steer(Course(pruned=frozenset({1})))
    assert [one.id for one in leaders(tree, 2)] == [3, 0]
    assert best(tree).id == 3
    tree.add(node(4, 2, ok(1.0)))
    helm.added(4)
    assert best(tree).id == 3
    helm.steer(Course())
    assert best(tree).id == 4


@pytest.mark.parametrize(
    ("attempts", "stop", "expected"), [(2, False, Limit.ATTEMPTS), (2, True, None), (1, False, Limit.ATTEMPTS)]
)
async def test_the_part_of_the_budget_that_ended_a_search_is_known(
    attempts: int, stop: bool, expected: Limit | None
) -> None:
    engine = make_engine(settings=SearchSettings(attempts=attempts))
    if stop:
        engine.stop("Enough.")
    await engine.run()
    assert engine.ended_by is expected
