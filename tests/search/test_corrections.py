"""What fails early is corrected within its attempt: how often, by whom, what is kept, and what a fault costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scripted import Agents, Correcting, HashJudge, Recorder, failed, make_engine, ok

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import BudgetSpent, Context, Draft, NoCandidate, NothingToPropose
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, Limit, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.systems import system_names

ONE = SearchSettings(attempts=1)


class Judge(HashJudge):
    """Fails what is not the correction of this number, with this status."""

    def __init__(self, right_from: int, status: VerdictStatus = VerdictStatus.COMPILE_ERROR) -> None:
        super().__init__()
        self.right_from = right_from
        self.status = status

    async def evaluate(self, candidate: Candidate) -> Verdict:
        self.evaluated.append(candidate.source)
        words = candidate.source.split()
        number = int(words[2]) if words[1] == "correction" else 0
        return ok(3.0) if number >= self.right_from else failed(self.status)


async def first(agents: Agents, judge: HashJudge, settings: SearchSettings = ONE) -> Node:
    engine = make_engine(agents=agents, judge=judge, settings=settings)
    await engine.run()
    return engine.tree.nodes[1]


@pytest.mark.parametrize("system", system_names())
async def test_an_attempt_of_any_system_ends_with_the_verdict_on_what_was_corrected(system: str) -> None:
    agents, judge = Correcting(), Judge(2)
    node = await first(agents, judge, replace(ONE, system=system))
    assert node.corrections == 2
    assert node.verdict is not None
    assert node.verdict.ok
    assert "correction 2" in node.candidate.source
    assert len(judge.evaluated) == 3
    plans = [context for role, context in agents.contexts if role == "plan"]
    assert len(plans) <= 1, "the plan stands"
    assert all(context.window == () for role, context in agents.contexts if role == "correct")


async def test_corrections_are_as_many_as_the_settings_allow_and_then_the_failure_stands() -> None:
    for most in range(4):
        agents = Correcting()
        node = await first(agents, Judge(9), replace(ONE, corrections=most))
        assert node.corrections == most
        assert node.failed
        assert sum(role == "correct" for role, _ in agents.contexts) == most


@pytest.mark.parametrize("status", [status for status in VerdictStatus if status is not VerdictStatus.NO_CANDIDATE])
async def test_only_what_is_early_is_corrected(status: VerdictStatus) -> None:
    early = {"REFUSED", "COMPILE_ERROR", "LOAD_ERROR", "RUNTIME_ERROR", "WRONG_SHAPE", "WRONG_DTYPE"}
    node = await first(Correcting(), Judge(1, status))
    assert node.corrections == (1 if status.value in early else 0)


async def test_agents_that_cannot_correct_are_not_asked() -> None:
    node = await first(Agents(), Judge(1))
    assert node.corrections == 0
    assert node.failed


async def test_the_debug_agent_corrects_its_repair_and_the_node_stays_its_own() -> None:
    engine = make_engine(agents=Correcting(), judge=Judge(3), settings=SearchSettings(attempts=2, epsilon=1.0))
    await engine.run()
    repair = engine.tree.nodes[2]
    assert (repair.parent, repair.role, repair.corrections) == (1, AgentRole.DEBUG, 2)
    assert repair.plan == engine.tree.nodes[1].plan


class Wordless(Correcting):
    """A code agent whose first answers hold nothing, or are final."""

    def __init__(self, *reasons: NoCandidate) -> None:
        super().__init__()
        self.reasons = list(reasons)
        self.told: list[Node] = []

    async def code(self, context: Context, plan: Plan, rng: object) -> Candidate:
        if self.reasons:
            raise self.reasons.pop(0)
        return Candidate("# written first")

    async def correct(self, context: Context, failed: Node) -> Draft:
        self.told.append(failed)
        if self.reasons:
            raise self.reasons.pop(0)
        return await super().correct(context, failed)


async def test_an_answer_that_held_nothing_is_asked_for_again_with_its_reason() -> None:
    agents, judge = Wordless(NoCandidate("No Python.", text="Well,"), NoCandidate("Cut off.", text="def")), Judge(1)
    node = await first(agents, judge)
    assert node.verdict is not None
    assert node.verdict.ok
    assert (node.corrections, len(judge.evaluated)) == (2, 1)
    assert node.plan is not None
    said = [(told.verdict.message, told.candidate.source) for told in agents.told if told.verdict]
    assert said == [("No Python.", "Well,"), ("Cut off.", "def")]


async def test_a_correction_that_cannot_be_used_leaves_the_candidate_and_says_why() -> None:
    class Late(Wordless):
        async def correct(self, context: Context, failed: Node) -> Draft:
            self.told.append(failed)
            raise NoCandidate(f"Edit {len(self.told)} fits nowhere.", text="{}")

    late = Late()
    node = await first(late, Judge(9))
    assert node.candidate.source == "# written first"
    assert node.candidate.remark == "A correction of it could not be used: Edit 2 fits nowhere."
    assert node.verdict is not None
    assert node.verdict.status is VerdictStatus.COMPILE_ERROR
    assert "Edit 1 fits nowhere" in late.told[1].candidate.remark


async def test_who_declined_is_not_asked_again() -> None:
    agents = Wordless(NoCandidate("It declined.", final=True))
    node = await first(agents, Judge(0))
    assert not agents.told
    assert node.verdict is not None
    assert node.verdict.status is VerdictStatus.NO_CANDIDATE


async def test_a_plan_agent_without_a_plan_is_not_asked_for_a_correction() -> None:
    class Planless(Wordless):
        async def plan(self, context: Context, rng: object) -> Plan:
            raise NoCandidate("No plan.")

    agents = Planless()
    node = await first(agents, Judge(0))
    assert not agents.told
    assert node.failed


class Failing(Correcting):
    """Raises these in a row when asked for a correction."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def correct(self, context: Context, failed: Node) -> Draft:
        if self.errors:
            raise self.errors.pop(0)
        return await super().correct(context, failed)


async def test_a_fault_in_a_correction_asks_for_that_alone_once_more() -> None:
    agents = Failing(Fault("The service is down."), Fault("The service is down."))
    judge = Judge(1)
    node = await first(agents, judge)
    assert (node.corrections, len(judge.evaluated)) == (1, 2)
    assert sum(role == "code" for role, _ in agents.contexts) == 1


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (NothingToPropose("The transcript has no answer."), "All 3 attempts were made."),
        (BudgetSpent("Nothing is left of the limit.", Limit.TOKENS), "Nothing is left of the limit."),
        (KeyError("a mistake of our own"), "All 3 attempts were made."),
    ],
)
async def test_what_was_made_is_kept_when_no_correction_comes(error: Exception, ending: str) -> None:
    recorder = Recorder()
    engine = make_engine(agents=Failing(error), judge=Judge(1), settings=SearchSettings(attempts=3), recorder=recorder)
    assert await engine.run() == ending
    node = engine.tree.nodes[1]
    assert node.verdict is not None
    assert node.verdict.status is VerdictStatus.COMPILE_ERROR
    assert node.corrections == 0
    assert [written.id for written, _ in recorder.written][:2] == [1, 1]
