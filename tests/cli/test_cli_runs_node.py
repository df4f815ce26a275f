"""`stark-lsp runs show --node N --prompts`: one attempt with all that was asked and answered."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from cli_cases import CHAIN, here, write
from cli_stored import HOSTILE, exchange, stored_run
from rich.console import Console

from stark_lsp.cli.runs import attempt_page, run_words
from stark_lsp.cli.terminal import console
from stark_lsp.core.conversation import Answer, Exchange, Spend, Usage
from stark_lsp.core.run import Budget
from stark_lsp.core.status import ModelRole, StopReason, VerdictStatus
from stark_lsp.core.steering import Steering, SteeringKind
from stark_lsp.core.verdict import Interval, Swept
from stark_lsp.core.wire import from_wire
from stark_lsp.store import RunStore

Place = tuple[RunStore, Path]
Runs = Callable[..., CompletedProcess[str]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    path = write(tmp_path, "model.py", CHAIN)
    return stored_run(tmp_path / "state", path), tmp_path / "state"


@pytest.fixture
def runs(place: Place, capsys: pytest.CaptureFixture[str]) -> Runs:
    """Run `stark-lsp runs` in this process."""
    return lambda *words: here(capsys, "runs", *words, state=place[1])


def in_order(text: str, *parts: str) -> None:
    """Check that all parts are there, one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is missing, or comes too early, in:\n{text}"
        at = found + len(part)


def test_an_attempt_is_shown_with_plan_candidate_verdict_and_cost(runs: Runs) -> None:
    done = runs("show", "1f3a", "--node", "1")
    assert done.returncode == 0, done.stderr
    in_order(
        done.stdout,
        "Run 1f3a77c0, attempt 1, code agent",
        "Fuse the gate  lines 16 to 17",
        "Six passes over memory become **one**.\n\nMore for those who want it.",
        "threads 2, width 8",
        '        return torch.nn.functional.gelu(x, approximate="tanh")\n',
        "15.0 ms, 2.00x as fast as eager",
        "against torch.compile 1.50x (1.47–1.53)",
        "2 calls of a model: 18,400 tokens read (16,000 from the cache), 600 written, $0.0850",
        "stark-lsp runs show 1f3a77c0 --node 1 --prompts",
    )
    assert "\x1b" not in done.stdout, "no colours where there is no terminal"
    assert "You write fast code." not in done.stdout


def test_every_prompt_and_answer_is_shown_in_order(runs: Runs) -> None:
    done = runs("show", "1f3a", "--node", "1", "--prompts")
    assert done.returncode == 0, done.stderr
    in_order(
        done.stdout,
        "=== 1 of 2: plan agent, claude-x, 9,200 tokens read (8,000 from the cache), 300 written, $0.0425, 21 s,",
        "--- system\nYou write fast code.\n",
        "--- asked\nThe class.\nQuestion 1\n",
        "--- to be handed in by submit_plan",
        "--- answered\nI thought about 1.\n",
        "--- handed in by submit_plan\ntitle: Idea 1\ncode:\nimport torch\nx = 1\ncertain: true\n",
        "=== 2 of 2: code agent",
    )


def test_without_an_attempt_all_prompts_of_the_run_are_shown(runs: Runs) -> None:
    whole = runs("show", "1f3a", "--prompts")
    in_order(
        whole.stdout, "1 of 4: attempt 1, plan", "2 of 4: attempt 1, code", "3 of 4: attempt 2", "4 of 4: attempt 5"
    )


def test_the_sizes_of_questions_are_shown_by_section_and_add_up_to_what_was_read(runs: Runs) -> None:
    whole = runs("show", "1f3a", "--prompts", "--sizes").stdout
    in_order(
        whole, "=== 1 of 4", "section", "System message", "--- system", "=== 2 of 4", "share", "4 calls of a model"
    )
    alone = runs("show", "1f3a", "--sizes").stdout
    assert "--- system" not in alone
    in_order(alone, "section", "questions", "longest", "tokens", "share", "shared out by characters")
    sizes = json.loads(runs("show", "1f3a", "--sizes", "--json").stdout)["sizes"]
    assert sum(one["tokens"] for one in sizes) == 4 * 9200
    system = next(one for one in sizes if one["section"] == "System message")
    assert (system["questions"], system["longest"]) == (4, len("You write fast code."))
    of_one = json.loads(runs("show", "1f3a", "--node", "2", "--sizes", "--json").stdout)
    assert sum(one["tokens"] for one in of_one["sizes"]) == 9200
    assert "No model was asked." in runs("show", "1f3a", "--node", "4", "--sizes").stdout


def test_an_attempt_that_failed_says_why(runs: Runs) -> None:
    failed = runs("show", "1f3a", "--node", "2").stdout
    assert "did not compile: kernel.cpp:3: error: expected ';'" in failed
    assert "orrected" not in failed
    declined = runs("show", "1f3a", "--node", "4", "--prompts").stdout
    in_order(declined, "attempt 4, after attempt 1", "no candidate: The model declined.", "No model was asked.")


def test_how_often_an_attempt_was_corrected_is_shown(place: Place, runs: Runs) -> None:
    store, _ = place
    run_id = store.list()[0].id
    for number, words in ((1, "once"), (2, "twice"), (3, "3 times")):
        node = replace(store.load(run_id).nodes[number], corrections=number)
        store.put_node(run_id, node, "")
        assert f"Corrected {words} by its author" in runs("show", run_id, "--node", str(number)).stdout
    page = runs("show", run_id).stdout
    assert all(f"corrected {words}" in page for words in ("once", "twice", "3 times"))
    attempts = json.loads(runs("show", run_id, "--json").stdout)["attempts"]
    assert [one["corrections"] for one in attempts[:3]] == [1, 2, 3]


def test_what_was_tried_for_open_constants_is_shown_with_what_won(place: Place, runs: Runs) -> None:
    store, _ = place
    run_id = store.list()[0].id
    node = store.load(run_id).nodes[1]
    assert node.verdict is not None
    assert "Tuned" not in runs("show", run_id, "--node", "1").stdout
    gain = Interval(2.0, 1.9, 2.1)
    swept = (
        Swept("BLOCK = 64", VerdictStatus.OK, Interval(1.5, 1.4, 1.6)),
        Swept("BLOCK = 128", VerdictStatus.OK, gain),
        Swept(f"BLOCK = 256{HOSTILE}", VerdictStatus.COMPILE_ERROR),
    )
    tuned = replace(node, verdict=replace(node.verdict, tuned="BLOCK = 128", swept=swept))
    store.put_node(run_id, tuned, "")
    assert store.load(run_id).nodes[1] == tuned
    page = runs("show", run_id, "--node", "1").stdout
    in_order(page, "Tuned: BLOCK = 128; 3 choices were tried", "= 64  1.50x", "= 128  2.00x", "did not compile")
    assert "\x1b" not in page


def test_which_model_wrote_is_shown_where_there_are_several(place: Place, runs: Runs) -> None:
    store, _ = place
    run_id = store.list()[0].id

    def written_by(number: int, model: str) -> None:
        node = store.load(run_id).nodes[number]
        store.put_node(run_id, replace(node, candidate=replace(node.candidate, model=model)), "")

    written_by(1, "large")
    assert "Written by large." in runs("show", run_id, "--node", "1").stdout
    assert "by large" not in runs("show", run_id).stdout, "all of them were"
    written_by(2, f"small{HOSTILE}")
    page = runs("show", run_id).stdout
    assert "by large" in page
    assert "by small" in page
    assert "\x1b" not in page
    attempts = json.loads(runs("show", run_id, "--json").stdout)["attempts"]
    assert [one["model"] for one in attempts[:2]] == ["large", f"small{HOSTILE}"]


def test_an_attempt_under_way_shows_what_was_asked_so_far(runs: Runs) -> None:
    done = runs("show", "1f3a", "--node", "5", "--prompts")
    assert done.returncode == 0, done.stderr
    in_order(done.stdout, "attempt 5", "no candidate yet", "price unknown", "I thought about 5.", "price unknown")


def test_an_attempt_that_is_not_there_is_bad_input(runs: Runs) -> None:
    done = runs("show", "1f3a", "--node", "9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no attempt 9" in done.stderr
    assert "stark-lsp runs show 1f3a77c0" in done.stderr


def test_a_candidate_is_printed_alone(place: Place, runs: Runs) -> None:
    sources = {
        number: node.candidate.source
        for number, node in RunStore(place[1] / "runs.sqlite3").load("1f3a77c0").nodes.items()
    }
    assert runs("show", "1f3a", "--node", "2", "--source").stdout == sources[2]
    assert runs("show", "1f3a", "--source").stdout == sources[1], "that of the proposal"
    missing = runs("show", "1f3a", "--node", "9", "--source")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no candidate of an attempt 9" in missing.stderr


def test_json_has_all_of_it(place: Place, runs: Runs) -> None:
    store, _ = place
    shown = json.loads(runs("show", "1f3a", "--node", "2", "--prompts", "--json").stdout)
    assert shown["run"] == "1f3a77c0"
    assert shown["node"]["verdict"]["status"] == "COMPILE_ERROR"
    assert shown["spend"]["dollars"] == 0.0425
    made = from_wire(shown["exchanges"], tuple[Exchange, ...])
    assert made == store.exchanges.list("1f3a77c0", 2) == (exchange(2, ModelRole.PLAN, text=HOSTILE, code=HOSTILE),)
    without = json.loads(runs("show", "1f3a", "--node", "5", "--json").stdout)
    assert without["node"] is None
    assert "exchanges" not in without


def test_a_run_is_shown_with_what_it_spent_and_was_told(place: Place, runs: Runs) -> None:
    store, _ = place
    said = [Steering(SteeringKind.PRUNE, 2, attempt=3), Steering(SteeringKind.HINT, text=HOSTILE, attempt=4)]
    for one in said:
        store.steerings.add("1f3a77c0", one)
    done = runs("show", "1f3a")
    in_order(
        done.stdout,
        "4 calls of a model: 36,800 tokens read (32,000 from the cache), 1,200 written, $0.13 and 1 call whose price",
        "The run was told:",
        "  after 3 attempts: give up attempt 2 and all below it",
        "  after 4 attempts: hint: ",
        "+class ModelNew(nn.Module):",
    )
    report = json.loads(runs("show", "1f3a", "--json").stdout)
    assert report["spend"]["calls"] == 4
    assert report["spend"]["unpriced"] == 1
    assert from_wire(report["steering"], tuple[Steering, ...]) == tuple(said)
    assert report["best"]["node"] == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_text_of_a_model_cannot_steer_the_terminal(
    place: Place, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = place
    file = io.StringIO()
    out = Console(file=file, force_terminal=terminal, width=100, highlight=False, markup=False, emoji=False)
    monkeypatch.setattr(console, "make", lambda: out)
    assert attempt_page.show(store, store.load("1f3a77c0"), 2, prompts=True, as_json=False) == 0
    text = file.getvalue()
    assert text.count("[bold red]markup[/]") == 3
    for sequence in ("\x1b]0;", "\x1b[2J", "\x07", "\u202e", "\x9b"):
        assert sequence not in text
    assert ("\x1b[" in text) == terminal


def test_figures_are_in_words() -> None:
    assert run_words.spend(Spend()) == ""
    assert run_words.spend(Spend(1, Usage(5, output_tokens=2), 0.0, 1)) == (
        "1 call of a model: 5 tokens read, 2 written, price unknown"
    )
    assert [run_words.dollars(amount) for amount in (0, 0.0031, 0.425, 12)] == ["$0.00", "$0.0031", "$0.42", "$12.00"]
    assert run_words.budget(Budget(1, 600, 200_000, 2)) == "1 attempt, 600 s, 200,000 tokens, $2.00"
    assert set(run_words.STOP) == set(StopReason)
    told = [run_words.steering(Steering(kind, 3, "look", Budget(4))) for kind in SteeringKind]
    assert len(set(told)) == len(SteeringKind)
    quick = exchange(1, ModelRole.PLAN, answer=Answer(StopReason.MAX_TOKENS, latency_s=0.123))
    absurd = exchange(1, ModelRole.PLAN, answer=Answer(StopReason.OTHER, latency_s=float("inf")))
    assert run_words.exchange(absurd).endswith("time unknown, ended early")
    assert run_words.exchange(quick).endswith("0.12 s, cut off at the limit of tokens")
