"""A class that leaves the GPU unusable with some special inputs is judged without these, by another worker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from judge_cases import HONEST, QUICK, REFERENCE, candidate_with, judging, make_problem

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status

ASSERTS = """
import sys

(modules,) = (one for name, one in sys.modules.items() if name.endswith("judge.reference.modules"))


def lost(device):
    raise RuntimeError("CUDA error: device-side assert triggered")


def rows_of(x):
    if len(x) != 64:
        # As a GPU does from then on.
        modules.synchronize = lost
        lost("")
    return x


class Model"""


async def test_special_inputs_are_left_out_where_they_leave_the_gpu_unusable(tmp_path: Path) -> None:
    text = REFERENCE.replace("class Model", ASSERTS.lstrip()).replace("relu(x *", "relu(rows_of(x) *")
    settings = replace(QUICK, special_inputs=True)
    steps: list[str] = []
    async with judging(make_problem(tmp_path / "model.py", text), tmp_path, settings=settings) as (judge, log):
        pid = judge.pid
        reference = await asyncio.wait_for(judge.prepare(steps.append), 120)
        assert judge.pid != pid, log
        assert steps.count("Starting another worker, without special inputs") == 1
        assert reference.notes[-1] == (
            "The reference left the GPU unusable when it was tried with a batch of 15 instead of 64 "
            "(RuntimeError: CUDA error: device-side assert triggered). Special inputs are left out."
        )
        verdict = await judge.evaluate(Candidate(candidate_with(HONEST)))
        assert verdict.status is Status.OK, verdict
