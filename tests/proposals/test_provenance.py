"""The provenance comment says what was measured, plainly."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, Mode, RunState, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict
from stark_lsp.proposals.diff import unified
from stark_lsp.proposals.provenance import provenance_comment

ENVIRONMENT = Environment(
    device="AMD EPYC 9654 96-Core Processor", device_type="cpu", python="3.11", interpreter="/usr/bin/python",
    torch="2.9.0", dtypes=("float32", "int64"), shapes=("8x128x768", "8"),
)  # fmt: skip
TIMING = Timing(1.0, 0.9, 1.1, 50)
RUN = Run(
    id="20260102-abcd",
    problem=Problem("/p/net.py", "Model", "", SourceSlice("", ()), Span(0, 0), InputSpec()),
    seed=0,
    model="playbook",
    budget=Budget(),
    state=RunState.FINISHED,
    created="2026-01-02T03:04:05Z",
    finished="2026-01-03T03:04:05Z",
    reference=Reference(ENVIRONMENT, Baselines(TIMING)),
)
VERDICT = Verdict(
    VerdictStatus.OK,
    runtime=TIMING,
    speedup_vs_eager=Interval(2.314, 2.25, 2.38),
    speedup_vs_compile=Interval(1.08, 1.02, 1.15),
    environment=ENVIRONMENT,
)
NODE = Node(7, 0, AgentRole.CODE, Candidate("x"), verdict=VERDICT)


def comment(verdict: Verdict = VERDICT, run: Run = RUN) -> str:
    text = provenance_comment(run, replace(NODE, verdict=verdict))
    lines = text.split("\n")
    assert all(line.startswith("#") and len(line) <= 120 and line.isascii() for line in lines)
    assert lines[0].startswith("# Optimized by STARK")
    return " ".join(line.lstrip("# ") for line in lines)


def test_it_names_speedups_with_intervals_and_where_they_were_measured() -> None:
    text = comment()
    for part in (
        "2.31x the speed of eager PyTorch (95 % interval 2.25 to 2.38)", "1.08x the speed of torch.compile",
        "1.02 to 1.15", "AMD EPYC 9654", "(cpu)", "float32 and int64", "8x128x768 8", "torch 2.9.0",
        "Run 20260102-abcd, node 7, 2026-01-03.", "in eval mode",
    ):  # fmt: skip
        assert part in text


def test_it_says_plainly_when_torch_compile_alone_is_faster() -> None:
    text = comment(replace(VERDICT, speedup_vs_compile=Interval(0.8, 0.75, 0.85)))
    assert "torch.compile alone is faster: this has 0.80x the speed of torch.compile" in text
    text = comment(replace(VERDICT, speedup_vs_compile=Interval(1.0, 0.95, 1.05)))
    assert "No clear difference to torch.compile" in text


def test_it_says_why_there_is_no_comparison() -> None:
    reference = Reference(ENVIRONMENT, Baselines(TIMING, None, "no C++ compiler\nfound. " + "long " * 60))
    text = comment(replace(VERDICT, speedup_vs_compile=None), replace(RUN, reference=reference))
    assert "Not compared with torch.compile: no C++ compiler found." in text


def test_it_says_when_weights_do_not_load_and_survives_odd_device_names() -> None:
    odd = replace(ENVIRONMENT, device="Chip™\n#\x00 1", device_type="cuda", cuda="12.6")
    text = comment(replace(VERDICT, weights_loaded=False, environment=odd))
    assert "Weights saved from Model cannot be loaded into it." in text
    assert "CUDA 12.6" in text


def test_a_diff_shows_changes_and_new_files() -> None:
    assert unified("a\nb\n", "a\r\nc\r\n", "net.py") == "--- a/net.py\n+++ b/net.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert unified("", "a\n", "/p/new.py").startswith("--- /dev/null\n+++ b/p/new.py\n")
    assert unified("a\n", "a\n", "net.py") == ""


def test_the_diff_of_a_file_without_a_final_line_end_is_a_patch_that_applies(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("a\nb")
    patch = unified("a\nb", "a\nb\nc", "net.py")
    assert patch.count("\\ No newline at end of file\n") == 2
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "net.py").read_text() == "a\nb\nc"


def test_it_says_whether_gradients_were_recorded() -> None:
    assert "in eval mode with empty caches on" in comment()
    recorded = replace(VERDICT, environment=replace(ENVIRONMENT, gradients=True))
    assert "in eval mode, gradients recorded, with empty caches on AMD" in comment(recorded)


@pytest.mark.parametrize(
    ("mode", "words"),
    [(Mode.EVAL, "in eval mode"), (Mode.AS_CONSTRUCTED, "as constructed"), (Mode.TRAINING, "in training mode")],
)
def test_it_says_in_which_mode(mode: Mode, words: str) -> None:
    run = replace(RUN, problem=replace(RUN.problem, mode=mode))
    assert f"Measured {words} with empty caches on AMD" in comment(run=run)


def test_it_says_what_the_class_was_converted_to() -> None:
    assert "converted to" not in comment(VERDICT)
    assert "converted to bfloat16" in comment(
        replace(VERDICT, environment=replace(ENVIRONMENT, weights_dtype="bfloat16"))
    )
    assert "under autocast to float16" in comment(
        replace(VERDICT, environment=replace(ENVIRONMENT, autocast="float16"))
    )
