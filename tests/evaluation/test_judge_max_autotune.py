"""torch.compile with mode max-autotune as one more baseline, really compiled and timed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from judge_cases import QUICK, REFERENCE, judging, make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Mode
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Baselines, Timing, Verdict
from stark_lsp.core.wire import dumps, loads

PENDING = "It is being compiled beside the search."

AUTOTUNED = replace(QUICK, max_autotune=True, compile_timeout_s=280.0, profile=False, special_inputs=False)
COMPILED = replace(AUTOTUNED, max_autotune=False, compile_baseline=True)
SAME = Candidate(REFERENCE.replace("class Model", "class ModelNew"))


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_finalist_is_timed_next_to_max_autotune_and_others_are_not(tmp_path: Path) -> None:
    async with judging(make_problem(tmp_path / "model.py"), tmp_path, settings=AUTOTUNED) as (judge, _):
        prepared = (await judge.prepare(lambda text: None)).baselines
        assert (prepared.max_autotune, prepared.max_autotune_message) == (None, PENDING)
        # Compiled beside the search, whose first verdict does not wait for it.
        compiling = asyncio.create_task(judge.baselines())
        searched = await judge.evaluate(SAME)
        assert not compiling.done()
        baselines = await compiling
        assert baselines.max_autotune is not None, baselines.max_autotune_message
        assert baselines.max_autotune_message == ""
        assert (baselines.compile, baselines.compile_message) == (None, "Switched off.")
        assert searched.status is Status.OK, searched
        assert (searched.max_autotuned, searched.speedup_vs_max_autotune) == (None, None)
        confirmed = await judge.confirm(SAME)
        assert confirmed.status is Status.OK, confirmed
        assert confirmed.max_autotuned is not None
        assert confirmed.speedup_vs_max_autotune is not None
        assert (confirmed.compiled, confirmed.speedup_vs_compile) == (None, None)
        assert loads(dumps(confirmed), Verdict) == confirmed


BREAKS_THE_COMPILER = REFERENCE.replace(
    "import torch.nn as nn\n",
    "import torch.nn as nn\nimport torch._inductor.config\ntorch._inductor.config.cpp.cxx = ('no-such-compiler',)\n",
)


@pytest.mark.slow
async def test_where_max_autotune_fails_the_reason_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    problem = make_problem(tmp_path / "model.py", BREAKS_THE_COMPILER)
    async with preparing(problem, tmp_path, settings=AUTOTUNED) as (judge, _):
        baselines = await judge.baselines()
        assert baselines.max_autotune is None
        assert baselines.max_autotune_message.startswith("torch.compile (max-autotune) failed: ")
        assert baselines.eager.median_ms > 0
        assert (await judge.confirm(SAME)).speedup_vs_max_autotune is None


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("mode", [Mode.EVAL, Mode.TRAINING])
async def test_with_what_torch_compile_gets_wrong_nothing_is_compared(mode: Mode, tmp_path: Path) -> None:
    # As torch 2.11 does of a graph's attention on a GPU, whose scores it pads in memory; and as any does of gradients
    # for which it reads a buffer after a call has changed it.
    wrong = REFERENCE.replace("return ", "x = x * (1.5 if torch.compiler.is_compiling() else 1.0)\n        return ", 1)
    problem = replace(make_problem(tmp_path / "model.py", wrong), mode=mode)
    settings = replace(AUTOTUNED, max_autotune=False, compile_baseline=True)
    async with preparing(problem, tmp_path, settings=settings) as (judge, _):
        baselines = await judge.baselines()
        assert baselines.compile is None
        assert baselines.compile_message.startswith("torch.compile gives another result than the class itself, off by ")
        confirmed = await judge.confirm(SAME)
        assert (confirmed.status, confirmed.speedup_vs_compile) == (Status.OK, None), confirmed


@pytest.mark.slow
@pytest.mark.ci
async def test_state_that_steps_move_makes_torch_compile_not_wrong(tmp_path: Path) -> None:
    text = REFERENCE.replace("torch.randn(n))", "torch.randn(n))\n        self.register_buffer('seen', torch.ones(n))")
    text = text.replace(
        "        return torch", "        self.seen.mul_(0.5).add_(x.detach().mean(0))\n        return torch"
    )
    problem = replace(make_problem(tmp_path / "model.py", text), mode=Mode.TRAINING)
    async with preparing(problem, tmp_path, settings=COMPILED) as (judge, _):
        baselines = await judge.baselines()
        assert (baselines.compile_message, baselines.compile is None) == ("", False)


HANGS = REFERENCE.replace(
    "import torch.nn as nn\n",
    "import time\nimport torch.nn as nn\nimport torch._inductor.compile_fx as c\n"
    "c.compile_fx = lambda *given, **named: time.sleep(1000)\n",
)


@pytest.mark.slow
@pytest.mark.parametrize("soon", [0.0, 8.0])
async def test_what_nobody_waits_for_any_more_is_ended_and_not_compared_with(soon: float, tmp_path: Path) -> None:
    problem = make_problem(tmp_path / "model.py", HANGS)
    settings = replace(AUTOTUNED, max_autotune=False, compile_baseline=True)
    async with preparing(problem, tmp_path, settings=settings) as (judge, _):
        compiling = asyncio.create_task(judge.baselines())
        await asyncio.sleep(soon)
        compiling.cancel()
        await asyncio.gather(compiling, return_exceptions=True)
        confirmed = await asyncio.wait_for(judge.confirm(SAME), 60)
        assert confirmed.status is Status.OK, confirmed
        assert confirmed.speedup_vs_compile is None
        assert (await judge.baselines()).compile_message.startswith("torch.compile was still at work")


def test_it_is_off_by_default() -> None:
    assert EvaluationSettings().max_autotune is False


@pytest.mark.parametrize("kept", [None, Timing(5, 5, 5, 9)])
def test_times_of_the_same_rounds_stand_in_for_those_taken_before(kept: Timing | None) -> None:
    prepared = Baselines(Timing(3, 3, 3, 9), max_autotune=Timing(4, 4, 4, 9), compile_message="Switched off.")
    found = Verdict(Status.OK, eager=Timing(2, 2, 2, 9), max_autotuned=kept).baselines(prepared)
    assert found.eager == Timing(2, 2, 2, 9)
    assert found.max_autotune == (kept or prepared.max_autotune)
    assert found.compile_message == "Switched off."
