"""One prepared judge on the CPU, and a candidate for each way to end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from judge_cases import (
    HONEST,
    LAUNCH,
    REFERENCE,
    THOROUGH,
    broken_kernel,
    candidate_with,
    judging,
    make_problem,
)

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Reference, Stage, Verdict
from stark_lsp.evaluation.judge import WorkerJudge

pytestmark = pytest.mark.asyncio(loop_scope="module")


CHATTY = "import os\nprint('from python')\nos.write(1, b'from fd 1\\n')\n" + REFERENCE


@dataclass(frozen=True)
class Prepared:
    """The judge, what it found when it was prepared, what was logged, and its folder."""

    judge: WorkerJudge
    reference: Reference
    log: list[str]
    folder: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prepared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prepared]:
    folder = tmp_path_factory.mktemp("judge")
    os.environ["ANTHROPIC_API_KEY"] = "not-for-candidates"
    try:
        async with judging(make_problem(folder / "model.py", CHATTY), folder, settings=THOROUGH) as (judge, log):
            yield Prepared(judge, await judge.prepare(lambda text: None), log, folder)
    finally:
        del os.environ["ANTHROPIC_API_KEY"]


@pytest.fixture
def judge(prepared: Prepared) -> WorkerJudge:
    return prepared.judge


async def verdict_of(judge: WorkerJudge, source: str) -> Verdict:
    return await judge.evaluate(Candidate(source))


async def test_what_users_code_prints_is_logged_and_harms_nothing(prepared: Prepared) -> None:
    assert "from python" in prepared.log
    assert "from fd 1" in prepared.log
    assert os.listdir(prepared.folder) == ["cache"]


async def test_preparing_tells_device_shapes_and_the_eager_time(prepared: Prepared) -> None:
    reference = prepared.reference
    assert reference.environment.device_type == "cpu"
    assert reference.environment.shapes == ("64x128",)
    assert reference.environment.dtypes == ("float32",)
    assert reference.outputs == ("float32[64x128]",)
    assert reference.baselines.eager.n == THOROUGH.rounds
    assert reference.baselines.compile is None
    assert reference.baselines.compile_message == "Switched off."


async def test_an_equal_class_is_ok_and_timed(judge: WorkerJudge) -> None:
    verdict = await verdict_of(judge, REFERENCE.replace("class Model", "class ModelNew"))
    assert (verdict.status, verdict.failed_in) == (Status.OK, None), verdict
    assert verdict.errors is not None
    assert verdict.errors.max_abs == 0.0
    assert verdict.errors.float64_max_rel is not None
    assert verdict.runtime is not None
    assert verdict.runtime.low_ms <= verdict.runtime.median_ms <= verdict.runtime.high_ms
    assert verdict.speedup_vs_eager is not None
    assert verdict.speedup_vs_compile is None
    assert verdict.weights_loaded
    assert {"start", "load", "verify", "time", "build"} <= {name for name, _ in verdict.stages_s}


# In every run of the tests it is found without processes, see tests/judge/test_worker_stale_weights.py.
@pytest.mark.slow
async def test_a_candidate_that_keeps_its_first_weights_is_wrong(judge: WorkerJudge) -> None:
    source = REFERENCE.replace("class Model", "class ModelNew").replace(
        "x * self.weight", "x * (self.first + self.weight - self.weight.detach())"
    )
    source = source.replace("torch.randn(n))\n", "torch.randn(n))\n        self.first = self.weight.detach().clone()\n")
    verdict = await verdict_of(judge, source)
    assert verdict.status is Status.WRONG_RESULT, verdict
    assert "other weights" in verdict.message


async def test_a_kernel_that_does_not_compile_names_the_line_of_the_compiler(judge: WorkerJudge) -> None:
    verdict = await verdict_of(judge, broken_kernel("float v =", "flot v ="))
    assert (verdict.status, verdict.failed_in) == (Status.COMPILE_ERROR, Stage.BUILD)
    assert verdict.compiler
    assert verdict.compiler[0].line > 0
    assert "flot" in verdict.compiler[0].text
    assert "flot" in verdict.message
    assert verdict.runtime is None


@pytest.mark.slow
async def test_a_wrong_constant_is_a_wrong_result_with_its_place(judge: WorkerJudge) -> None:
    verdict = await verdict_of(judge, candidate_with("return torch.relu(x * self.weight + 1.1)"))
    assert verdict.status is Status.WRONG_RESULT
    assert verdict.errors is not None
    assert verdict.errors.max_rel > verdict.errors.tolerance
    assert "off by" in verdict.message


async def test_one_wrong_element_is_found_also_in_a_special_input_alone(judge: WorkerJudge) -> None:
    body = "y = torch.relu(x * self.weight + 1.0)\nif x.shape[0] != 64: y[7, 11] += 0.5\nreturn y"
    verdict = await verdict_of(judge, candidate_with(body))
    assert verdict.status is Status.WRONG_RESULT
    assert "(7, 11)" in verdict.message
    assert "a batch of 15 instead of 64" in verdict.message


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param("return torch.relu(x * self.weight + 1.0)[:1]", Status.WRONG_SHAPE, marks=pytest.mark.slow),
        pytest.param("return object()", Status.WRONG_SHAPE, marks=pytest.mark.slow),
        pytest.param("return torch.relu(x * self.weight + 1.0).double()", Status.WRONG_DTYPE, marks=pytest.mark.slow),
        pytest.param("return torch.log(x * self.weight - 1e6)", Status.NOT_FINITE, marks=pytest.mark.slow),
        pytest.param("return x.mul_(self.weight).add_(1.0).relu_()", Status.MUTATED_INPUT, marks=pytest.mark.slow),
        ("return torch.empty(1 << 60)", Status.OUT_OF_MEMORY),
        ("import os\nos._exit(0)", Status.REFUSED),
        pytest.param("raise SystemExit(0)", Status.RUNTIME_ERROR, marks=pytest.mark.slow),
    ],
)
async def test_each_failure_has_its_status(judge: WorkerJudge, body: str, status: Status) -> None:
    verdict = await verdict_of(judge, candidate_with(body))
    assert verdict.status is status, verdict
    assert verdict.failed_in is (Stage.CHECK if status is Status.REFUSED else Stage.VERIFY)
    assert verdict.message


async def test_a_kernel_that_writes_outside_of_its_memory_crashes_alone(judge: WorkerJudge) -> None:
    verdict = await verdict_of(judge, broken_kernel("float v =", "*(volatile float*)8 = 1.0f; float v ="))
    assert (verdict.status, verdict.failed_in) == (Status.CRASHED, Stage.VERIFY), verdict
    assert "outside its memory" in verdict.message


async def test_different_results_for_equal_inputs_are_nondeterministic(judge: WorkerJudge) -> None:
    source = broken_kernel(
        "for (int64_t r = 0;", "static float offset = -1.0f; offset += 1.0f;\n    for (int64_t r = 0;"
    )
    verdict = await verdict_of(judge, source.replace("* w[i] + 1.0f", "* w[i] + 1.0f + offset"))
    assert verdict.status is Status.NONDETERMINISTIC


async def test_a_raised_error_names_the_line_of_the_candidate_and_a_long_log_keeps_head_and_tail(
    judge: WorkerJudge,
) -> None:
    source = candidate_with("print('first line')\nprint('x' * 1000000)\nprint('the end')\nreturn x.nothing()")
    verdict = await verdict_of(judge, source)
    assert verdict.status is Status.RUNTIME_ERROR
    assert verdict.line is not None
    assert "x.nothing()" in source.splitlines()[verdict.line - 1]
    assert "AttributeError" in verdict.message
    assert len(verdict.log) <= THOROUGH.log_limit + 100
    assert "first line" in verdict.log
    assert "the end" in verdict.log


@pytest.mark.parametrize(
    "source",
    [
        "def (",
        "raise ValueError('no')\n" + candidate_with(HONEST),
        pytest.param("import triton.nothing_here\n" + candidate_with(HONEST), marks=pytest.mark.slow),
    ],
)
async def test_a_file_that_does_not_load_is_a_load_error(judge: WorkerJudge, source: str) -> None:
    verdict = await verdict_of(judge, source)
    assert (verdict.status, verdict.failed_in) == (Status.LOAD_ERROR, Stage.LOAD)
    assert verdict.line == 1
    if source == "def (":
        assert "candidate.py" not in verdict.message, "that is our copy"
        assert "Traceback" not in verdict.log


async def test_a_file_without_the_class_is_refused(judge: WorkerJudge) -> None:
    verdict = await verdict_of(judge, REFERENCE)
    assert verdict.status is Status.REFUSED
    assert "ModelNew" in verdict.message


@pytest.mark.slow
async def test_other_weight_names_match_only_when_built_anew(judge: WorkerJudge) -> None:
    verdict = await verdict_of(judge, candidate_with(HONEST).replace("self.weight", "self.other"))
    assert verdict.status is Status.OK, verdict
    assert not verdict.weights_loaded
    assert "weight" in verdict.message


async def test_weights_that_do_not_load_and_results_that_differ_are_a_load_error(judge: WorkerJudge) -> None:
    source = candidate_with(HONEST).replace("self.weight", "self.other").replace("torch.randn", "torch.rand")
    verdict = await verdict_of(judge, source)
    assert verdict.status is Status.LOAD_ERROR
    assert "weight" in verdict.message


async def test_after_all_that_a_good_kernel_is_ok_sees_no_key_is_captured_and_is_built_anew_as_a_finalist(
    prepared: Prepared,
) -> None:
    def built() -> set[Path]:
        return set(prepared.folder.glob("cache/libraries/*/fused.so"))

    judge, before = prepared.judge, built()
    source = broken_kernel("float v =", 'if (r + i == 0) puts("hello from C"); float v =')
    source = source.replace("#include <cstdint>", "#include <cstdint>\n#include <cstdio>")
    seen = (
        "import os\n        assert 'ANTHROPIC_API_KEY' not in os.environ\n        print('hello from python')\n        "
    )
    source = source.replace(f"        {LAUNCH}", f"        {seen}{LAUNCH}")
    assert "hello from python" in source
    verdict = await verdict_of(judge, source)
    assert verdict.status is Status.OK, verdict
    assert "hello from python" in verdict.log
    assert "hello from C" in verdict.log
    assert len(built() - before) == 1
    again = await judge.confirm(Candidate(source))
    assert again.status is Status.OK, again
    assert again.runtime is not None
    assert again.runtime.n == THOROUGH.final_rounds
    assert len(built() - before) == 2, "as torch does it by itself"
