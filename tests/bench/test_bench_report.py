"""The report: the paper's tables from rows alone, plots where they can be drawn, and what is told beside them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import MS, failed, row

from stark_lsp.bench import report, tables
from stark_lsp.bench.arms import by_arm, labels
from stark_lsp.bench.ledger import Ledger
from stark_lsp.bench.report import Source
from stark_lsp.bench.rows import Outcome
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Limit
from stark_lsp.core.verdict import Baselines


def gains(eager: float, compiled: float) -> dict[str, tuple[float, float, float] | float]:
    return {
        "eager": (eager, eager * 0.98, eager * 1.02),
        "compile": (compiled, compiled * 0.98, compiled * 1.02),
        "max-autotune": compiled,
    }


ROWS = (
    *(row(f"1/{n}", "stark", gains=gains(2.0 + n, 1.5), attempts="OK WRONG_RESULT") for n in range(1, 5)),
    *(row(f"1/{n}", "sampling", gains=gains(0.5, 0.4), attempts="COMPILE_ERROR OK") for n in range(1, 4)),
    row("1/4", "sampling", attempts="COMPILE_ERROR REFUSED"),
    row("3/1", "stark", gains=gains(1.2, 1.1)),
    row("3/1", "sampling", gains=gains(0.9, 0.8)),
    failed("1/9", Outcome.DEGENERATE, "It gives | the same *result*."),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Ledger(tmp_path / "results") as ledger:
        for one in ROWS:
            ledger.append(one)
    return tmp_path / "results"


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_the_tables_hold_the_figures_of_the_rows() -> None:
    arms = by_arm(ROWS)
    first = tables.table1(arms, 1).splitlines()
    assert first[2] == "| sampling | 75.0% | 0.0% | 0.50× | 0.0% | 0.40× | 0.0% | 0.40× |"
    assert first[3] == "| stark | 100.0% | 100.0% | 4.50× | 100.0% | 1.50× | 100.0% | 1.50× |"
    second = tables.table2(arms, (1, 3)).splitlines()
    assert second[2].startswith("| sampling | 37.5% (3 of 8) | 100.0% (1 of 1) | 37.5% (3 of 8) |")
    third = tables.table3(arms, 3).splitlines()
    assert third[2].startswith("| sampling | 0.0% | 0.90× |")
    assert tables.table3({arm: own for arm, own in arms.items() if arm.system == "stark"}, 3) == ""
    assert tables.ratios(arms)["sampling", 1].mean.value == pytest.approx((3 + 4 + 5) / 3 / 0.5)


def test_arms_are_told_apart_by_what_differs_only() -> None:
    one = row("1/1")
    other = replace(one, search=replace(one.search, policy="mcts"), answered_by="anthropic:claude")
    names = labels(list(by_arm([one, other])))
    assert sorted(names.values()) == ["stark (auto, playbook)", "stark (mcts, anthropic:claude)"]
    assert list(labels(list(by_arm([one]))).values()) == ["stark"]


@pytest.mark.usefixtures("no_plots")
def test_a_report_can_be_made_again_from_the_rows_alone_to_the_last_byte(folder: Path, tmp_path: Path) -> None:
    page = report.write(report.collect([folder]), folder)
    report.write(report.collect([folder]), tmp_path / "again")
    for name in ("report.md", "summary.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    text = page.read_text()
    for heading in (
        "# Benchmark",
        "## Table 1: level 1",
        "## Table 1: level 3",
        "## Table 2",
        "## Table 3",
        "Figure 1",
    ):
        assert heading in text
    assert "It gives \\| the same \\*result\\*." in text
    assert "10 cells on 5 problems were measured, 1 are left out." in text


def test_plots_are_drawn_as_png_and_svg(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    text = report.write(report.collect([folder]), folder).read_text()
    for name in ("figure1", "speedups-eager", "speedups-compile", "speedups-max-autotune"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
        assert f"({name}.png)" in text


@pytest.mark.usefixtures("no_plots")
def test_without_matplotlib_the_tables_come_all_the_same(folder: Path) -> None:
    text = report.write(report.collect([folder]), folder).read_text()
    assert "## Table 1: level 1" in text
    assert "pip install matplotlib" in text
    assert not list(folder.glob("*.png"))


@pytest.mark.usefixtures("no_plots")
def test_the_summary_holds_the_same_figures_for_a_program(folder: Path) -> None:
    report.write(report.collect([folder]), folder)
    found = json.loads((folder / "summary.json").read_text())
    stark = next(arm for arm in found["arms"] if arm["system"] == "stark")
    success = stark["levels"]["1"]["success"]
    assert (success["value"], success["hits"], success["n"]) == (1.0, 4, 4)
    assert success["interval"] == pytest.approx([0.510, 1.0], abs=1e-3)
    assert stark["levels"]["1"]["against"]["eager"]["speed"]["mean"]["value"] == pytest.approx(4.5)
    assert stark["levels"]["1"]["against"]["max-autotune"]["fast1_strict"]["hits"] == 0
    assert [one["outcome"] for one in found["left_out"]] == ["degenerate"]


@pytest.mark.usefixtures("no_plots")
def test_several_campaigns_are_compared_and_what_is_missing_is_told(tmp_path: Path) -> None:
    first = Source(tmp_path, ROWS[:4], frozenset({*(one.key for one in ROWS[:4]), "not-yet"}))
    second = Source(tmp_path, (*ROWS[3:], row("1/1", "stark", gains=gains(9.0, 9.0), device="Another")))
    rows = report.merged([first, second])
    assert len(rows) == len(ROWS) + 1, "a row that both have counts once, one of another device by itself"
    report.write([first, second], tmp_path / "both")
    text = (tmp_path / "both" / "report.md").read_text()
    assert "1 have not ended yet" in text
    assert "stark (Another)" in text


def test_honest_notes_name_what_failed_and_what_was_not_timed_in_turns() -> None:
    asked = EvaluationSettings(max_autotune=True)
    odd = replace(row("1/1", gains={"eager": 2.0}, baselines=Baselines(MS, MS)), evaluation=asked)
    assert odd.best is not None
    odd = replace(odd, best=replace(odd.best, confirmed=False), notes=("Others loaded the machine.",))
    text = report.page([odd], 0, ())
    assert "There is no time of max-autotune on 1/1: it failed there." in text
    assert "The best of 1/1 was not timed next to all baselines" in text
    assert "In 1 of 1 cells: Others loaded the machine." in text
    assert "2.00×*" in text


def test_a_search_that_had_nothing_more_to_propose_is_not_taken_for_a_weak_one() -> None:
    rows = [
        *(replace(row(f"1/{n}", "ma-only"), ended_by=Limit.IDEAS, budget=Budget(30)) for n in (1, 2)),
        replace(row("1/3", "ma-only", attempts="OK " * 30), ended_by=Limit.ATTEMPTS, budget=Budget(30)),
        replace(row("1/1", "sampling"), ended_by=Limit.ATTEMPTS, budget=Budget(30)),
    ]
    text = report.page(rows, 0, ())
    assert "ma-only ended early in 2 of 3 cells, after 1 of 30 attempts: nothing more to propose." in text
    assert text.count("ended early") == 1
    assert report.summary(rows, 0)["arms"][1]["levels"]["1"]["ended_early"] == 2
    (first, *rest) = rows
    longer = replace(first, attempts=first.attempts * 4)
    assert "in 2 of 3 cells, after 1 to 4 of 30 attempts" in report.page([longer, *rest], 0, ())


def test_how_often_attempts_were_corrected_is_told_beside_their_rates() -> None:
    one, other = row("1/1", attempts="OK OK COMPILE_ERROR"), row("1/1", "sampling")
    first, *rest = one.attempts
    one = replace(one, attempts=(replace(first, corrections=1), *(replace(each, corrections=0) for each in rest)))
    plain = replace(other, search=replace(other.search, corrections=0))
    text = report.page([one, plain, row("1/1", "reflexion")], 0, ())
    assert "\nstark: an attempt counts with up to 2 corrections each; 1 of 3 attempts had any." in text
    assert "sampling (corrections=0): an attempt counts with no corrections." in text
    assert "an attempt counts with up to 2 corrections each.\n" in text, "of rows that did not keep it"
    assert report.summary([one], 0)["arms"][0]["levels"]["1"]["corrected"]["hits"] == 1


def test_where_nothing_was_measured_the_page_says_so() -> None:
    text = report.page([failed("1/9", Outcome.UNUSABLE, "no class Model")], 0, ())
    assert "Nothing was measured" in text
    assert "no class Model" in text


def test_problems_that_were_drawn_are_told(tmp_path: Path) -> None:
    drawn = [replace(row("1/1"), drawn="10 of 100 of level 1"), replace(row("2/1"), drawn="8 of 8 of level 2")]
    assert "drawn (seed 20250607" in report.page(drawn, 0, ())
    assert "10 of 100 of level 1, 8 of 8 of level 2." in report.page(drawn, 0, ())
    assert "drawn" not in report.page([row("1/1")], 0, ())
