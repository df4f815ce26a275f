"""What is shown while a run goes on and at its end."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_cases import CHAIN, write
from cli_runs import finished_run, node, plan, reference, verified
from rich.console import Console

from stark_lsp.cli.output import outcome, proposal
from stark_lsp.cli.output import watcher as watcher_module
from stark_lsp.cli.output.watcher import Watcher
from stark_lsp.cli.terminal import diffs, documents, figures, words
from stark_lsp.cli.terminal.console import clean
from stark_lsp.core.events import Judged, Planned, Prepared, Progress
from stark_lsp.core.phrases import STATUS
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Span
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import RunState, VerdictStatus, WriteMode
from stark_lsp.core.verdict import Interval, Timing, Verdict


def recorder(*, terminal: bool = False, width: int = 120) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=terminal, width=width, highlight=False, markup=False, emoji=False), file


def ended(run: Run, nodes: Mapping[int, Node], *, width: int = 120, **how: Any) -> str:
    """Return what is shown at the end of a run."""
    console, file = recorder(width=width)
    outcome.show(console, run, nodes, **how)
    return file.getvalue()


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.00431, "4.31 µs"), (0.999, "999 µs"), (1.0, "1.00 ms"), (13.27, "13.3 ms"), (999, "999 ms"), (2100, "2.10 s")],
)
def test_durations_have_three_digits_and_the_unit_that_suits(ms: float, text: str) -> None:
    assert figures.milliseconds(ms) == text


def test_an_interval_has_the_unit_of_its_median() -> None:
    assert figures.timing(Timing(0.0385, 0.038, 0.0391, 9)) == "38.5 µs (38.0–39.1)"
    assert figures.times_interval(Interval(2.26, 2.2, 2.31)) == "2.26x (2.20–2.31)"


def test_every_status_has_its_words() -> None:
    assert set(STATUS) == set(VerdictStatus)
    assert set(words.STATE) == set(RunState)


def test_lines_are_counted_from_one_and_joined() -> None:
    anchors = [Anchor(Span(11, 17), ""), Anchor(Span(29, 29), ""), Anchor(Span(11, 17), "")]
    assert words.lines(anchors) == "lines 12 to 18 and 30"
    assert words.lines(anchors[1:2]) == "line 30"
    assert words.lines([]) == ""


def test_an_advice_is_shortened_to_its_first_paragraph() -> None:
    assert words.advice(plan()) == "Six passes over memory become one."
    assert words.advice(replace(plan(), advice="# Title\n\nText `code`.")) == "Text code."
    assert words.advice(replace(plan(), advice="word " * 200), limit=30).endswith(" …")


def watch(tmp_path: Path, console: Console) -> Watcher:
    run, _ = finished_run(write(tmp_path, "model.py", CHAIN))
    return Watcher(console, run.problem, attempts=3)


def test_a_run_is_told_line_by_line_where_there_is_no_terminal(tmp_path: Path) -> None:
    console, file = recorder()
    with watch(tmp_path, console) as watcher:
        watcher(Prepared(reference()))
        for number, verdict in ((1, verified(15.0)), (2, Verdict(VerdictStatus.WRONG_RESULT, "off by 0.5\nmore"))):
            made = plan(width=str(number))
            watcher(Planned(number, 0, made))
            watcher(Progress("Compiling", number, 3))
            watcher(Judged(node(number, 0, verdict, made), leader=verdict.ok))
    text = file.getvalue()
    assert "\x1b" not in text
    for fragment in (
        "STARK: optimizing Model in ",
        "up to 3 attempts",
        "Example CPU, 2 threads, torch 2.13.0",
        "512x2048 float32",
        "30.0 ms (29.8–30.4)",
        "20.0 ms (19.8–20.2)",
        "1 Fuse the gate  lines 16 to 17",
        "width 2",
        "15.0 ms, 2.00x as fast as eager, best so far",
        "wrong result: off by 0.5\n",
    ):
        assert fragment in text
    assert text.count("Six passes over memory") == 1, "variants of one idea explain it once"
    assert "Compiling" not in text, "what goes on within an attempt is for the status line"


def test_in_brief_a_run_has_its_heading_its_times_and_what_they_mean(tmp_path: Path) -> None:
    console, file = recorder()
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    with Watcher(console, run.problem, attempts=3, brief=True) as watcher:
        watcher(Prepared(reference()))
        watcher(Planned(1, 0, plan()))
        watcher(Judged(nodes[1], leader=True))
    assert file.getvalue().count("\n") == 1
    outcome.show(console, run, nodes, seconds=65, brief=True)
    text = file.getvalue()
    assert "Model          one call" in text
    assert "2.00x (1.96–2.04)" in text
    assert "3 attempts in 1 min 05 s" in text
    assert "Fuse the gate" not in text


def test_a_proposal_is_folded_to_what_changes_of_the_class(tmp_path: Path) -> None:
    path = write(tmp_path, "model.py", CHAIN)
    run, nodes = finished_run(path)
    source = nodes[1].candidate.source.replace("class", "KERNEL = 1\nOTHER = 2\n\n\nclass", 1)
    called = source.replace("return torch", "return KERNEL * torch")
    best = replace(nodes[1], candidate=replace(nodes[1].candidate, source=called))
    offer = proposal.make(run, best, documents.read(path), WriteMode.BESIDE)
    text = proposal.folded(run, offer)
    assert text.startswith("-class Model(nn.Module):\n")
    assert "\n+class ModelNew(nn.Module):\n" in text
    assert '+        return KERNEL * torch.nn.functional.gelu(x, approximate="tanh")\n' in text
    assert "KERNEL = 1" not in text
    assert re.search(r"\n… \d+ more lines: what the class calls, and imports; --diff shows them$", text)
    beside = proposal.make(run, best, documents.read(path), WriteMode.REPLACE)
    assert "KERNEL *" in proposal.folded(run, beside)


async def test_only_a_step_that_takes_a_while_has_a_line_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console, file = recorder()
    monkeypatch.setattr(watcher_module, "SLOW_S", 0.02)
    with watch(tmp_path, console) as watcher:
        watcher(Progress("Loading the file"))
        watcher(Progress("Timing the reference"))
        while "Timing" not in file.getvalue():
            await asyncio.sleep(0.005)
        watcher(Progress("Looking at the machine"))
        watcher(Prepared(reference()))
        watcher(Progress("Planning"))
    await asyncio.sleep(0.05)
    text = file.getvalue()
    assert "\nTiming the reference …\n" in text
    for quick in ("Loading the file", "Looking at the machine", "Planning"):
        assert quick not in text


def test_a_variant_is_told_where_the_title_and_the_parent_do_not_say_it(tmp_path: Path) -> None:
    first = replace(plan("Fuse 8 operations", strategy="fuse-all", gelu="vector 1", norm="tile 4"), strategy="fuse-all")
    tuned = replace(
        plan("Write gelu with vector 8", strategy="fuse-all", gelu="vector 8", norm="tile 4"), strategy="tune"
    )
    assert words.variant(first) == "gelu vector 1, norm tile 4"
    assert words.variant(tuned, first) == ""
    assert words.variant(tuned) == "norm tile 4"
    assert words.variant(first, limit=15) == "gelu vector 1…"
    console, file = recorder()
    with watch(tmp_path, console) as watcher:
        watcher(Planned(1, 0, first))
        watcher(Judged(node(1, 0, verified(15.0), first), leader=True))
        watcher(Planned(2, 1, tuned))
        watcher(Judged(node(2, 1, verified(14.0), tuned), leader=True))
    text = file.getvalue()
    assert "    gelu vector 1, norm tile 4\n    15.0 ms" in text
    assert "  2 Write gelu with vector 8  lines 16 to 17\n    14.0 ms" in text
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    outcome.show(
        console, run, {0: nodes[0], 1: node(1, 0, verified(15.0), first), 2: node(2, 1, verified(14.0), tuned)}
    )
    assert "2 14.0 ms  2.14x  Write gelu with vector 8\n" in file.getvalue()


def test_repairs_and_attempts_of_an_earlier_session_have_a_heading_too(tmp_path: Path) -> None:
    console, file = recorder()
    with watch(tmp_path, console) as watcher:
        watcher(Judged(node(1, 0, verified(15.0), plan(width="1")), leader=True))
        watcher(Judged(node(2, 1, verified(16.0), plan(width="2"), repair=True), leader=False))
    text = file.getvalue()
    assert "  1 Fuse the gate  lines 16 to 17\n    Six passes over memory become one.\n    width 1\n    15.0 ms" in text
    assert "  2 Repair: Fuse the gate  after 1\n    16.0 ms" in text


def test_a_terminal_gets_a_status_line_that_goes_away(tmp_path: Path) -> None:
    console, file = recorder(terminal=True, width=80)
    with watch(tmp_path, console) as watcher:
        watcher(Prepared(reference()))
        watcher(Planned(1, 0, plan()))
        watcher(Progress("Compiling", 1, 3))
        watcher(Judged(node(1, 0, verified(15.0)), leader=True))
    text = file.getvalue()
    assert "1/3" in text
    assert "best 2.00x" in text
    assert text.endswith("\x1b[2K"), "the last thing is to clear the status line"


def test_text_from_outside_cannot_steer_the_terminal(tmp_path: Path) -> None:
    console, file = recorder(terminal=True)
    hostile = "\x1b]0;title\x07 \x1b[2J [bold red]markup[/] \u202e \x9b31m"
    with watch(tmp_path, console) as watcher:
        made = replace(plan(hostile, width=hostile), advice=hostile)
        watcher(Planned(1, 0, made))
        watcher(Judged(node(1, 0, Verdict(VerdictStatus.CRASHED, hostile), made), leader=False))
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    outcome.show(console, run, {**nodes, 4: node(4, 0, None, made)})
    diffs.show(console, f"+{hostile}\n")
    text = file.getvalue()
    assert "[bold red]markup[/]" in text
    for sequence in ("\x1b]0;", "\x1b[2J", "\x07", "\u202e", "\x9b"):
        assert sequence not in text
    assert clean("tab\tand\nline stay") == "tab\tand\nline stay"


def test_times_of_different_moments_are_said_to_be_that(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    assert "different moments" not in ended(run, nodes)
    assert nodes[1].verdict is not None
    eager = nodes[1].verdict.baselines(reference().baselines).eager
    for factor, said in ((1.1, False), (0.6, True), (1.6, True)):
        beside = replace(nodes[1].verdict, eager=replace(eager, median_ms=factor * eager.median_ms))
        found = ended(run, {**nodes, 3: replace(nodes[3], verdict=beside)})
        assert ("of different moments on a busy machine" in found) is said


def test_numbers_fit_eighty_columns(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    text = ended(run, nodes, width=80, seconds=65)
    assert "torch.compile  20.0 ms (19.8–20.2)  1.50x" in text
    assert "2.00x (1.96–2.04)  1.50x (1.47–1.53)" in text
    assert "max-autotune" not in text
    assert "3 attempts in 1 min 05 s, run 1f3a77c0" in text
    assert "…" not in text


def test_times_beside_the_proposal_are_those_of_its_own_rounds(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    assert run.best is not None
    verdict = nodes[run.best].verdict
    assert verdict is not None
    # A machine that was busier later: against the times of the start the proposal would look slower than eager.
    slower = replace(
        verdict, runtime=Timing(45.0, 44.0, 46.0, 9), eager=Timing(90.0, 88.0, 92.0, 9), compiled=Timing(60, 59, 61, 9)
    )
    text = ended(run, {**nodes, run.best: replace(nodes[run.best], verdict=slower)})
    assert "90.0 ms (88.0–92.0)" in text
    assert "60.0 ms (59.0–61.0)  1.50x" in text
    assert "at different moments" not in text
    stored_earlier = replace(slower, eager=None, compiled=None)
    text = ended(run, {**nodes, run.best: replace(nodes[run.best], verdict=stored_earlier)})
    assert "at different moments" in text


def test_max_autotune_stands_there_where_it_was_asked_for(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    assert run.best is not None
    assert run.reference is not None
    verdict = nodes[run.best].verdict
    assert verdict is not None
    tuned = replace(verdict, max_autotuned=Timing(24, 23, 25, 9), speedup_vs_max_autotune=Interval(1.6, 1.5, 1.7))
    text = ended(run, {**nodes, run.best: replace(nodes[run.best], verdict=tuned)})
    assert "max-autotune   24.0 ms (23.0–25.0)  1.25x" in text
    assert "; 1.60x (1.50–1.70) vs max-autotune." in text
    failed = replace(run.reference.baselines, max_autotune_message="torch.compile (max-autotune) failed: it does not")
    text = ended(replace(run, reference=replace(run.reference, baselines=failed)), nodes)
    assert "max-autotune   no time" in text
    assert "torch.compile (max-autotune) failed: it does not" in text


def test_torch_compile_gets_the_credit_where_it_is_due(tmp_path: Path) -> None:
    path = write(tmp_path, "model.py", CHAIN)
    run, nodes = finished_run(path, best=None)
    assert "torch.compile alone is 1.50x as fast as eager here" in ended(run, nodes)
    no_gain = replace(run, reference=reference(compile_ms=31.0))
    assert outcome.compile_remark(no_gain) == ""
    assert outcome.compile_remark(replace(run, reference=reference(compile_ms=None))) == ""


def test_a_stopped_run_says_how_to_go_on(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    console, file = recorder()
    outcome.show_stopped(console, run, nodes, again="stark-lsp optimize model.py --resume")
    assert file.getvalue() == "Stopped. 3 attempts are kept.\nTo go on: stark-lsp optimize model.py --resume\n"


def test_a_long_patch_is_cut_on_a_terminal_only() -> None:
    patch = "".join(f"+line {number}\n" for number in range(300))
    for terminal, whole, shown in ((True, False, False), (True, True, True), (False, False, True)):
        console, file = recorder(terminal=terminal)
        diffs.show(console, patch, whole=whole)
        assert ("line 299" in file.getvalue()) is shown
        assert ("more lines" in file.getvalue()) is not shown


def test_a_deep_tree_stays_readable(tmp_path: Path) -> None:
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    chain = {number: node(number, number - 1, verified(15.0)) for number in range(1, 1501)}
    text = ended(run, {0: nodes[0], **chain}, width=100)
    for number in (1, 9, 10, 700, 1500):
        assert f" {number} 15.0 ms  2.00x" in text
    assert "Fuse the gate  after 1499" in text
