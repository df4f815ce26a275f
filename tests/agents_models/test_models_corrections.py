"""Attempts that are corrected, on journal and purse: a run that is killed after any answer asks for none twice."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import MemoryJournal

for room in ("search", "agents"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / room))

from agent_cases import answered
from scripted import PROBLEM, REFERENCE, ROOT, Recorder, failed, make_engine, ok

from stark_lsp.agents.models.journaled import JournaledModel
from stark_lsp.agents.models.prices import prices_of
from stark_lsp.agents.models.purse import Purse
from stark_lsp.agents.team import ModelSolo, ModelTeam
from stark_lsp.agents.tool_team import FIRST_STEP, ToolTeam
from stark_lsp.agents.toolbox import Sources
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Exchange, Question, Usage
from stark_lsp.core.run import Budget, Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole, VerdictStatus
from stark_lsp.core.verdict import Stage, Verdict
from stark_lsp.search.engine import Engine
from stark_lsp.search.systems import find_system, system_names
from stark_lsp.search.tree import Tree

SOURCE = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    mark = {mark}\n"
USAGE = Usage(input_tokens=100, output_tokens=30_000)


class Killed(BaseException):
    """Stands for SIGKILL."""


class Writer:
    """A model whose answers are what its place in the run makes of them: right, broken, without code, ill-fitting."""

    name = "writer"

    def __init__(self) -> None:
        self.asked: list[tuple[int, ModelRole, int]] = []

    async def ask(self, question: Question) -> Answer:
        place = (question.attempt, question.role, question.ordinal)
        self.asked.append(place)
        return _used(self._answer(question))

    def _answer(self, question: Question) -> Answer:
        if question.role is ModelRole.PLAN:
            return answered(title=f"Plan {question.attempt}", advice="Do it.")
        if len(question.turns) < question.attempt % 4:
            return self._call(question, len(question.turns))
        kind = (3 * question.attempt + question.ordinal) % 4
        if kind == 0:
            return answered("I would rather talk.")
        if kind == 1:
            return answered(edits=[{"search": "nowhere to be found", "replace": ""}], summary="s", cause="c")
        mark = 10 * question.attempt + question.ordinal
        return answered(source=SOURCE.format(mark=mark), summary="Less work.", cause="A typo.")

    def _call(self, question: Question, number: int) -> Answer:
        """Call a tool, where there are any: one that looks, one that tries, one that does not exist."""
        if not question.tools:
            return self._answer(replace(question, attempt=4 * question.attempt))
        source = SOURCE.format(mark=100 + question.attempt)
        calls = (("read_attempt", {"number": 0}), ("check", {"source": source}), ("shell", {"command": "ls"}))
        name, given = calls[(question.attempt + number) % 3]
        return replace(answered(**given), called=name)

    async def close(self) -> None:
        """Nothing is open."""


def _used(answer: Answer) -> Answer:
    return replace(answer, usage=USAGE, model="writer")


class DeadlyJournal(MemoryJournal):
    """Kills the process after so many answers."""

    left = -1

    async def keep(self, exchange: Exchange) -> None:
        await super().keep(exchange)
        self.left -= 1
        if self.left == 0:
            raise Killed


class MarkJudge:
    """Judges by the number in the source: fails early, late, or not."""

    def __init__(self) -> None:
        self.tried = 0

    async def try_out(self, candidate: Candidate, until: Stage | None = None) -> Verdict:
        self.tried += 1
        return replace(await self.evaluate(candidate), message=f"trial {self.tried}, until {until}")

    async def counted(self, candidate: Candidate, verdict: Verdict) -> Verdict:
        return verdict

    async def evaluate(self, candidate: Candidate) -> Verdict:
        found = re.search(r"mark = (\d+)", candidate.source)
        mark = int(found[1]) if found else 0
        if mark % 3 == 0:
            return failed(VerdictStatus.LOAD_ERROR)
        return failed(VerdictStatus.WRONG_RESULT) if mark % 7 == 0 else ok(5.0 + mark % 5)


def engine_of(
    options: SearchSettings,
    model: Writer,
    journal: MemoryJournal,
    recorder: Recorder,
    *,
    nodes: dict[int, Node] | None = None,
    state: str = "",
    budget: Budget | None = None,
    judge: MarkJudge | None = None,
) -> Engine:
    judge = judge or MarkJudge()
    purse = Purse(budget or Budget(), prices_of("replay"))
    asked = JournaledModel(model, journal, purse)
    system = find_system(options.system)
    agents: ModelSolo | ModelTeam = ModelTeam(asked, PROBLEM, REFERENCE)
    if system.solo is not None:
        agents = ModelSolo(asked, PROBLEM, REFERENCE, system.solo)
    elif system.tools:
        agents = ToolTeam(Sources(judge, {0: ROOT}.get, ()), asked, PROBLEM, REFERENCE)
    tree = Tree.from_nodes((nodes or {0: ROOT}).values())
    return make_engine(tree=tree, settings=options, agents=agents, judge=judge, recorder=recorder, state=state)


def nodes_of(tree: Tree) -> list[Node]:
    return [tree.nodes[number] for number in sorted(tree.nodes)]


@settings(deadline=None, max_examples=8)
@given(st.sampled_from(system_names()), st.integers(0, 2), st.integers(0, 50), st.data())
async def test_a_run_killed_after_any_answer_goes_on_as_if_it_had_not_been_and_asks_nothing_twice(
    system: str, corrections: int, seed: int, data: st.DataObject
) -> None:
    options = SearchSettings(system=system, corrections=corrections, seed=seed, attempts=4, empty_limit=100)
    whole, model, once, twice = Recorder(), Writer(), MarkJudge(), MarkJudge()
    engine = engine_of(options, model, MemoryJournal(), whole, judge=once)
    reason = await engine.run()

    journal, before, second = DeadlyJournal(), Recorder(), Writer()
    journal.left = data.draw(st.integers(1, len(model.asked)))
    with pytest.raises(Killed):
        await engine_of(options, second, journal, before, judge=twice).run()
    stored = {0: ROOT, **{node.id: node for node, _ in before.written}}
    state = before.log[-1][1]
    rest = Recorder()
    resumed = engine_of(options, second, journal, rest, nodes=stored, state=state, judge=twice)
    assert await resumed.run() == reason
    assert nodes_of(resumed.tree) == nodes_of(engine.tree)
    assert before.log + rest.log == whole.log
    assert second.asked == model.asked
    assert len(set(second.asked)) == len(second.asked) == len(journal.exchanges)
    for node in nodes_of(engine.tree)[1:]:
        asked = [ordinal for attempt, _, ordinal in model.asked if attempt == node.id and ordinal]
        steps = [ordinal for ordinal in asked if ordinal > FIRST_STEP]
        assert asked == [*steps, *range(1, node.corrections + 1)]
        assert steps == [FIRST_STEP + number for number in range(1, len(steps) + 1)]
    assert once.tried <= twice.tried <= once.tried + 1, "only what no question had told yet is tried again"


@pytest.mark.parametrize("calls", range(2, 6))
async def test_a_correction_is_paid_from_the_limit_and_what_was_made_stands_without_it(calls: int) -> None:
    options = SearchSettings(system="reflexion", attempts=6)
    whole = Writer()
    await engine_of(options, whole, MemoryJournal(), Recorder()).run()
    most = 45_000  # a little more than a question with its longest answer comes to
    budget = Budget(tokens=most + (calls - 1) * USAGE.total)
    model, journal, recorder = Writer(), MemoryJournal(), Recorder()
    engine = engine_of(options, model, journal, recorder, budget=budget)
    reason = await engine.run()
    assert "of the limit of" in reason
    assert model.asked == whole.asked[: len(model.asked)]
    assert sum(one.answer.usage.total for one in journal.exchanges) <= (budget.tokens or 0)
    made = nodes_of(engine.tree)
    assert all(node.verdict is not None for node in made)
    assert {attempt for attempt, _, _ in model.asked} == {node.id for node in made[1:]}, "an answer without its node"
