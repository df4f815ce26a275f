"""Cells and rows: what identifies a run, what travels, and which candidate counts as the best."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import ENVIRONMENT, MS, SUITE, cell

from stark_lsp.bench.cells import Cell, Wanted, cells
from stark_lsp.bench.remote import pack, unpack
from stark_lsp.bench.rows import Outcome, Row, best_of, of_failure, of_run
from stark_lsp.bench.suite import discover
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Spend
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Baselines, Interval, Reference, Stage, Timing, Verdict
from stark_lsp.core.wire import dumps, from_wire, loads, to_wire
from stark_lsp.discovery.problems import make_problem
from stark_lsp.store import RunStore

TEXT = (SUITE / "level1" / "7_gate.py").read_text()
PROBLEM: Problem = make_problem("/suite/level1/7_gate.py", TEXT, "Model")
REFERENCE = Reference(ENVIRONMENT, Baselines(MS, Timing(0.5, 0.5, 0.5, 9)), notes=("A busy machine.",))
RUN = Run("abc", PROBLEM, 0, "playbook", Budget(3), reference=REFERENCE)


def node(number: int, gain: float | None, *, confirmed: bool = False, loads_weights: bool = True) -> Node:
    """Return a verified node that is so much faster than eager, or a failed one."""
    verdict = Verdict(VerdictStatus.WRONG_RESULT, "off " * 200)
    if gain is not None:
        verdict = Verdict(
            VerdictStatus.OK,
            runtime=Timing(1 / gain, 0.9 / gain, 1.1 / gain, 9),
            speedup_vs_eager=Interval(gain, gain * 0.9, gain * 1.1),
            speedup_vs_compile=Interval(gain / 2, gain * 0.4, gain * 0.6) if confirmed else None,
            eager=MS,
            compiled=MS if confirmed else None,
            weights_loaded=loads_weights,
        )
    return Node(number, 0, AgentRole.CODE, Candidate("source"), verdict=verdict)


def nodes(*made: Node) -> dict[int, Node]:
    return {0: Node(0, None, AgentRole.ROOT, Candidate(TEXT)), **{one.id: one for one in made}}


def test_the_best_is_the_proposal_else_what_was_confirmed_else_the_fastest() -> None:
    tree = nodes(node(1, 0.8), node(2, 0.7, confirmed=True), node(3, None), node(4, 0.6, confirmed=True))
    assert best_of(replace(RUN, best=4), tree) == tree[4]
    assert best_of(RUN, tree) == tree[2], "slower than eager, and the best there is"
    assert best_of(RUN, nodes(node(1, 0.8), node(2, 0.9))).id == 2  # type: ignore[union-attr]
    assert best_of(RUN, nodes(node(1, 0.9, loads_weights=False), node(2, 0.8))).id == 2  # type: ignore[union-attr]
    assert best_of(RUN, nodes(node(1, None))) is None
    assert best_of(RUN, nodes()) is None


def test_a_row_tells_the_paired_ratio_and_marks_one_that_is_not() -> None:
    row = of_run(cell(), RUN, nodes(node(1, 2.0, confirmed=True), node(2, None)), Spend(3), seconds=1.5)
    assert row.outcome is Outcome.MEASURED
    assert row.best is not None
    assert row.best.confirmed
    assert (row.best.gains["compile"].value, row.best.gains["compile"].low) == (1.0, 0.8)
    assert set(row.best.gains) == {"eager", "compile"}, "what was not timed is not there"
    assert [attempt.status for attempt in row.attempts] == [VerdictStatus.OK, VerdictStatus.WRONG_RESULT]
    assert len(row.attempts[1].message) <= 300
    assert row.notes == ("A busy machine.",)
    assert row.spend.calls == 3
    unpaired = of_run(cell(), RUN, nodes(node(1, 2.0)), Spend())
    assert unpaired.best is not None
    assert not unpaired.best.confirmed
    assert (unpaired.best.gains["compile"].value, unpaired.best.gains["compile"].low) == (1.0, None)


def test_the_key_of_a_cell_depends_on_all_that_its_result_depends_on() -> None:
    one = cell()
    others = [
        cell("1/8"),
        cell(system="ma-only"),
        cell(seed=1),
        cell(text="other"),
        replace(one, evaluation=EvaluationSettings(seeds=3)),
        replace(one, budget=Budget(2, dollars=1.0)),
        replace(one, model="anthropic"),
    ]
    assert len({one.key, *(other.key for other in others)}) == len(others) + 1
    assert replace(one, version="0.0.1").key == one.key, "an upgrade does not lose results"
    assert one.key == loads(dumps(one), Cell).key


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b/c", "ä" * 300, ""])
def test_a_key_is_fit_for_a_folder_whatever_a_file_is_called(name: str) -> None:
    key = replace(cell(), id=name).key
    assert key == Path(key).name
    assert len(key) < 100
    assert key.isascii()


def test_there_is_a_cell_for_each_combination_next_to_those_of_its_problem() -> None:
    wanted = Wanted(
        ["stark", "ma-only"], ["auto"], ["playbook"], [0, 1], SearchSettings(), Budget(2), EvaluationSettings()
    )
    made = cells(discover(SUITE), wanted)
    assert [(one.problem, one.search.seed, one.search.system) for one in made[:5]] == [
        ("1/7", 0, "stark"),
        ("1/7", 0, "ma-only"),
        ("1/7", 1, "stark"),
        ("1/7", 1, "ma-only"),
        ("1/9", 0, "stark"),
    ]
    assert len({one.key for one in made}) == len(made) == 16
    assert {one.problem for one in made if one.error} == {"1/9"}
    assert all(one.search.attempts == 2 for one in made)


def test_no_key_travels_with_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-do-not-send-me")
    assert "do-not-send-me" not in dumps(replace(cell(), model="anthropic"))


def test_the_store_of_a_cell_travels_whole(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "there" / "runs.sqlite3")
    store.create(RUN)
    for one in nodes(node(1, 2.0)).values():
        store.put_node(RUN.id, one)
    (tmp_path / "there" / "log.txt").write_text("a line\n")
    files = pack(tmp_path / "there")  # while it is open
    store.close()
    unpack(files, tmp_path / "here")
    again = RunStore(tmp_path / "here" / "runs.sqlite3")
    assert set(again.load(RUN.id).nodes) == {0, 1}
    again.close()
    assert (tmp_path / "here" / "log.txt").read_text() == "a line\n"
    unpack({"../escape": files["log.txt"]}, tmp_path / "here")
    assert not (tmp_path / "escape").exists()


def test_a_row_keeps_in_which_stage_an_attempt_failed_and_how_often_it_was_corrected() -> None:
    stopped = replace(node(1, None), verdict=Verdict(VerdictStatus.TIMED_OUT, failed_in=Stage.BUILD))
    row = of_run(cell(), RUN, nodes(stopped, replace(node(2, 2.0), corrections=2)), Spend())
    assert [attempt.failed_in for attempt in row.attempts] == [Stage.BUILD, None]
    assert [attempt.corrections for attempt in row.attempts] == [0, 2]
    assert loads(dumps(row), type(row)) == row


def test_rows_and_verdicts_of_versions_that_did_not_keep_the_stage_can_be_read() -> None:
    old = to_wire(of_run(cell(), RUN, nodes(node(1, None)), Spend()))
    old["schema"] = 1
    del old["attempts"][0]["failed_in"], old["attempts"][0]["corrections"], old["digest"]
    row = from_wire(old, Row)
    assert (row.attempts[0].failed_in, row.attempts[0].corrections, row.digest) == (None, None, "")
    verdict = to_wire(Verdict(VerdictStatus.TIMED_OUT, "Stopped."))
    del verdict["failed_in"]
    assert from_wire(verdict, Verdict).failed_in is None


def test_a_failure_keeps_what_was_asked_for() -> None:
    row = of_failure(cell("2/3"), Outcome.FAULT, "The disk is full.")
    assert (row.problem, row.reason, row.best, row.search) == ("2/3", "The disk is full.", None, cell("2/3").search)
    assert json.loads(dumps(row))["outcome"] == "fault"
