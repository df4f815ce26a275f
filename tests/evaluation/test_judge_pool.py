"""Several workers behind one judge, and which GPUs they are given."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest
from judge_cases import HONEST, QUICK, candidate_with, make_problem

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import DeviceChoice
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.evaluation import gpus
from stark_lsp.evaluation.gpus import maybe_several, visible
from stark_lsp.evaluation.judge import WorkerJudge, open_judge
from stark_lsp.evaluation.pool import JudgePool, open_judges
from stark_lsp.evaluation.supervisor import WorkerState

TWO = "GPU-aaaa, NVIDIA H200\nGPU-bbbb, NVIDIA H200\n"


def test_like_gpus_are_shared_out_and_unlike_ones_are_not() -> None:
    assert visible(TWO, {}) == ("GPU-aaaa", "GPU-bbbb")
    assert visible("GPU-aaaa, NVIDIA H200\nGPU-bbbb, NVIDIA T4\n", {}) == ()
    assert visible("", {}) == ()
    assert visible("No devices were found\n", {}) == ()


def test_the_users_choice_of_gpus_is_kept_as_cuda_reads_it() -> None:
    assert visible(TWO, {"CUDA_VISIBLE_DEVICES": "1"}) == ("1",)
    assert visible(TWO, {"CUDA_VISIBLE_DEVICES": "1, 0"}) == ("1", "0")
    assert visible(TWO, {"CUDA_VISIBLE_DEVICES": "1,-1,0"}) == ("1",)
    assert visible(TWO, {"CUDA_VISIBLE_DEVICES": ""}) == ()


def test_the_gpu_with_the_least_to_do_comes_first() -> None:
    def listed(*loads: tuple[str, str]) -> str:
        return "".join(f"GPU-{n}, NVIDIA H200, {busy}, {used}, Disabled\n" for n, (busy, used) in enumerate(loads))

    assert visible(listed(("0", "4"), ("0", "1")), {}) == ("GPU-0", "GPU-1"), "both are at rest"
    assert visible(listed(("0", "9000"), ("0", "600"), ("0", "1")), {}) == ("GPU-2", "GPU-1", "GPU-0")
    assert visible(listed(("97", "4"), ("0", "9000")), {}) == ("GPU-1", "GPU-0"), "what runs now counts most"
    assert visible(listed(("[N/A]", "[N/A]"), ("0", "1")), {}) == ("GPU-0", "GPU-1")
    assert visible(listed(("97", "4"), ("0", "1")), {"CUDA_VISIBLE_DEVICES": "0,1"}) == ("0", "1")


def test_gpus_that_are_divided_are_left_to_torch() -> None:
    assert visible("GPU-a, NVIDIA H200, 0, 1, Enabled\nGPU-b, NVIDIA H200, 0, 1, Disabled\n", {}) == ()


def test_where_the_driver_knows_one_gpu_nothing_is_asked(tmp_path: Path) -> None:
    assert maybe_several(str(tmp_path / "missing"))
    (tmp_path / "0000:01:00.0").mkdir()
    assert not maybe_several(str(tmp_path))
    (tmp_path / "0000:02:00.0").mkdir()
    assert maybe_several(str(tmp_path))


async def test_one_worker_is_given_the_gpu_with_the_least_to_do_unless_the_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\nprintf 'GPU-a, NVIDIA H200, 97, 9000, Disabled\\nGPU-b, NVIDIA H200, 0, 1, Disabled\\n'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(gpus, "maybe_several", lambda: True)
    for chosen, given, told in ((None, "GPU-b", True), ("0", "0", False), ("", "", False)):
        if chosen is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        log: list[str] = []
        judge = await open_judges(
            make_problem(tmp_path / "model.py", device=DeviceChoice.AUTO),
            interpreter=sys.executable,
            settings=QUICK,
            cache_dir=tmp_path / "cache",
            log=log.append,
        )
        try:
            assert isinstance(judge, WorkerJudge)
            # Nothing can be read while the program is being put in place.
            while not (variables := psutil.Process(judge.pid).environ()):
                await asyncio.sleep(0.01)
            assert variables.get("CUDA_VISIBLE_DEVICES") == given
            assert any("GPU-b" in line for line in log) is told
        finally:
            await judge.close()


async def opened(folder: Path, text: str | None = None) -> WorkerJudge:
    problem = make_problem(folder / "model.py") if text is None else make_problem(folder / "model.py", text)
    return await open_judge(
        problem, interpreter=sys.executable, settings=QUICK, cache_dir=folder / "cache", log=lambda line: None
    )


@pytest.mark.slow
async def test_two_workers_share_candidates_and_both_are_gone_at_the_end(tmp_path: Path) -> None:
    judges = [await opened(tmp_path), await opened(tmp_path)]
    pool = JudgePool(judges, lambda line: None)
    try:
        reference = await pool.prepare(lambda text: None)
        assert reference.environment.device_type == "cpu"
        tasks = [asyncio.create_task(pool.evaluate(Candidate(candidate_with(HONEST)))) for _ in range(2)]
        await asyncio.sleep(0)
        assert [judge.under_way for judge in judges] == [1, 1]
        assert [verdict.status for verdict in await asyncio.gather(*tasks)] == [Status.OK, Status.OK]
        assert (await pool.confirm(Candidate(candidate_with("return x")))).status is Status.WRONG_RESULT
    finally:
        await pool.close()
    assert {judge.state for judge in judges} == {WorkerState.CLOSED}


@pytest.mark.slow
async def test_a_second_worker_that_cannot_be_prepared_is_left_out(tmp_path: Path) -> None:
    told: list[str] = []
    judges = [await opened(tmp_path), await opened(tmp_path, "import torch\nraise OSError('device is gone')\n")]
    pool = JudgePool(judges, told.append)
    try:
        await pool.prepare(lambda text: None)
        assert "device is gone" in told[0]
        assert judges[1].state is WorkerState.CLOSED
        tasks = [pool.evaluate(Candidate(candidate_with(HONEST))) for _ in range(2)]
        assert [verdict.status for verdict in await asyncio.gather(*tasks)] == [Status.OK, Status.OK]
    finally:
        await pool.close()


async def test_bad_input_of_the_first_worker_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    judges = [await opened(tmp_path, "import torch\nraise OSError('no such data')\n") for _ in range(2)]
    pool = JudgePool(judges, lambda line: None)
    try:
        with pytest.raises(BadInput, match="no such data"):
            await pool.prepare(lambda text: None)
    finally:
        await pool.close()
    assert {judge.state for judge in judges} <= {WorkerState.CLOSED, WorkerState.DEAD}


async def test_on_a_cpu_one_worker_judges_whatever_is_in_flight(tmp_path: Path) -> None:
    judge = await open_judges(
        make_problem(tmp_path / "model.py", device=DeviceChoice.CPU),
        interpreter=sys.executable,
        settings=QUICK,
        cache_dir=tmp_path / "cache",
        log=lambda line: None,
        in_flight=4,
    )
    try:
        assert isinstance(judge, WorkerJudge)
    finally:
        await judge.close()
