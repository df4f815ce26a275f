"""A mistake of our own in an agent costs an attempt and says so; three in a row stop the search."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from scripted import Agents, HashJudge, Recorder, failed, make_engine, node, ok, tree_of

from stark_lsp.core.errors import Fault
from stark_lsp.core.events import Judged
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, NothingToPropose
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.tree import is_empty


class Mistaken(Agents):
    """Its plan, code or debug agent has a mistake that shows in some attempts."""

    def __init__(self, role: str, shows: Callable[[int], bool], error: Exception | None = None) -> None:
        super().__init__()
        answer = getattr(self, role)

        async def ask(context: Context, *arguments: Any) -> Any:
            if shows(context.attempt):
                raise error or ZeroDivisionError("division by zero")
            return await answer(context, *arguments)

        setattr(self, role, ask)


@pytest.mark.parametrize(
    ("system", "role", "selected", "made_by", "plan"),
    [
        ("stark", "plan", ok(3.0), AgentRole.CODE, ""),
        ("stark", "code", ok(3.0), AgentRole.CODE, "idea"),
        ("stark", "debug", failed(), AgentRole.DEBUG, "plan"),
        ("search-agent", "propose", ok(3.0), AgentRole.REFLEXION, ""),
    ],
)
async def test_an_agents_mistake_is_an_attempt_that_says_so(
    system: str, role: str, selected: Verdict, made_by: AgentRole, plan: str
) -> None:
    agents, recorder, log = Mistaken(role, lambda attempt: attempt == 2), Recorder(), list[str]()
    options = SearchSettings(system=system, attempts=3, root_children=1, epsilon=0.0)
    tree = tree_of(node(1, 0, selected))
    engine = make_engine(tree=tree, agents=agents, settings=options, recorder=recorder, log=log.append)
    assert await engine.run() == "All 3 attempts were made."
    made = tree.nodes[2]
    assert (made.parent, made.role, made.plan.title.split(" ")[0] if made.plan else "") == (1, made_by, plan)
    assert made.verdict == Verdict(
        VerdictStatus.NO_CANDIDATE, "An internal error: ZeroDivisionError: division by zero."
    )
    assert [written for written, _ in recorder.written if written.id == 2] == [made]
    assert Judged(made, leader=False) in recorder.events
    assert tree.nodes[3].parent == 1, "the node that was selected may be selected again"
    [text] = log
    assert "attempt 2" in text
    assert "Traceback" in text
    assert "ZeroDivisionError: division by zero" in text


@pytest.mark.parametrize("in_flight", [1, 4])
@pytest.mark.parametrize(("system", "role"), [("stark", "plan"), ("stark", "code"), ("sampling", "propose")])
async def test_three_mistakes_in_a_row_stop_the_search_with_a_diagnosis(system: str, role: str, in_flight: int) -> None:
    agents, recorder = Mistaken(role, lambda attempt: attempt > 1), Recorder()
    options = SearchSettings(system=system, in_flight=in_flight)
    engine = make_engine(agents=agents, judge=HashJudge(0), settings=options, recorder=recorder)
    with pytest.raises(Fault, match=r"failed 3 times in a row.*ZeroDivisionError: division by zero\. .*kept") as raised:
        await engine.run()
    assert "Traceback" in raised.value.details
    made = [n for n in engine.tree.nodes.values() if is_empty(n)]
    assert [n.id for n in made] == [2, 3, 4], "each of the three is kept"
    assert {n.id for n, _ in recorder.written} >= {2, 3, 4}


async def test_mistakes_with_good_attempts_between_them_do_not_stop_the_search() -> None:
    agents = Mistaken("code", lambda attempt: attempt % 3 != 0)
    engine = make_engine(agents=agents, judge=HashJudge(0), settings=SearchSettings(attempts=12))
    assert await engine.run() == "All 12 attempts were made."
    assert sum(is_empty(n) for n in engine.tree.nodes.values()) == 8


async def test_what_a_mistake_says_is_short_and_holds_no_control_characters() -> None:
    error = ValueError("bad answer: \x1b[31m\ud800\n" + "x" * 100_000)
    agents, log = Mistaken("plan", lambda attempt: True, error), list[str]()
    engine = make_engine(agents=agents, settings=SearchSettings(attempts=1), log=log.append)
    await engine.run()
    verdict = engine.tree.nodes[1].verdict
    assert verdict is not None
    assert verdict.message.startswith("An internal error: ValueError: bad answer:")
    assert len(verdict.message) < 300
    assert verdict.message.isprintable()
    assert r"bad answer: \x1b[31m\ud800" in log[0]
    log[0].encode()


async def test_a_fault_that_was_overcome_is_not_the_reason_for_the_end() -> None:
    class Once(Agents):
        calls = 0

        async def plan(self, context: Context, rng: Random) -> Plan:
            Once.calls += 1
            if Once.calls == 1:
                raise Fault("The service cannot be reached.")
            raise NothingToPropose("no idea")

    assert await make_engine(agents=Once()).run() == "Nothing is left to try. no idea"
