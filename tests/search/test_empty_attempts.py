"""Attempts that leave nothing to judge, faults of agents, and a budget that is spent."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import Agents, HashJudge, Recorder, failed, make_engine, node, ok, tree_of
from test_tree import EMPTY

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault, NotNow, OnlyEmpty
from stark_lsp.core.events import Judged, Planned
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import BudgetSpent, Context, Draft, NoCandidate, NothingToPropose
from stark_lsp.core.run import Budget, Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, Limit, VerdictStatus
from stark_lsp.core.steering import Course
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.randomness import parse_state
from stark_lsp.search.systems import system_names
from stark_lsp.search.tree import Tree, is_empty

QUICK = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
SYSTEMS = st.sampled_from(system_names())


def nodes_of(tree: Tree) -> list[Node]:
    return [tree.nodes[node_id] for node_id in sorted(tree.nodes)]


class Silent(Agents):
    """Never gives anything."""

    async def plan(self, context: Context, rng: Random) -> Plan:
        raise NoCandidate("The model declined.")

    async def debug(self, context: Context, rng: Random) -> Candidate:
        raise NoCandidate("The model declined.")

    async def propose(self, context: Context, rng: Random) -> Draft:
        raise NoCandidate("The model declined.")


# --- nothing to judge ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "selected", "made_by", "title"),
    [
        ("plan", ok(3.0), AgentRole.CODE, None),
        ("code", ok(3.0), AgentRole.CODE, "idea"),
        ("debug", failed(), AgentRole.DEBUG, "plan 1"),
    ],
)
async def test_an_answer_without_a_candidate_becomes_a_node_that_says_why(
    role: str, selected: object, made_by: AgentRole, title: str | None
) -> None:
    async def decline(*arguments: object) -> object:
        raise NoCandidate("It was cut off at 10 tokens.", text="def forw")

    agents, recorder, judge = Agents(), Recorder(), HashJudge(0)
    setattr(agents, role, decline)
    tree = tree_of(node(1, 0, selected))  # type: ignore[arg-type]
    options = SearchSettings(attempts=2, root_children=1, epsilon=0.0)
    await make_engine(tree=tree, agents=agents, recorder=recorder, settings=options, judge=judge).run()
    made = tree.nodes[2]
    assert (made.parent, made.role) == (1, made_by)
    assert (made.plan.title.split(" ")[0] if made.plan else None) == (title.split(" ")[0] if title else None)
    assert made.candidate.source == "def forw"
    assert made.verdict is not None
    assert (made.verdict.status, made.verdict.message) == (VerdictStatus.NO_CANDIDATE, "It was cut off at 10 tokens.")
    assert [written for written, _ in recorder.written] == [made], "it is written once, with its verdict"
    assert [event for event in recorder.events if isinstance(event, Judged)] == [Judged(made, leader=False)]
    assert not judge.evaluated


@QUICK
@given(
    st.sampled_from(system_names()), st.integers(0, 90), st.integers(0, 100), st.integers(0, 1000), st.integers(1, 4)
)
async def test_they_count_for_the_budget_and_nothing_else(
    system: str, empty: int, failing: int, seed: int, in_flight: int
) -> None:
    options = SearchSettings(system=system, attempts=15, empty_limit=100, seed=seed, in_flight=in_flight)
    agents = Agents(empty=empty)
    engine = make_engine(settings=options, agents=agents, judge=HashJudge(failing))
    assert await engine.run() == "All 15 attempts were made."
    tree = engine.tree
    assert len(tree.nodes) == 16
    counted = [n for n in nodes_of(tree) if not is_empty(n)]
    if system in ("stark", "search-agent"):
        assert sum(n.parent == 0 for n in counted) <= 5
    for one in nodes_of(tree)[1:]:
        assert one.parent is not None
        assert not is_empty(tree.nodes[one.parent])
    for _, context in agents.contexts:
        assert not is_empty(context.selected)
        assert not any(is_empty(n) for n in context.window)
    assert not is_empty(engine.best)


async def test_too_many_in_a_row_stop_the_search_with_the_last_reason() -> None:
    engine = make_engine(agents=Silent(), settings=SearchSettings(empty_limit=4))
    told = r"5 attempts in a row left nothing to judge.*The model declined\. Choose another"
    with pytest.raises(OnlyEmpty, match=told):
        await engine.run()
    assert len(engine.tree.nodes) == 6


async def test_what_was_found_before_is_not_lost_to_them() -> None:
    tree = tree_of(node(1, 0, ok(3.0)))
    engine = make_engine(tree=tree, agents=Silent(), settings=SearchSettings(empty_limit=2))
    assert (await engine.run()).startswith("3 attempts in a row left nothing to judge, so the search stopped.")
    assert (engine.best.id, engine.ended_by) == (1, Limit.CANDIDATES)


async def test_a_verified_candidate_that_is_slower_was_found_as_well() -> None:
    tree = tree_of(node(1, 0, ok(999.0)))
    engine = make_engine(tree=tree, agents=Silent(), settings=SearchSettings(empty_limit=2))
    assert engine.best.id == 0, "the original is faster"
    assert (await engine.run()).startswith("3 attempts in a row left nothing to judge, so the search stopped.")


async def test_one_candidate_between_them_starts_the_count_again() -> None:
    class Every(Agents):
        async def plan(self, context: Context, rng: Random) -> Plan:
            if context.attempt % 3:
                raise NoCandidate("Not now.")
            return await super().plan(context, rng)

    options = SearchSettings(empty_limit=2, attempts=12, policy="best-of-k")
    assert await make_engine(agents=Every(), settings=options).run() == "All 12 attempts were made."


async def test_a_resumed_run_counts_those_from_before() -> None:
    tree = tree_of(*(node(i, 0, EMPTY) for i in range(1, 4)))
    engine = make_engine(tree=tree, agents=Silent(), settings=SearchSettings(empty_limit=3))
    with pytest.raises(OnlyEmpty, match="4 attempts in a row"):
        await engine.run()
    assert len(tree.nodes) == 5


# --- faults ----------------------------------------------------------------------------------------


class Flaky:
    """Raises a fault in the calls whose number is listed."""

    def __init__(self, call: object, broken: set[int]) -> None:
        self.call, self.broken, self.calls = call, broken, 0

    async def __call__(self, *arguments: object) -> object:
        self.calls += 1
        if self.calls in self.broken:
            await asyncio.sleep(0)  # as a service that cannot be reached, it takes a while to be found out
            raise Fault("The service cannot be reached.")
        return await self.call(*arguments)  # type: ignore[operator]


@QUICK
@given(SYSTEMS, st.sets(st.integers(1, 30)), st.integers(0, 1000))
async def test_a_fault_is_tried_again_in_the_same_attempt_and_changes_nothing(
    system: str, broken: set[int], seed: int
) -> None:
    options = SearchSettings(system=system, attempts=8, seed=seed, fault_limit=100)
    trees = []
    for faults in (set[int](), broken):
        agents = Agents(empty=10)
        for role in ("plan", "code", "debug", "propose"):
            setattr(agents, role, Flaky(getattr(agents, role), faults))
        recorder = Recorder()
        engine = make_engine(settings=options, agents=agents, recorder=recorder)
        await engine.run()
        plans = [event for event in recorder.events if isinstance(event, Planned)]
        trees.append((nodes_of(engine.tree), plans, recorder.log))
    assert trees[0] == trees[1]


async def test_who_asks_for_a_long_pause_is_not_asked_again_at_once() -> None:
    class Pausing(Agents):
        calls = 0

        async def plan(self, context: Context, rng: Random) -> Plan:
            Pausing.calls += 1
            raise NotNow("The service asks to wait 20 min.", cure="Resume the run later.")

    engine = make_engine(agents=Pausing())
    with pytest.raises(Fault, match="asks to wait 20 min") as caught:
        await engine.run()
    assert caught.value.cure == "Resume the run later."
    assert Pausing.calls == 1


async def test_the_plan_is_not_asked_for_again_when_the_code_agent_fails() -> None:
    agents = Agents()
    agents.code = Flaky(agents.code, {1, 2})  # type: ignore[assignment, method-assign]
    plan = agents.plan = Flaky(agents.plan, set())  # type: ignore[assignment, method-assign]
    await make_engine(agents=agents, settings=SearchSettings(attempts=1)).run()
    assert plan.calls == 1


async def test_faults_of_different_parts_are_counted_apart() -> None:
    agents, judge = Agents(), HashJudge(0)
    agents.plan = Flaky(agents.plan, {1, 2})  # type: ignore[assignment, method-assign]
    agents.code = Flaky(agents.code, {1, 2})  # type: ignore[assignment, method-assign]
    judge.evaluate = Flaky(judge.evaluate, {1, 2})  # type: ignore[assignment, method-assign]
    engine = make_engine(agents=agents, judge=judge, settings=SearchSettings(attempts=1))
    assert await engine.run() == "The one attempt was made."


async def test_an_attempt_that_stopped_the_search_by_faults_is_made_again_by_the_resumed_run() -> None:
    agents, recorder = Agents(), Recorder()
    agents.code = Flaky(agents.code, {2, 3, 4})  # type: ignore[assignment, method-assign]
    engine = make_engine(agents=agents, recorder=recorder)
    with pytest.raises(Fault, match="The code agent failed 3 times in a row"):
        await engine.run()
    [begun] = parse_state(recorder.log[-1][1]).begun
    assert begun.id == 2
    again = make_engine(tree=engine.tree, state=recorder.log[-1][1], agents=Agents(), recorder=Recorder())
    whole = make_engine()
    assert await again.run() == await whole.run()
    assert nodes_of(again.tree) == nodes_of(whole.tree)


async def test_an_outage_that_meets_several_attempts_at_once_counts_once() -> None:
    agents = Agents()
    agents.plan = Flaky(agents.plan, set(range(1, 9)))  # type: ignore[assignment, method-assign]
    engine = make_engine(agents=agents, settings=SearchSettings(attempts=8, in_flight=4))
    assert await engine.run() == "All 8 attempts were made."


async def test_three_outages_in_a_row_stop_a_search_however_many_attempts_are_under_way() -> None:
    agents = Agents()
    agents.plan = Flaky(agents.plan, set(range(1, 1000)))  # type: ignore[assignment, method-assign]
    engine = make_engine(agents=agents, settings=SearchSettings(attempts=8, in_flight=4))
    with pytest.raises(Fault, match="3 times in a row"):
        await engine.run()
    assert agents.plan.calls <= 12  # type: ignore[attr-defined]


# --- a budget that is spent ------------------------------------------------------------------------


class Purse(Agents):
    """Raises `BudgetSpent` from the third plan on, until it is filled."""

    filled = False

    async def plan(self, context: Context, rng: Random) -> Plan:
        if context.attempt > 2 and not self.filled:
            raise BudgetSpent("The next question could cost more than the $0.10 that are left.", Limit.DOLLARS)
        return await super().plan(context, rng)


async def test_a_spent_budget_lets_attempts_under_way_finish_and_names_itself_as_the_end() -> None:
    recorder, release = Recorder(), asyncio.Event()

    class Slow(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            await release.wait()
            return ok(3.0)

    engine = make_engine(agents=Purse(), judge=Slow(), recorder=recorder, settings=SearchSettings(in_flight=3))
    search = asyncio.create_task(engine.run())
    await asyncio.sleep(0.01)
    release.set()
    assert await search == "The next question could cost more than the $0.10 that are left."
    assert [n.id for n in nodes_of(engine.tree) if n.verdict is not None] == [0, 1, 2]
    # The one that could not be paid is still begun: with a larger budget the resumed run makes it.
    assert [attempt.id for attempt in parse_state(recorder.log[-1][1]).begun] == [3]


async def test_a_new_budget_lets_a_search_go_on_that_had_spent_the_old_one() -> None:
    release = asyncio.Event()

    class Held(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            await release.wait()
            return await super().evaluate(candidate)

    purse, recorder = Purse(), Recorder()
    options = SearchSettings(attempts=5, in_flight=3)
    engine = make_engine(agents=purse, judge=Held(0), recorder=recorder, settings=options)
    search = asyncio.create_task(engine.run())
    for _ in range(50):  # until the third attempt cannot be paid, and the other two wait for their verdicts
        await asyncio.sleep(0)
    assert sorted(engine.tree.nodes) == [0, 1, 2]
    purse.filled = True
    engine.steer(Course(budget=Budget(attempts=4)))
    release.set()
    assert await search == "All 4 attempts were made."
    assert sorted(engine.tree.nodes) == [0, 1, 2, 3, 4]


async def test_nothing_to_propose_after_a_plan_leaves_a_gap_in_the_numbers() -> None:
    class Refusing(Agents):
        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            if context.selected.id == 0:
                raise NothingToPropose("cannot write it")
            return await super().code(context, plan, rng)

    options = SearchSettings(attempts=2, policy="greedy")
    tree = tree_of(node(5, 0, ok(20.0)))
    await make_engine(tree=tree, agents=Refusing(), settings=options).run()
    # What was asked and answered for attempt 6 must not be taken for another attempt's.
    assert sorted(tree.nodes) == [0, 5, 7]

    tree = tree_of(node(5, 0, ok(20.0)))

    class Dry(Agents):
        async def plan(self, context: Context, rng: Random) -> Plan:
            if context.selected.id == 0:
                raise NothingToPropose("no idea")
            return await super().plan(context, rng)

    await make_engine(tree=tree, agents=Dry(), settings=options).run()
    assert sorted(tree.nodes) == [0, 5, 6]


async def test_what_left_nothing_to_judge_is_no_verdict_on_the_same_source_after_a_restart() -> None:
    refused = node(1, 0, Verdict(VerdictStatus.NO_CANDIDATE, "Edits outside the marked lines: `x = y`."), "# the same")
    pending = node(2, 0, None, "# the same")
    engine = make_engine(tree=tree_of(refused, pending), settings=SearchSettings(attempts=2))
    await engine.run()
    verdict = engine.tree.nodes[2].verdict
    assert verdict is not None
    assert verdict.status is not VerdictStatus.NO_CANDIDATE
