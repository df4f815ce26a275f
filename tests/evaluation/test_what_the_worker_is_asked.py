"""What the worker is asked: what the static check refuses never reaches it, and hardware counters are read once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judge_cases import HONEST, QUICK, RAW, candidate_with, make_problem

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import (
    Baselines,
    EditCheck,
    Environment,
    Launch,
    Profile,
    Reference,
    Stage,
    Timing,
    Verdict,
)
from stark_lsp.core.wire import to_wire
from stark_lsp.evaluation.judge import IN_VAIN, READING, WorkerJudge
from stark_lsp.evaluation.supervisor import WorkerState

ENVIRONMENT = Environment("a CPU", "cpu", "3.11", "/usr/bin/python3", "2.9")
TIMING = Timing(1.0, 0.9, 1.1, 9)


class FakeSupervisor:
    """Answers as a worker would, and keeps what it was asked."""

    state = WorkerState.IDLE
    loss = None

    def __init__(self) -> None:
        self.counters: dict[str, Any] = {"metrics": [{"name": "L2 hit rate", "value": 50.0, "unit": "%"}], "notes": []}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def request(self, method: str, params: dict[str, Any], **options: Any) -> Any:
        self.asked.append((method, params))
        if method == "prepare":
            return to_wire(Reference(ENVIRONMENT, Baselines(TIMING)))
        if method == "parse":
            return {"message": "invalid syntax", "line": 2} if "(:" in params["source"] else {"message": None}
        if method == "check_edit":
            return to_wire(EditCheck(True, True))
        if method == "counters":
            return self.counters
        return to_wire(Verdict(Status.OK, runtime=TIMING, stages_s=(("start", 0.5),), notes=("A loaded machine.",)))


@pytest.fixture
def supervisor() -> FakeSupervisor:
    return FakeSupervisor()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def judge(tmp_path: Path, supervisor: FakeSupervisor, told: list[str]) -> WorkerJudge:
    problem = make_problem(tmp_path / "model.py")
    hire: Any = lambda: supervisor  # noqa: E731
    made = WorkerJudge(problem, QUICK, tmp_path, hire, told.append)
    await made.prepare(lambda text: None)
    return made


async def test_what_is_refused_never_reaches_the_worker(
    judge: WorkerJudge, supervisor: FakeSupervisor, told: list[str]
) -> None:
    for verdict in (
        await judge.evaluate(Candidate("import subprocess\n" + candidate_with(HONEST))),
        await judge.confirm(Candidate("import subprocess\n" + candidate_with(HONEST))),
    ):
        assert verdict.status is Status.REFUSED
        assert verdict.message.startswith("It imports subprocess. ")
        assert verdict.line == 1
        assert verdict.failed_in is Stage.CHECK
        assert verdict.environment == ENVIRONMENT
        assert [stage for stage, _ in verdict.stages_s] == ["check"]
        assert verdict.runtime is None
    assert [method for method, _ in supervisor.asked] == ["prepare"]
    assert told == [READING, READING]
    assert judge.under_way == 0


@pytest.mark.parametrize(
    ("source", "status", "stage", "asked"),
    [
        ("import subprocess\n" + candidate_with(HONEST), Status.REFUSED, Stage.CHECK, []),
        ("import torch\n", Status.REFUSED, Stage.CHECK, []),
        ("class ModelNew(:\n", Status.LOAD_ERROR, Stage.LOAD, ["parse"]),
        (candidate_with(HONEST), None, None, ["parse"]),
    ],
)
async def test_what_reading_finds_is_told_before_anything_is_prepared(
    tmp_path: Path,
    supervisor: FakeSupervisor,
    source: str,
    status: Status | None,
    stage: Stage | None,
    asked: list[str],
) -> None:
    hire: Any = lambda: supervisor  # noqa: E731
    judge = WorkerJudge(make_problem(tmp_path / "model.py"), QUICK, tmp_path, hire, lambda text: None)
    verdict = await judge.read(Candidate(source))
    assert (verdict and verdict.status, verdict and verdict.failed_in) == (status, stage)
    assert [method for method, _ in supervisor.asked] == asked
    if stage is Stage.LOAD:
        assert verdict is not None
        assert (verdict.message, verdict.line) == ("The candidate does not parse: invalid syntax.", 2)


async def test_the_worker_is_told_of_what_it_runs(judge: WorkerJudge, supervisor: FakeSupervisor) -> None:
    verdict = await judge.evaluate(Candidate("import time\nBEGIN = time.perf_counter()\n" + RAW))
    assert verdict.status is Status.OK
    assert verdict.notes == ("Line 2: It looks at the clock.", "A loaded machine.")
    assert [stage for stage, _ in verdict.stages_s] == ["check", "start"]
    method, params = supervisor.asked[-1]
    assert method == "evaluate"
    assert params["told"]["judged"] == params["candidate"]["source"]
    assert len(params["told"]["kernels"]) == 1


async def test_an_edited_file_is_read_too(judge: WorkerJudge, supervisor: FakeSupervisor) -> None:
    assert await judge.check_edit("/project/model.py", RAW, "ModelNew") == EditCheck(True, True)
    told = supervisor.asked[-1][1]["told"]
    assert told["judged"] == RAW
    assert len(told["kernels"]) == 1


def profiled(*kernels: str, device: str = "cuda") -> Verdict:
    profile = Profile(tuple(Launch(name) for name in kernels), notes=("Noted.",))
    return Verdict(Status.OK, environment=replace(ENVIRONMENT, device_type=device), profile=profile)


async def test_hardware_counters_are_read_once_for_a_source(judge: WorkerJudge, supervisor: FakeSupervisor) -> None:
    candidate, verdict = Candidate(RAW), profiled("Memcpy DtoD", "scale<float>", "other")
    first, again = [await judge.counted(candidate, verdict) for _ in range(2)]
    assert first == again
    assert first.profile is not None
    assert [metric.name for metric in first.profile.metrics] == ["L2 hit rate"]
    assert [params["kernel"] for method, params in supervisor.asked if method == "counters"] == ["scale<float>"]
    assert await judge.counted(candidate, first) == first
    for without in (profiled(), profiled("scale", device="cpu"), replace(verdict, status=Status.WRONG_RESULT)):
        assert await judge.counted(Candidate(RAW + "# 2"), without) == without
    assert len(supervisor.asked) == 2
    assert judge.under_way == 0


async def test_hardware_counters_that_cannot_be_read_are_given_up(
    judge: WorkerJudge, supervisor: FakeSupervisor
) -> None:
    supervisor.counters = {"metrics": [], "notes": ["The driver keeps them."]}
    told = [await judge.counted(Candidate(f"{RAW}# {number}"), profiled("scale")) for number in range(4)]
    notes = [one.profile.notes for one in told if one.profile is not None]
    assert notes == [("Noted.", "The driver keeps them.")] * IN_VAIN + [("Noted.",)] * 2
    assert [method for method, _ in supervisor.asked] == ["prepare", *["counters"] * IN_VAIN]
