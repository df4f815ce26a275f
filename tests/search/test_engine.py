"""The engine follows Algorithm 1, replays, resumes, and survives whatever its parts do."""

from __future__ import annotations

import asyncio
import dataclasses
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import (
    REFERENCE,
    ROOT,
    Agents,
    HashJudge,
    Recorder,
    failed,
    make_engine,
    node,
    ok,
    tree_of,
)

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.events import Judged, Planned
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, NothingToPropose
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, Limit, VerdictStatus
from stark_lsp.core.verdict import Timing, Verdict
from stark_lsp.search.randomness import dump_state, parse_state
from stark_lsp.search.tree import Tree

SETTINGS = st.builds(
    SearchSettings,
    policy=st.sampled_from(["epsilon-greedy", "greedy"]),
    epsilon=st.sampled_from([0.0, 0.3, 1.0]),
    root_children=st.integers(1, 5),
    dead_branch_children=st.integers(1, 3),
    attempts=st.integers(1, 15),
    seed=st.integers(0, 10_000),
)
QUICK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def nodes_of(tree: Tree) -> list[Node]:
    return [tree.nodes[node_id] for node_id in sorted(tree.nodes)]


# --- Algorithm 1 -----------------------------------------------------------------------------------


@QUICK
@given(SETTINGS, st.integers(0, 100), st.integers(1, 6))
async def test_each_attempt_is_one_judged_child_of_the_right_role(
    options: SearchSettings, failing: int, dry_after: int
) -> None:
    recorder, agents = Recorder(), Agents(dry_after=dry_after)
    engine = make_engine(settings=options, agents=agents, judge=HashJudge(failing), recorder=recorder)
    reason = await engine.run()
    tree = engine.tree
    made = nodes_of(tree)[1:]
    assert len(made) <= options.attempts
    assert len(made) == options.attempts or reason.startswith("Nothing is left to try.")
    assert len(tree.children(0)) <= options.root_children
    for one in made:
        assert one.parent is not None
        parent = tree.nodes[one.parent]
        assert one.verdict is not None
        assert one.role is (AgentRole.DEBUG if parent.failed else AgentRole.CODE)
        if one.role is AgentRole.DEBUG:
            assert one.plan == parent.plan
        # Pruning: with more than n_child children that all failed, no further child was added.
        first = tree.children(parent.id)[: options.dead_branch_children + 1]
        if len(first) > options.dead_branch_children and all(n.failed for n in first):
            assert len(tree.children(parent.id)) == len(first)
    assert [(n.id, n.verdict is None) for n, _ in recorder.written] == [
        (one.id, pending) for one in made for pending in (True, False)
    ]
    assert engine.best.score == min(n.score for n in nodes_of(tree))


@QUICK
@given(SETTINGS, st.integers(0, 100))
async def test_agents_see_the_window_of_their_role(options: SearchSettings, failing: int) -> None:
    agents = Agents()
    engine = make_engine(settings=options, agents=agents, judge=HashJudge(failing))
    await engine.run()
    tree = engine.tree
    for role, context in agents.contexts:
        i = context.selected.id
        around = tree.siblings(i) if role == "debug" else tree.children(i)
        assert context.root == ROOT
        assert {n.id for n in context.siblings} <= {n.id for n in around}
        assert len(context.window) <= options.window_size
        assert context.selected.failed == (role == "debug")
        if role == "debug":
            assert {n.id for n in context.window} <= {i, 0} | {n.id for n in around}


async def test_a_plan_is_told_before_its_verdict_and_a_verdict_after_it_is_stored() -> None:
    log: list[str] = []
    recorder = Recorder()

    async def record(written: Node, state: str) -> None:
        log.append(f"stored {written.id} {'open' if written.verdict is None else 'judged'}")

    def emit(event: Any) -> None:
        if isinstance(event, Planned):
            log.append(f"planned {event.node} on {event.parent}")
        if isinstance(event, Judged):
            log.append(f"judged {event.node.id}")

    recorder.record, recorder.emit = record, emit  # type: ignore[method-assign]
    await make_engine(settings=SearchSettings(attempts=1), recorder=recorder).run()
    assert log == ["planned 1 on 0", "stored 1 open", "stored 1 judged", "judged 1"]


async def test_the_leader_is_marked() -> None:
    recorder = Recorder()
    engine = make_engine(recorder=recorder, settings=SearchSettings(seed=3))
    await engine.run()
    leading = [event.node for event in recorder.events if isinstance(event, Judged) and event.leader]
    assert leading
    assert [n.score for n in leading] == sorted((n.score for n in leading), reverse=True)
    assert leading[-1] == engine.best


# --- the state -----------------------------------------------------------------------------


async def test_how_much_an_agent_draws_does_not_change_what_is_selected() -> None:
    class Greedy(Agents):
        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            rng.random()
            return Candidate(f"# {len(self.contexts)}")

    class Modest(Agents):
        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            return Candidate(f"# {len(self.contexts)}")

    parents = []
    for agents in (Greedy(), Modest()):
        engine = make_engine(agents=agents, judge=HashJudge(0), settings=SearchSettings(epsilon=0.9))
        await engine.run()
        parents.append([one.parent for one in nodes_of(engine.tree)])
    assert parents[0] == parents[1]


def test_a_state_comes_back_as_it_was() -> None:
    rng = Random(5)
    rng.gauss(0, 1)
    text = dump_state(rng, {3, 1}, "no idea left")
    expected = [rng.random() for _ in range(3)]
    again = Random(0)
    again.setstate(parse_state(text).generator)
    assert [again.random() for _ in range(3)] == expected
    assert parse_state(text).exhausted == {1, 3}
    with pytest.raises(Fault, match="state of the search cannot be read"):
        parse_state("{}")


# --- duplicates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [1, 4])
async def test_the_same_source_is_judged_once(in_flight: int) -> None:
    judge = HashJudge(0, pause=lambda: 0.001)
    options = SearchSettings(attempts=12, in_flight=in_flight, epsilon=0.0)
    engine = make_engine(settings=options, agents=Agents(variety=1), judge=judge)
    await engine.run()
    assert len(judge.evaluated) == len(set(judge.evaluated)) < 12
    by_source: dict[str, Verdict | None] = {}
    for one in nodes_of(engine.tree)[1:]:
        assert by_source.setdefault(one.candidate.source, one.verdict) == one.verdict


async def test_a_candidate_equal_to_the_reference_is_judged_all_the_same() -> None:
    class Copy(Agents):
        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            return Candidate(ROOT.candidate.source, class_name="Model")

    judge = HashJudge(0)
    await make_engine(settings=SearchSettings(attempts=1), agents=Copy(), judge=judge).run()
    assert judge.evaluated == [ROOT.candidate.source]


async def test_a_source_that_utf8_cannot_encode_does_no_harm() -> None:
    class Odd(Agents):
        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            return Candidate("x = '\ud800'")

    class Fine(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            return failed()

    engine = make_engine(settings=SearchSettings(attempts=2), agents=Odd(), judge=Fine())
    assert await engine.run() == "All 2 attempts were made."


async def test_what_is_learned_of_the_reference_is_told_from_the_next_question_on() -> None:
    timed = dataclasses.replace(REFERENCE.baselines, compile=Timing(5.0, 4.9, 5.1, 100))
    compiled = dataclasses.replace(REFERENCE, baselines=timed)

    class Learning(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            engine.reference = compiled
            return ok(3.0)

    agents = Agents()
    engine = make_engine(settings=SearchSettings(attempts=2), agents=agents, judge=Learning())
    await engine.run()
    assert [context.reference for what, context in agents.contexts if what == "plan"] == [REFERENCE, compiled]


# --- ends ------------------------------------------------------------------------------------------


async def test_agents_with_nothing_to_propose_end_the_run_with_their_reason() -> None:
    engine = make_engine(agents=Agents(dry_after=0))
    assert await engine.run() == "Nothing is left to try. node 0 is dry"
    assert engine.ended_by is Limit.IDEAS
    assert len(engine.tree.nodes) == 1


async def test_stop_lets_the_attempt_under_way_finish() -> None:
    recorder = Recorder()
    engine = make_engine(recorder=recorder)
    judge = HashJudge()

    async def evaluate(candidate: Candidate) -> Verdict:
        engine.stop("The time limit was reached.")
        await asyncio.sleep(0)
        return ok(3.0)

    judge.evaluate = evaluate  # type: ignore[method-assign]
    engine = make_engine(recorder=recorder, judge=judge)
    assert await engine.run() == "The time limit was reached."
    assert [n.verdict is not None for n in nodes_of(engine.tree)] == [True, True]


async def test_a_cut_gives_up_what_waits_for_an_agent_and_keeps_what_is_being_judged() -> None:
    asked = asyncio.Event()

    class Silent(Agents):
        async def plan(self, *given: Any) -> Plan:
            if not self.planned:
                self.planned = True
                return await super().plan(*given)
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        planned = False

    class Slow(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            await asked.wait()
            engine.cut("Time is up.", Limit.SECONDS)
            await asyncio.sleep(0.01)
            return ok(3.0)

    engine = make_engine(agents=Silent(), judge=Slow(), settings=SearchSettings(in_flight=2, attempts=2))
    assert await engine.run() == "Time is up."
    assert engine.ended_by is Limit.SECONDS
    assert [n.verdict for n in nodes_of(engine.tree)[1:]] == [ok(3.0)]
    assert engine.attempts == 2, "a resumed run goes on with what waited for the agent"


async def test_a_stopped_search_makes_no_attempt() -> None:
    engine = make_engine(tree=tree_of(node(1, 0)))
    engine.stop("Enough.")
    assert await engine.run() == "Enough."
    assert engine.tree.nodes[1].verdict is None


async def test_cancelling_leaves_no_task_and_keeps_the_tree() -> None:
    recorder = Recorder()
    started = asyncio.Event()

    class Slow(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            started.set()
            await asyncio.Event().wait()
            raise AssertionError

    engine = make_engine(judge=Slow(), recorder=recorder, settings=SearchSettings(in_flight=3))
    before = asyncio.all_tasks()
    search = asyncio.create_task(engine.run())
    await started.wait()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert asyncio.all_tasks() == before
    assert recorder.written
    assert recorder.written[0][0] == engine.tree.nodes[1]


# --- what can break --------------------------------------------------------------------------------


class Broken:
    """Raises what it was given, so many times, then answers."""

    def __init__(self, error: Exception, times: int, answer: Any) -> None:
        self.error, self.left, self.answer = error, times, answer

    async def __call__(self, *arguments: Any) -> Any:
        if self.left > 0:
            self.left -= 1
            raise self.error
        return await self.answer(*arguments)


@pytest.mark.parametrize("role", ["plan", "code", "evaluate"])
@pytest.mark.parametrize("times", [2, 3])
async def test_three_faults_in_a_row_stop_the_search_with_a_diagnosis(role: str, times: int) -> None:
    agents, judge = Agents(), HashJudge(0)
    part: Any = judge if role == "evaluate" else agents
    fault = Fault("The worker died", cure="Start it again.", path="/x/worker", details="log")
    setattr(part, role, Broken(fault, times, getattr(part, role)))
    engine = make_engine(agents=agents, judge=judge, settings=SearchSettings(attempts=4))
    if times == 2:
        assert await engine.run() == "All 4 attempts were made."
        return
    with pytest.raises(Fault, match=r"failed 3 times in a row.*The worker died\. Start it again\.") as raised:
        await engine.run()
    assert (raised.value.path, raised.value.details) == ("/x/worker", "log")
    assert len(engine.tree.pending) == (role == "evaluate")


async def test_faults_with_good_attempts_between_them_do_not_stop_the_search() -> None:
    class Flaky(HashJudge):
        calls = 0

        async def evaluate(self, candidate: Candidate) -> Verdict:
            self.calls += 1
            if self.calls % 3:
                raise Fault("The worker died")
            return await super().evaluate(candidate)

    judge = Flaky(0)
    assert await make_engine(judge=judge, settings=SearchSettings(attempts=5)).run() == "All 5 attempts were made."
    assert judge.calls == 15


async def test_a_fault_of_the_judge_leaves_the_attempt_for_the_resumed_run() -> None:
    recorder, judge = Recorder(), HashJudge(0)
    judge.evaluate = Broken(Fault("no GPU"), 3, judge.evaluate)  # type: ignore[method-assign]
    engine = make_engine(judge=judge, recorder=recorder, settings=SearchSettings(attempts=1))
    with pytest.raises(Fault):
        await engine.run()
    [(written, state)] = recorder.written
    again = make_engine(tree=tree_of(written), state=state, settings=SearchSettings(attempts=1), judge=HashJudge(0))
    assert await again.run() == "The one attempt was made."
    assert again.tree.nodes[1].verdict is not None


async def test_bad_input_stops_at_once() -> None:
    judge = HashJudge()
    judge.evaluate = Broken(BadInput("The file is gone"), 1, judge.evaluate)  # type: ignore[method-assign]
    with pytest.raises(BadInput, match="The file is gone"):
        await make_engine(judge=judge).run()


async def test_a_store_that_fails_stops_at_once() -> None:
    recorder = Recorder()

    async def record(written: Node, state: str) -> None:
        raise Fault("The disk is full", path="/state/runs.sqlite3")

    recorder.record = record  # type: ignore[method-assign]
    with pytest.raises(Fault, match="The disk is full"):
        await make_engine(recorder=recorder).run()
    assert not [event for event in recorder.events if isinstance(event, Judged)]


async def test_a_code_agent_may_have_nothing_to_propose() -> None:
    class Refusing(Agents):
        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            raise NothingToPropose("cannot write it")

    assert await make_engine(agents=Refusing()).run() == "Nothing is left to try. cannot write it"


# --- several attempts in flight --------------------------------------------------------------------


@QUICK
@given(SETTINGS, st.integers(2, 6), st.integers(0, 100), st.integers(0, 1000))
async def test_attempts_in_flight_keep_every_rule(
    options: SearchSettings, in_flight: int, failing: int, seed: int
) -> None:
    chance = Random(seed)
    judge = HashJudge(failing)
    under_way = most = 0
    plain = judge.evaluate

    async def evaluate(candidate: Candidate) -> Verdict:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(chance.randrange(5)):
            await asyncio.sleep(0)
        under_way -= 1
        return await plain(candidate)

    judge.evaluate = evaluate  # type: ignore[method-assign]

    class Yielding(Agents):
        async def plan(self, context: Context, rng: Random) -> Plan:
            for _ in range(chance.randrange(5)):
                await asyncio.sleep(0)
            return await super().plan(context, rng)

        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            for _ in range(chance.randrange(5)):
                await asyncio.sleep(0)
            return await super().code(context, plan, rng)

    agents, recorder = Yielding(), Recorder()
    options = dataclasses.replace(options, in_flight=in_flight)
    engine = make_engine(settings=options, agents=agents, judge=judge, recorder=recorder)
    await engine.run()
    tree = engine.tree
    assert most <= in_flight
    assert len(tree.nodes) - 1 <= options.attempts
    assert len(tree.children(0)) <= options.root_children
    assert not tree.pending
    assert sorted(tree.nodes) == list(range(len(tree.nodes)))
    # No agent was ever asked about a node without a verdict, nor shown one in its window.
    for _, context in agents.contexts:
        assert context.selected.verdict is not None
        assert all(n.verdict is not None for n in context.window)
    # Each node was stored open, then judged.
    for one in nodes_of(tree)[1:]:
        assert [w.verdict for w, _ in recorder.written if w.id == one.id] == [None, one.verdict]


async def test_attempts_really_overlap() -> None:
    gate = asyncio.Barrier(3) if hasattr(asyncio, "Barrier") else None
    if gate is None:
        pytest.skip("asyncio.Barrier came with Python 3.11")

    class Together(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            await asyncio.wait_for(gate.wait(), 10)
            return ok(3.0)

    engine = make_engine(judge=Together(), settings=SearchSettings(in_flight=3, attempts=3))
    assert await engine.run() == "All 3 attempts were made."


async def test_who_plans_is_told_what_is_carried_out_meanwhile() -> None:
    class Slow(Agents):
        third = asyncio.Event()

        async def plan(self, context: Context, rng: Random) -> Plan:
            if context.attempt == 3:
                self.third.set()
            return await super().plan(context, rng)

        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            if context.attempt == 1:
                await asyncio.wait_for(self.third.wait(), 10)
            return await super().code(context, plan, rng)

    agents = Slow()
    engine = make_engine(agents=agents, settings=SearchSettings(in_flight=2, attempts=3))
    await engine.run()
    told = {context.attempt: context.under_way for role, context in agents.contexts if role == "plan"}
    assert told == {1: (), 2: told[2], 3: ((1, engine.tree.nodes[1].plan),)}


def test_a_failed_verdict_has_no_score() -> None:
    assert node(1, 0, failed(VerdictStatus.TIMED_OUT)).score == float("inf")
