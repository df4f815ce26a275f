"""A search replays from its seed, and goes on from any point at which its process may have died."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scripted import ROOT, Agents, HashJudge, Recorder, Tuning, make_engine, node, ok, tree_of

from stark_lsp.core.errors import Fault
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, NothingToPropose
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole
from stark_lsp.search.attempts import Attempt, Attempts
from stark_lsp.search.policies import Recorded, make_policy, policy_names
from stark_lsp.search.randomness import dump_state, parse_state
from stark_lsp.search.systems import find_system, system_names
from stark_lsp.search.tree import Tree, is_empty

QUICK = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
SETTINGS = st.builds(
    SearchSettings,
    system=st.sampled_from(system_names()),
    policy=st.sampled_from(["auto", *policy_names()]),
    epsilon=st.sampled_from([0.0, 0.3, 1.0]),
    root_children=st.integers(1, 5),
    dead_branch_children=st.integers(1, 3),
    repairs=st.integers(0, 2),
    corrections=st.integers(0, 2),
    tune=st.sampled_from([0, 3, 30]),
    attempts=st.integers(1, 12),
    empty_limit=st.just(100),
    seed=st.integers(0, 10_000),
)
BEHAVIOUR = st.tuples(
    st.sampled_from([2, 1000]),  # variety of candidates
    st.integers(1, 1000),  # children until a node is dry
    st.sampled_from([0, 30, 60]),  # percentage of attempts that leave nothing to judge
    st.integers(0, 100),  # percentage of candidates that fail
)
Behaviour = tuple[int, int, int, int]


def nodes_of(tree: Tree) -> list[Node]:
    return [tree.nodes[node_id] for node_id in sorted(tree.nodes)]


@QUICK
@given(SETTINGS, BEHAVIOUR)
async def test_every_system_and_policy_replays_from_its_seed(options: SearchSettings, behaviour: Behaviour) -> None:
    *agents, failing = behaviour
    runs = []
    for _ in range(2):
        recorder = Recorder()
        engine = make_engine(settings=options, agents=Tuning(*agents), judge=HashJudge(failing), recorder=recorder)
        runs.append((await engine.run(), nodes_of(engine.tree), recorder.log, recorder.events))
    assert runs[0] == runs[1]


@QUICK
@given(SETTINGS, BEHAVIOUR, st.data())
async def test_a_run_cut_anywhere_goes_on_as_if_it_had_not_been(
    options: SearchSettings, behaviour: Behaviour, data: st.DataObject
) -> None:
    *agents, failing = behaviour
    whole = Recorder()
    engine = make_engine(settings=options, agents=Tuning(*agents), judge=HashJudge(failing), recorder=whole)
    reason = await engine.run()

    cut = data.draw(st.integers(1, len(whole.log)))
    stored: dict[int, Node] = {0: ROOT}
    for written, _ in whole.log[:cut]:
        if written is not None:
            stored[written.id] = written
    rest, second, asked = Recorder(), HashJudge(failing), Tuning(*agents)
    resumed = make_engine(
        tree=Tree.from_nodes(stored.values()),
        settings=dataclasses.replace(options),
        agents=asked,
        judge=second,
        recorder=rest,
        state=whole.log[cut - 1][1],
    )
    assert await resumed.run() == reason
    assert nodes_of(resumed.tree) == nodes_of(engine.tree)
    assert rest.log == whole.log[cut:]
    # Nobody is asked again for what was there, and nothing is judged again.
    assert not {context.attempt for _, context in asked.contexts} & stored.keys()
    assert not {n.candidate.source for n in stored.values() if n.verdict and not is_empty(n)} & set(second.evaluated)


@QUICK
@given(SETTINGS, BEHAVIOUR)
async def test_the_nodes_of_a_system_are_made_by_its_agents_in_its_windows(
    options: SearchSettings, behaviour: Behaviour
) -> None:
    *agents, failing = behaviour
    asked = Agents(*agents)
    engine = make_engine(settings=options, agents=asked, judge=HashJudge(failing))
    await engine.run()
    system, tree = find_system(options.system), engine.tree
    for one in nodes_of(tree)[1:]:
        assert one.parent is not None
        team = AgentRole.DEBUG if tree.nodes[one.parent].failed else AgentRole.CODE
        assert one.role is (team if system.solo is None else AgentRole(system.solo.value))
    for role, context in asked.contexts:
        assert (role == "solo") == (system.solo is not None)
        if not system.dynamic_windows:
            assert {n.id for n in context.window} == {context.selected.id, 0}


@QUICK
@given(SETTINGS, BEHAVIOUR)
async def test_an_attempt_is_recorded_as_begun_before_anybody_is_asked(
    options: SearchSettings, behaviour: Behaviour
) -> None:
    *agents, failing = behaviour
    recorder = Recorder()

    class Watched(Agents):
        def __getattribute__(self, name: str) -> object:
            if name == "contexts" and recorder.log:  # each agent notes its context first
                begun.append(parse_state(recorder.log[-1][1]).begun)
            return super().__getattribute__(name)

    begun: list[tuple[Attempt, ...]] = []
    asked = Watched(*agents)
    engine = make_engine(settings=options, agents=asked, judge=HashJudge(failing), recorder=recorder)
    await engine.run()
    contexts: list[tuple[str, Context]] = object.__getattribute__(asked, "contexts")
    assert len(begun) == len(contexts)
    for attempts, (_, context) in zip(begun, contexts, strict=True):
        assert [(a.id, a.selected) for a in attempts] == [(context.attempt, context.selected.id)]
    # With a verdict, an attempt is no longer under way.
    for written, state in recorder.log:
        if written is not None:
            assert written.id not in {a.id for a in parse_state(state).begun}


@QUICK
@given(SETTINGS, BEHAVIOUR, st.integers(1, 4))
async def test_a_recorded_run_is_replayed_from_its_parents_alone(
    options: SearchSettings, behaviour: Behaviour, in_flight: int
) -> None:
    variety, _, empty, failing = behaviour
    options = dataclasses.replace(options, in_flight=in_flight)
    judge = HashJudge(failing)
    engine = make_engine(settings=options, agents=Agents(variety, empty=empty), judge=judge)
    await engine.run()
    parents = {n.id: n.parent for n in nodes_of(engine.tree) if n.parent is not None}
    assume(parents)
    replay = make_engine(
        settings=dataclasses.replace(options, seed=options.seed + 1, in_flight=1, attempts=100),
        agents=Agents(variety),
        judge=judge,
        policy=Recorded(parents),
    )
    assert await replay.run() == "The transcript has no further attempt."
    assert {n.id: n.parent for n in nodes_of(replay.tree) if n.parent is not None} == parents


async def test_a_replay_goes_on_where_an_answer_is_missing() -> None:
    class Forgetful(Agents):
        async def plan(self, context: Context, rng: Random) -> Plan:
            if context.attempt == 2:
                raise NothingToPropose("The transcript has no answer for attempt 2.")
            return await super().plan(context, rng)

    recorded = Recorded({1: 0, 2: 0, 3: 2, 4: 0, 5: 4})
    replay = make_engine(settings=SearchSettings(), agents=Forgetful(), judge=HashJudge(0), policy=recorded)
    assert await replay.run() == "The transcript has no further attempt."
    assert {n.id: n.parent for n in nodes_of(replay.tree) if n.parent is not None} == {1: 0, 4: 0, 5: 4}


@pytest.mark.parametrize("in_flight", [1, 3])
async def test_a_replay_draws_what_the_run_drew(in_flight: int) -> None:
    options = SearchSettings(attempts=12, in_flight=in_flight)
    agents, judge = Agents(), HashJudge()
    engine = make_engine(settings=options, agents=agents, judge=judge)
    await engine.run()
    parents = {n.id: n.parent for n in nodes_of(engine.tree) if n.parent is not None}
    again = Agents()
    replay = make_engine(
        settings=options, agents=again, judge=judge, policy=Recorded(parents, make_policy("epsilon-greedy", options))
    )
    await replay.run()
    assert [n.candidate.source for n in nodes_of(replay.tree)] == [n.candidate.source for n in nodes_of(engine.tree)]


# --- numbers of attempts ---------------------------------------------------------------------------


def test_the_number_of_an_attempt_without_a_node_is_given_again_unless_something_was_asked_under_it() -> None:
    book = Attempts(tree_of(node(1, 0, ok(3.0))))
    second = book.begin(0, 7)
    assert (second.id, book.free, book.busy) == (2, 3, {0: 1})
    book.end(second)
    assert (book.free, book.busy) == (2, {})
    book.end(book.begin(0, 8), burn=True)
    assert (book.free, book.floor) == (3, 3)
    with pytest.raises(ValueError, match="attempt 2 was begun before; the next one is 3"):
        book.begin(0, 9, number=2)


def test_a_number_is_above_all_that_are_under_way() -> None:
    book = Attempts(tree_of())
    first, second = book.begin(0, 1), book.begin(0, 2)
    book.end(first)
    assert book.free == 3
    assert book.open == (second,)


def test_a_state_of_an_earlier_version_is_read() -> None:
    text = dump_state(make_engine()._rng)
    old = text.replace(', "begun": [], "floor": 0', "")
    assert old != text
    assert parse_state(old) == parse_state(text)


def test_an_attempt_whose_node_is_there_is_not_made_again() -> None:
    tree = tree_of(node(1, 0))
    begun = (Attempt(1, 0, 5), Attempt(2, 0, 6), Attempt(3, 9, 7))
    assert Attempts(tree, begun).open == (Attempt(2, 0, 6),)


def test_a_state_with_attempts_that_are_none_is_a_fault() -> None:
    text = dump_state(make_engine()._rng).replace('"begun": []', '"begun": [[1, 2]]')
    with pytest.raises(Fault, match="state of the search cannot be read"):
        parse_state(text)
