"""The page of evidence: every figure of a verdict in words, and the plain sentence on what it means."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stark_lsp.cli.output import evidence
from stark_lsp.cli.output.results import of_verdict
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import (
    Baselines,
    CompilerMessage,
    Environment,
    ErrorFigures,
    Interval,
    Launch,
    Metric,
    Profile,
    Reference,
    Timing,
    Verdict,
)

ENVIRONMENT = Environment(
    device="NVIDIA H200",
    device_type="cuda",
    python="3.11.7",
    interpreter="/venv/bin/python",
    torch="2.11.0",
    cuda="13.0",
    driver="580.1",
    compiler="nvcc 13.0",
    dtypes=("float32",),
    shapes=("8192x1024",),
    isolation="bubblewrap",
)
REFERENCE = Reference(
    ENVIRONMENT,
    Baselines(Timing(0.20, 0.19, 0.21, 30), Timing(0.08, 0.079, 0.081, 30)),
    ("float32[8192x1024]",),
    ("The machine is busy.",),
)
PROFILE = Profile(
    launched=(Launch("fused_kernel", 1, 38.5, "8192x1x1", "256x1x1", 40, 1024, 0, 0.75), Launch("memset", 2, 1.5)),
    device_us=36.0,
    bytes=67108864,
    floor_us=17.0,
    bandwidth_share=0.44,
    bound="memory",
    metrics=(Metric("dram throughput", 44.0, "%"),),
    notes=("The compiler's figures could not be read.",),
)
GOOD = Verdict(
    VerdictStatus.OK,
    errors=ErrorFigures(1e-6, 2e-7, 2e-5, 3e-8),
    runtime=Timing(0.0385, 0.038, 0.039, 30),
    speedup_vs_eager=Interval(5.2, 5.1, 5.3),
    speedup_vs_compile=Interval(2.1, 2.0, 2.2),
    eager=Timing(0.25, 0.24, 0.26, 30),
    compiled=Timing(0.09, 0.089, 0.091, 30),
    environment=ENVIRONMENT,
    stages_s=(("check", 0.01), ("build", 0.9), ("build", 0.1)),
    profile=PROFILE,
    notes=("Others used the GPU meanwhile.",),
)


def page(verdict: Verdict, reference: Reference = REFERENCE) -> str:
    out = io.StringIO()
    evidence.show(Console(file=out, width=120, highlight=False, emoji=False, markup=False), reference, verdict)
    return out.getvalue()


def test_all_of_a_good_verdict_is_on_the_page() -> None:
    text = page(GOOD)
    for part in (
        "Verified  OK",
        "38.5 µs (38.0–39.0), n = 30",
        "device time            36.0 µs, launch overhead 2.50 µs",
        "5.20x (5.10–5.30)",
        "2.10x (2.00–2.20)",
        "250 µs (240–260)\n",
        "90.0 µs (89.0–91.0)\n",
        "2e-07 of the largest output",
        "2e-05 of the largest output",
        "3e-08 of the largest output",
        "fused_kernel",
        "8192x1x1",
        "75%",
        "takes 17.0 µs at this device's measured rates",
        "limited by memory traffic",
        "dram throughput",
        "NVIDIA H200",
        "CUDA 13.0, driver 580.1, nvcc 13.0",
        "kept apart by bubblewrap",
        "build 0.90 s",
        "The machine is busy.",
        "Others used the GPU meanwhile.",
        "The compiler's figures could not be read.",
    ):
        assert part in text, part


def test_times_that_are_not_of_the_same_rounds_say_so() -> None:
    text = page(replace(GOOD, compiled=None))
    assert "250 µs (240–260)\n" in text
    assert "80.0 µs (79.0–81.0), before the candidate came" in text
    stored_earlier = page(replace(GOOD, eager=None, compiled=None))
    assert "200 µs (190–210), before the candidate came" in stored_earlier


def test_a_note_of_both_preparing_and_judging_is_told_once() -> None:
    verdict = replace(GOOD, notes=("The machine is busy.", "Others used the GPU meanwhile."))
    assert of_verdict(REFERENCE, verdict)["notes"] == ["The machine is busy.", "Others used the GPU meanwhile."]
    assert page(verdict).count("The machine is busy.") == 1


def test_a_note_of_both_profile_and_verdict_is_told_once() -> None:
    verdict = replace(GOOD, notes=PROFILE.notes)
    assert page(verdict).count("The compiler's figures could not be read.") == 1


@pytest.mark.parametrize(
    ("eager", "compiled", "sentence"),
    [
        ((5.2, 5.1, 5.3), (2.1, 2.0, 2.2), "It is 5.20x as fast as eager PyTorch and 2.10x as fast as torch.compile."),
        ((5.2, 5.1, 5.3), (1.0, 0.9, 1.1), "It is 5.20x as fast as eager PyTorch, about as fast as torch.compile."),
        ((5.2, 5.1, 5.3), (0.5, 0.4, 0.6), "torch.compile alone is faster: 2.00x as fast as this, with no new code."),
        ((5.2, 5.1, 5.3), None, "It is 5.20x as fast as eager PyTorch; torch.compile was not compared."),
        ((1.0, 0.9, 1.1), (1.0, 0.9, 1.1), "It is not faster than eager PyTorch beyond the noise of the measurement."),
        ((0.5, 0.4, 0.6), None, "It is slower than eager PyTorch, which is 2.00x as fast."),
        ((0.5, 0.4, 0.6), (0.2, 0.1, 0.3), "torch.compile alone is faster: 5.00x as fast as this, with no new code."),
    ],
)
def test_one_sentence_says_what_the_times_mean(
    eager: tuple[float, float, float], compiled: tuple[float, float, float] | None, sentence: str
) -> None:
    verdict = replace(
        GOOD, speedup_vs_eager=Interval(*eager), speedup_vs_compile=Interval(*compiled) if compiled else None
    )
    assert evidence.compared(verdict) == sentence


def test_a_failure_has_its_reason_its_lines_and_no_times_of_its_own() -> None:
    verdict = Verdict(
        VerdictStatus.COMPILE_ERROR,
        "The kernel does not compile.",
        line=12,
        compiler=(CompilerMessage(4, 7, "'flot' was not declared"), CompilerMessage(0, 0, "and \x1b[31mmore")),
        log="ninja: build stopped",
        environment=replace(ENVIRONMENT, isolation="process"),
    )
    text = page(verdict)
    assert "Did not compile, line 12  COMPILE_ERROR" in text
    assert "4:7  'flot' was not declared" in text
    assert "\x1b[31m" not in text
    assert "ninja" not in text, "the compiler's messages say it better"
    assert "one call" not in text
    assert "200 µs (190–210), before the candidate came" in text
    assert "not kept apart: a plain process under your account" in text


def test_what_a_crashed_candidate_printed_is_shown_to_its_last_lines() -> None:
    verdict = Verdict(VerdictStatus.CRASHED, "It was killed.", log="\n".join(f"line {i}" for i in range(100)))
    text = page(verdict)
    assert "line 99" in text
    assert "line 84" not in text


def test_the_json_has_the_whole_verdict() -> None:
    report = of_verdict(REFERENCE, GOOD, settings="default")
    assert report["status"] == "OK"
    assert report["runtime_ms"] == 0.0385
    assert report["interval"] == report["intervals"]["speedup_vs_eager"] == [5.1, 5.3]
    assert report["intervals"]["runtime_ms"] == [0.038, 0.039]
    assert (report["speedup_vs_eager"], report["speedup_vs_compile"]) == (5.2, 2.1)
    assert report["stages_s"] == {"check": 0.01, "build": 1.0}
    assert report["launched"][0]["name"] == "fused_kernel"
    assert report["isolation"] == "bubblewrap"
    assert report["same_rounds"]["eager"] == {"ms": 0.25, "interval": [0.24, 0.26], "n": 30}
    assert report["same_rounds"]["compile"]["ms"] == 0.09
    assert report["baselines"]["compile"]["ms"] == 0.08
    assert report["notes"] == ["The machine is busy.", "Others used the GPU meanwhile."]
    assert report["settings"] == "default"
