"""What a verified candidate leaves open is tuned within its attempt: in which order, how far, and what counts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from scripted import Agents, Correcting, Recorder, failed, make_engine, node, ok, tree_of

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.events import Judged, Progress
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, Draft
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Verdict

ONE = SearchSettings(attempts=1)
DECLARED = 'A = 1\nB = 1\nTUNE = {"A": [1, 2, 3], "B": [1, 2, 4, 8]}\n'
Values = tuple[int, int]


def values(source: str) -> Values:
    found = dict(re.findall(r"^([AB]) = (\d+)$", source, re.MULTILINE))
    return int(found["A"]), int(found["B"])


class Clerk:
    """Judges by the values of A and B: 10 ms each unless a table says otherwise; counts what it is asked."""

    def __init__(self, quick: Mapping[Values, Verdict] = {}, full: Mapping[Values, Verdict] = {}) -> None:
        self.quick, self.full = quick, full
        self.glanced: list[Values] = []
        self.evaluated: list[str] = []

    async def evaluate(self, candidate: Candidate) -> Verdict:
        self.evaluated.append(candidate.source)
        at = values(candidate.source)
        return self.full.get(at, self.quick.get(at, ok(10.0)))

    async def glance(self, candidate: Candidate) -> Verdict:
        assert "TUNE" not in candidate.source
        self.glanced.append(values(candidate.source))
        return self.quick.get(self.glanced[-1], ok(10.0))


class Writer(Agents):
    """Writes this."""

    def __init__(self, source: str = DECLARED) -> None:
        super().__init__()
        self.source = source

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        return Candidate(self.source)


async def first(clerk: Clerk, source: str = DECLARED, settings: SearchSettings = ONE) -> Node:
    engine = make_engine(agents=Writer(source), judge=clerk, settings=settings)
    await engine.run()
    return engine.tree.nodes[1]


async def test_what_won_is_written_into_the_source_with_a_full_verdict_of_its_own() -> None:
    clerk = Clerk(quick={(3, 1): ok(4.0), (1, 4): ok(5.0), (3, 4): ok(2.0)}, full={(3, 4): ok(2.5)})
    made = await first(clerk)
    assert made.candidate.source == "A = 3\nB = 4\n"
    assert made.verdict is not None
    assert made.verdict.runtime_ms == 2.5, "the quick figure counts for nothing"
    assert clerk.evaluated == [DECLARED, "A = 3\nB = 4\n"]
    assert made.verdict.tuned == "A = 3, B = 4"
    assert len(made.verdict.swept) == 12
    assert made.verdict.swept[0].values == "A = 1, B = 1"
    won = next(one for one in made.verdict.swept if one.values == made.verdict.tuned)
    assert won.speedup_vs_eager == made.verdict.speedup_vs_eager


async def test_single_changes_come_first_and_then_what_they_promise() -> None:
    clerk = Clerk(quick={(3, 1): ok(4.0), (2, 1): failed(), (1, 4): ok(5.0)})
    await first(clerk)
    assert clerk.glanced[:5] == [(1, 2), (1, 4), (1, 8), (2, 1), (3, 1)]
    assert clerk.glanced[5] == (3, 4)
    assert {a for a, _ in clerk.glanced[-3:]} == {2}, "what failed alone is tried last"
    assert len(set(clerk.glanced)) == len(clerk.glanced) == 11


@pytest.mark.parametrize("most", [1, 4, 6, 30])
async def test_no_more_are_timed_than_the_settings_allow(most: int) -> None:
    clerk = Clerk()
    made = await first(clerk, settings=replace(ONE, tune=most))
    assert len(clerk.glanced) == min(most, 11)
    assert made.candidate.source == "A = 1\nB = 1\n"
    assert made.verdict is not None
    assert made.verdict.tuned == "A = 1, B = 1"


async def test_the_paper_tunes_nothing() -> None:
    clerk = Clerk()
    made = await first(clerk, settings=replace(ONE, tune=0))
    assert (clerk.glanced, clerk.evaluated, made.candidate.source) == ([], [DECLARED], DECLARED)
    made = await first(clerk, "TUNE = 3\nA = 1\nB = 1\n", replace(ONE, tune=0))
    assert made.verdict is not None
    assert made.verdict.ok


async def test_what_is_wrong_or_slower_in_full_does_not_win() -> None:
    quick = {(3, 1): ok(4.0), (2, 1): ok(5.0), (1, 2): ok(6.0)}
    clerk = Clerk(quick, full={(3, 1): failed(VerdictStatus.WRONG_RESULT), (2, 1): ok(11.0)})
    made = await first(clerk)
    assert made.candidate.source == "A = 1\nB = 1\n"
    assert [values(source) for source in clerk.evaluated] == [(1, 1), (3, 1), (2, 1), (1, 1)]
    assert made.verdict is not None
    assert made.verdict.ok
    told = {one.values: one.status for one in made.verdict.swept}
    assert told["A = 3, B = 1"] is VerdictStatus.WRONG_RESULT


async def test_a_candidate_that_fails_keeps_its_declaration_for_the_repair() -> None:
    clerk = Clerk(full={(1, 1): failed(VerdictStatus.WRONG_RESULT)})
    made = await first(clerk)
    assert (made.candidate.source, clerk.glanced) == (DECLARED, [])
    assert made.failed


async def test_a_declaration_that_cannot_be_used_goes_back_to_its_author_before_it_is_judged() -> None:
    class Corrector(Correcting):
        told: Node | None = None

        async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
            return Candidate("A = 1\nB = 1\n\nTUNE = {'C': [1]}\n")

        async def correct(self, context: Context, failed: Node) -> Draft:
            self.told = failed
            return Draft(Candidate(DECLARED))

    agents, clerk = Corrector(), Clerk(quick={(2, 1): ok(5.0)})
    engine = make_engine(agents=agents, judge=clerk, settings=ONE)
    await engine.run()
    assert agents.told is not None
    verdict = agents.told.verdict
    assert verdict is not None
    assert (verdict.status, verdict.line) == (VerdictStatus.REFUSED, 4)
    assert "TUNE names C, which is no constant of the module" in verdict.message
    made = engine.tree.nodes[1]
    assert (made.corrections, values(made.candidate.source)) == (1, (2, 1))
    assert len(clerk.evaluated) == 2


async def test_where_nobody_can_correct_it_the_candidate_counts_as_it_is() -> None:
    made = await first(Clerk(), "A = 1\nB = 1\nTUNE = {'C': [1]}\n")
    assert made.verdict is not None
    assert made.verdict.ok
    assert made.candidate.remark.startswith("Nothing was tuned: TUNE names C")


async def test_progress_says_how_far_it_is() -> None:
    recorder = Recorder()
    await make_engine(agents=Writer(), judge=Clerk(), settings=ONE, recorder=recorder).run()
    said = [event.text for event in recorder.events if isinstance(event, Progress)]
    assert [text for text in said if "Tuning" in text] == [f"Tuning {n}/11" for n in range(1, 12)]
    assert sum(isinstance(event, Judged) for event in recorder.events) == 1


async def test_when_the_seconds_are_over_the_best_so_far_wins() -> None:
    clerk = Clerk(quick={(1, 4): ok(5.0), (3, 4): ok(1.0)})
    settings = replace(ONE, tune_s=2)
    engine = make_engine(agents=Writer(), judge=clerk, settings=settings, clock=lambda: float(len(clerk.glanced)))
    await engine.run()
    assert len(clerk.glanced) == 4, "what is under way is finished"
    assert values(engine.tree.nodes[1].candidate.source) == (1, 4)


async def test_a_fault_in_the_midst_is_tried_again_and_lasting_ones_leave_the_attempt_to_a_resumed_run() -> None:
    class Shaky(Clerk):
        faults = 1

        async def glance(self, candidate: Candidate) -> Verdict:
            if len(self.glanced) == 3 and self.faults:
                self.faults -= 1
                raise Fault("The worker died.")
            return await super().glance(candidate)

    clerk = Shaky(quick={(2, 1): ok(5.0)})
    assert values((await first(clerk)).candidate.source) == (2, 1)

    clerk, recorder = Shaky(), Recorder()
    clerk.faults = 1000
    engine = make_engine(agents=Writer(), judge=clerk, settings=ONE, recorder=recorder)
    with pytest.raises(Fault, match="The judge failed 3 times in a row"):
        await engine.run()
    stored, state = recorder.written[-1]
    assert (stored.verdict, stored.candidate.source) == (ok(10.0), DECLARED)
    asked, well = Writer(), Clerk(quick={(2, 1): ok(5.0)})
    resumed = make_engine(tree=tree_of(stored), agents=asked, judge=well, settings=ONE, state=state)
    await resumed.run()
    assert asked.contexts == []
    assert DECLARED not in well.evaluated, "its own verdict is known"
    assert values(resumed.tree.nodes[1].candidate.source) == (2, 1)


async def test_it_can_be_cancelled_and_leaves_nothing_running() -> None:
    class Endless(Clerk):
        begun = ended = 0

        async def glance(self, candidate: Candidate) -> Verdict:
            self.begun += 1
            try:
                await asyncio.sleep(1000)
            finally:
                self.ended += 1
            raise AssertionError

    clerk, recorder = Endless(), Recorder()
    engine = make_engine(agents=Writer(), judge=clerk, settings=ONE, recorder=recorder)
    running = asyncio.ensure_future(engine.run())
    while not clerk.begun:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert clerk.begun == clerk.ended == 4
    kept = recorder.written[-1][0]
    assert kept.verdict == ok(10.0), "a verified candidate is not lost with its sweep"
    # What nobody wants tuned stays as it is.
    engine = make_engine(tree=tree_of(kept), judge=clerk, settings=replace(ONE, tune=0))
    await engine.run()
    assert (engine.tree.nodes[1], clerk.begun) == (kept, 4)


async def test_once_the_search_is_stopped_no_further_values_are_timed() -> None:
    class Stopping(Clerk):
        async def glance(self, candidate: Candidate) -> Verdict:
            engine.stop("Enough.")
            return await super().glance(candidate)

    clerk = Stopping(quick={(1, 2): ok(5.0)})
    engine = make_engine(agents=Writer(), judge=clerk, settings=ONE)
    assert await engine.run() == "Enough."
    assert len(clerk.glanced) == 4
    assert values(engine.tree.nodes[1].candidate.source) == (1, 2)


async def test_what_was_tried_belongs_to_the_attempt_that_tried_it() -> None:
    tried = await first(Clerk(quick={(2, 1): ok(5.0)}))
    again = node(2, 0, source=tried.candidate.source)
    engine = make_engine(tree=tree_of(tried, again), judge=Clerk(), settings=replace(ONE, attempts=2))
    await engine.run()
    verdict = engine.tree.nodes[2].verdict
    assert verdict is not None
    assert (verdict.runtime_ms, verdict.tuned, verdict.swept) == (5.0, "", ())
