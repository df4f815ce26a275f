"""Options of `stark-lsp bench` on agents and search: what was asked for is in every cell, and travels with it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import SUITE, cell, row

from stark_lsp.bench import arms, campaign, prompts
from stark_lsp.bench.cells import Cell, cells
from stark_lsp.bench.rows import Outcome, of_failure
from stark_lsp.bench.suite import discover
from stark_lsp.cli import bench, main, options
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import Grounding, VerdictStatus
from stark_lsp.core.wire import dumps, loads


def asked(*arguments: str) -> tuple[Cell, ...]:
    """Return the cells of a command line."""
    parser = argparse.ArgumentParser()
    bench.configure(parser)
    args = parser.parse_args([str(SUITE), "--out", "out", *arguments])
    return cells(discover(SUITE)[:1], bench.wanted(args))


def test_the_ablations_of_the_paper_can_be_asked_for() -> None:
    (one,) = asked(
        *("--grounding", "off", "--agent", "plan.temperature=0.3", "--agent", "code.model=other", "--no-seeds"),
        *("--no-profile", "--epsilon", "0.5", "--root-children", "7", "--window-size", "3", "--repairs", "0"),
    )
    agents, search = one.agents, one.search
    assert (agents.grounding, agents.plan.temperature, agents.code.model) == (Grounding.OFF, 0.3, "other")
    assert (agents.playbook, agents.profile) == (False, False)
    assert (search.epsilon, search.root_children, search.window_size, search.repairs) == (0.5, 7, 3, 0)
    assert loads(dumps(one), Cell) == one, "so a worker gets them"
    usual = asked()[0]
    assert one.key != usual.key
    assert (usual.agents.playbook, usual.agents.profile) == (True, True)


def test_templates_travel_with_every_cell_and_make_an_arm(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "roles").mkdir(parents=True)
    (own / "roles" / "plan.md").write_text("Plan ahead: é.\n", encoding="utf-8")
    (own / ".git").mkdir()
    (own / ".git" / "no.md").write_text("no")
    (one,) = asked("--prompts", str(own))
    assert one.prompts == {"roles/plan.md": "Plan ahead: é.\n"}
    assert loads(dumps(one), Cell) == one
    prompts.write(one.prompts, tmp_path / "there")
    assert prompts.read(tmp_path / "there") == one.prompts
    assert one.key != asked()[0].key
    measured, usual = (of_failure(each, Outcome.MEASURED, "") for each in (one, asked()[0]))
    (own / "roles" / "plan.md").write_text("Otherwise.\n")
    other = of_failure(asked("--prompts", str(own))[0], Outcome.MEASURED, "")
    found = arms.labels(list(arms.by_arm([measured, usual, other])))
    assert sorted(found.values()) == sorted(["stark", *(f"stark (prompts={one.prompts})" for one in (measured, other))])


async def test_templates_are_kept_beside_the_results(tmp_path: Path) -> None:
    with_error = replace(cell(), prompts={"frame.md": "text"}, error="no use")

    class Nobody:
        def results(self, cells: object, say: object) -> object:
            raise AssertionError("nothing is to be run")

    await campaign.run(
        [with_error], tmp_path, Nobody(), resume=False, step=lambda step: None, say=lambda cell, text: None  # type: ignore[arg-type]
    )  # fmt: skip
    kept = tmp_path / "prompts" / prompts.digest(with_error.prompts) / "frame.md"
    assert kept.read_text() == "text"


@pytest.mark.parametrize("name", ["../out.md", "/etc/x.md", "a/../../b.md", "C:\\x.md"])
def test_no_template_is_written_outside_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no name of a template"):
        prompts.write({name: "text"}, tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--agent", "playbook=false"], "--no-seeds"),
        (["--agent", "profile=false"], "--no-profile"),
        (["--agent", "plan.heat=1"], "is not known"),
        (["--epsilon", "2"], "epsilon must lie in 0..1"),
        (["--window-size", "0"], "window_size must be"),
        (["--tune", "31"], "tune must be at most 30"),
        (["--prompts", "nowhere"], "is not a folder"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told_with_its_cure(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(SUITE), "--out", str(tmp_path / "out"), *arguments]) == 2
    assert told in capsys.readouterr().err
    assert main(["optimize", str(SUITE / "level1" / "7_gate.py"), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_optimize_leaves_advice_and_profiles_out_where_asked_to() -> None:
    parser = argparse.ArgumentParser()
    options.add_arguments(parser)
    settings = options.run_options(parser.parse_args(["x.py", "--no-seeds", "--no-profile"])).agents
    assert (settings.playbook, settings.profile) == (False, False)
    settings = options.run_options(parser.parse_args(["x.py"])).agents
    assert (settings.playbook, settings.profile) == (True, True)


def test_one_option_switches_off_all_that_goes_beyond_the_paper() -> None:
    for arguments, dialect in ((["--paper"], "inline"), (["--paper", "--dialect", "triton"], "triton")):
        parser = argparse.ArgumentParser()
        options.add_arguments(parser)
        one = options.run_options(parser.parse_args(["x.py", "--parallel", "3", *arguments]))
        found = asked("--parallel", "3", *arguments)[0]
        for search, agents in ((one.search, one.agents), (found.search, found.agents)):
            assert (search.in_flight, search.repair_help, search.corrections, search.tune) == (1, 0, 0, 0)
            assert (agents.playbook, agents.profile, agents.edits, agents.dialect) == (False, False, False, dialect)


def test_a_problem_that_was_not_solved_says_why() -> None:
    made = row(attempts="WRONG_RESULT OK")
    wrong = replace(made.attempts[0], status=VerdictStatus.WRONG_RESULT, message="off by\n0.1")
    assert bench.told(replace(made, attempts=(wrong, wrong))) == (
        "not solved, 0 of 2 attempts verified: WRONG_RESULT off by 0.1"
    )
    assert bench.told(row(attempts="")) == "not solved, 0 of 0 attempts verified"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--system", "nobody"], "no system named 'nobody'"),
        (["--policy", "nowhere"], "nowhere"),
        (["--system", "sampling"], "works as a team"),
        (["--model", "editor"], "cannot be answered by editor"),
        (["--model", "replay:x.json"], "cannot be answered by replay"),
        (["--baselines", "compile"], "eager is always"),
        (["--baselines", "eager,fast"], "no baseline 'fast'"),
        (["--levels", "x"], "--levels must be whole numbers"),
        (["--levels", "9"], "no level 9"),
        (["--budget", "0"], "--budget must be more than 0"),
        (["--seed", ","], "--seed is empty"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "cannot be used together"),
        (["--set", "seeds=many"], "seeds must be"),
    ],
)
def test_an_option_that_makes_no_sense_is_told_before_anything_runs(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(SUITE), "--out", str(tmp_path / "out"), *arguments]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_report_of_nothing_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "report"]) == 2
    assert main(["bench", "report", str(tmp_path)]) == 2
    assert "no results" in capsys.readouterr().err
    assert main(["bench", str(SUITE)]) == 2
    assert "--out is missing" in capsys.readouterr().err
