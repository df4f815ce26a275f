"""`stark-lsp runs pin | prune | hint | budget | pause …`: a word with a run, from another terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cli_cases import CHAIN, stark, write
from cli_stored import HOSTILE, stored_run

from stark_lsp.cli import main
from stark_lsp.core.run import Budget
from stark_lsp.core.status import RunState
from stark_lsp.core.steering import Course, Hint, Steering, SteeringKind, course
from stark_lsp.store import RunStore

RUN = "1f3a77c0"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    """A store with a run that this process drives, which the commands find by the environment."""
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return stored_run(tmp_path / "state", write(tmp_path, "model.py", CHAIN), RUN, RunState.RUNNING)


def told(store: RunStore) -> list[Steering]:
    return [said for _, said in store.steerings.since(RUN)]


def runs(*words: str) -> int:
    """Run `stark-lsp runs` in this process."""
    return main(["runs", *words])


def test_another_process_steers_a_run_that_goes_on(store: RunStore, tmp_path: Path) -> None:
    commands = (
        ("pin", "1f", "1"),
        ("prune", "1f", "2"),
        ("hint", "1f", "x is contiguous"),
        ("hint", "1f", "mind the tail", "--node", "3"),
        ("budget", "1f", "--attempts", "50", "--dollars", "2.5"),
        ("pause", "1f"),
    )
    for command in commands:
        done = stark("runs", *command, state=tmp_path / "state", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"Run {RUN} was told: " in done.stdout
        assert "stands still" not in done.stdout
    said = told(store)
    assert [one.kind.value for one in said] == ["pin", "prune", "hint", "hint", "budget", "pause"]
    assert all(one.attempt == 4 and one.when.endswith("+00:00") for one in said)
    assert course(said) == Course(
        pinned=1,
        pruned=frozenset({2}),
        hints=(Hint("x is contiguous"), Hint("mind the tail", 3)),
        budget=Budget(50, dollars=2.5),
        paused=True,
    )
    assert store.load(RUN).run.state is RunState.RUNNING, "it still belongs to the process that drives it"


def test_what_was_said_is_taken_back(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("pin", RUN, "0"), ("prune", RUN, "2"), ("pause", RUN)):
        assert runs(*words) == 0
    for words in (("unpin", RUN), ("restore", RUN, "2"), ("resume", RUN)):
        assert runs(*words) == 0
    assert course(told(store)) == Course()
    assert "take attempt 2 up again" in capsys.readouterr().out


def test_saying_a_thing_twice_changes_nothing(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    said = (("pin", RUN, "1"), ("prune", RUN, "2"), ("budget", RUN, "--seconds", "60"), ("pause", RUN))
    for words in said:
        assert runs(*words) == 0
    before = told(store)
    for words in said:
        assert runs(*words) == 0
    assert told(store) == before
    assert capsys.readouterr().out.count("already") == len(said)


def test_a_run_that_was_told_nothing_has_nothing_to_take_back(
    store: RunStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs("unpin", RUN) == 0
    assert runs("resume", RUN) == 0
    assert told(store) == []
    assert capsys.readouterr().out == "Nothing is pinned.\nThe run is not paused.\n"


def test_a_budget_keeps_what_is_not_named_and_none_lifts_a_limit(store: RunStore) -> None:
    assert runs("budget", RUN, "--tokens", "200000", "--seconds", "90.5") == 0
    assert runs("budget", RUN, "--tokens", "none", "--dollars", "1") == 0
    assert [one.budget for one in told(store)] == [Budget(3, 90.5, 200_000), Budget(3, 90.5, None, 1.0)]


def test_a_budget_goes_on_from_what_holds_and_not_from_what_an_earlier_sitting_was_told(store: RunStore) -> None:
    assert runs("budget", RUN, "--dollars", "20") == 0
    (heard, _), *_ = store.steerings.since(RUN)
    store.update(replace(store.load(RUN).run, budget=Budget(3, dollars=2.0), heard=heard))
    assert runs("budget", RUN, "--attempts", "4") == 0
    assert runs("budget", RUN, "--seconds", "60") == 0
    assert [one.budget for one in told(store)][1:] == [Budget(4, dollars=2.0), Budget(4, 60.0, dollars=2.0)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("pin", RUN, "9"), "no attempt 9. stark-lsp runs show 1f3a77c0"),
        (("pin", RUN, "4"), "Attempt 4 has no candidate to go on from"),
        (("prune", RUN, "0"), "the original class"),
        (("restore", RUN, "1"), "Attempt 1 was not given up. No attempt of this run was given up."),
        (("hint", RUN, "  "), "The hint is empty"),
        (("hint", RUN, "x" * 2001), "2001 characters; at most 2000"),
        (("hint", RUN, "x", "--node", "77"), "no attempt 77"),
        (("budget", RUN), "Say what may be spent"),
        (("pause", "99"), "no run '99'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_cure(
    store: RunStore, words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(*words) == 2
    assert reason in capsys.readouterr().err
    assert told(store) == []


@pytest.mark.parametrize("option", ["--attempts=0", "--attempts=x", "--tokens=1.5", "--dollars=-1", "--seconds=nan"])
def test_a_limit_must_be_a_number_above_zero(store: RunStore, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        runs("budget", RUN, option)
    assert caught.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err
    assert told(store) == []


def test_what_is_below_an_attempt_that_was_given_up_cannot_be_pinned(
    store: RunStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs("prune", RUN, "2") == 0
    assert runs("pin", RUN, "3") == 2
    assert "Given up so far: 2; `stark-lsp runs restore 1f3a77c0 N`" in capsys.readouterr().err
    assert runs("restore", RUN, "2") == 0
    assert runs("pin", RUN, "3") == 0
    assert course(told(store)) == Course(pinned=3)


def test_a_finished_run_is_not_steered(store: RunStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored_run(tmp_path / "state", tmp_path / "model.py", "2b")
    assert runs("pause", "2b") == 2
    assert "Run 2b is finished" in capsys.readouterr().err
    assert store.steerings.since("2b") == ()


def test_an_unfinished_run_that_stands_still_is_told_for_later(
    store: RunStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_run(tmp_path / "state", tmp_path / "model.py", "2b", RunState.CANCELLED)
    assert runs("hint", "2b", "x is contiguous") == 0
    out = capsys.readouterr().out
    assert "It stands still. This takes effect when you go on with it" in out
    assert "stark-lsp optimize model.py::Model --resume" in out
    assert len(store.steerings.since("2b")) == 1
    assert runs("resume", "2b") == 2
    assert "stark-lsp optimize model.py::Model --resume" in capsys.readouterr().err


def test_a_hint_cannot_steer_the_terminal_of_who_reads_it(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs("hint", RUN, f"{HOSTILE} \udcff") == 0
    out = capsys.readouterr().out
    assert "[bold red]markup[/]" in out
    for sequence in ("\x1b]0;", "\x1b[2J", "\x07", "\u202e", "\x9b"):
        assert sequence not in out
    assert told(store)[0].text == f"{HOSTILE} ?"
    assert told(store)[0].kind is SteeringKind.HINT


def test_help_tells_resume_after_a_pause_from_going_on_with_a_stopped_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        runs("resume", "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "Go on after a pause" in text
    assert "optimize FILE --resume" in text
    assert "when it is resumed" in text
