"""What models are told of constants that may be left open, and of what came of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_cases import CPU, FIRST, FIRST_PLAN, PROBLEM, ROOT, context, reference

from stark_lsp.agents.answers import TOOLS
from stark_lsp.agents.frame import Frame
from stark_lsp.agents.observations import NAME, noted, tuned
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.run import Note
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole, VerdictStatus
from stark_lsp.core.verdict import Interval, Swept, Verdict


def gain(value: float) -> Interval:
    return Interval(value, value, value)


SWEPT = (
    *(Swept(f"BLOCK = {size}", VerdictStatus.OK, gain(size / 64)) for size in (16, 32, 64, 128, 256, 512, 1024)),
    Swept("BLOCK = 2048", VerdictStatus.COMPILE_ERROR),
)


@pytest.mark.parametrize("role", list(ModelRole))
@pytest.mark.parametrize(
    ("dialect", "way"),
    [
        ("raw", 'extra_cuda_cflags=[f"-DBLOCK={BLOCK}"]'),
        ("inline", 'extra_cuda_cflags=[f"-DBLOCK={BLOCK}"]'),
        ("triton", "BLOCK=BLOCK, num_warps=WARPS"),
        ("cpu", 'extra_cflags=[f"-DBLOCK={BLOCK}"]'),
    ],
)
def test_every_role_is_told_how_unless_nothing_is_tuned(role: ModelRole, dialect: str, way: str) -> None:
    found = reference(CPU) if dialect == "cpu" else reference()
    settings = AgentSettings(dialect="auto" if dialect == "cpu" else dialect)
    for tune in (SearchSettings().tune, 0):
        frame = Frame(PROBLEM, found, settings, PromptLibrary(), tune=tune)
        shared = frame.question(role, context(), TOOLS[role], plan=FIRST_PLAN).shared
        assert ("TUNE = {" in shared) == (way in shared) == (f"up to {tune} others" in shared) == (tune > 0)


def test_what_won_is_told_with_the_fastest_and_the_slowest() -> None:
    verdict = Verdict(VerdictStatus.OK, speedup_vs_eager=gain(16.0), tuned="BLOCK = 1024", swept=SWEPT)
    said = tuned(verdict)
    assert "8 choices timed: BLOCK = 1024 was kept" in said
    assert "BLOCK = 1024 (16x); BLOCK = 512 (8x)" in said
    assert "BLOCK = 16 (0.25x); 1 did not work." in said
    assert "BLOCK = 32 " not in said
    frame = Frame(PROBLEM, reference(), AgentSettings(), PromptLibrary(), tune=30)
    node = replace(FIRST, verdict=replace(FIRST.verdict, tuned=verdict.tuned, swept=SWEPT))
    asked = frame.question(ModelRole.CODE, context(node, (ROOT, node)), TOOLS[ModelRole.CODE], plan=FIRST_PLAN)
    assert f"**Tuned.** {said}" in asked.body
    assert tuned(replace(verdict, swept=SWEPT[:1])) == ""


def test_it_is_told_in_few_words_however_much_was_tried() -> None:
    long = tuple(replace(one, values="BLOCK = 1, " * 80) for one in SWEPT) * 4
    assert len(tuned(Verdict(VerdictStatus.OK, tuned=long[0].values, swept=long))) <= 8 * NAME


def test_later_runs_are_told_the_values_that_won() -> None:
    note = Note("r", 1, "Gate", ("mul",), "", "a GPU", "", "One kernel", VerdictStatus.OK, gain(2.0))
    assert "One kernel: 2x" in noted(note)
    assert "One kernel, with BLOCK = 128: 2x" in noted(replace(note, tuned="BLOCK = 128"))
