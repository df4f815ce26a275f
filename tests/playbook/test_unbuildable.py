"""A kernel that cannot be built: PyTorch and one warning where users run it, an error where it is judged."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.evaluation.judge import open_judge

from .conftest import Bench
from .playbook_cases import BY_NAME, text_of

TEXT = text_of(BY_NAME["tanh_gelu"])
QUICK = EvaluationSettings(seeds=2, warmup=1, rounds=4, round_ms=2.0, compile_baseline=False, profile=False)

MANY_CALLS = """
import sys, threading, warnings
sys.path.insert(0, {folder!r})
import torch
import {module} as module

warnings.simplefilter("always")
model, x = module.ModelNew(), torch.randn(8, 64)
results = []
with warnings.catch_warnings(record=True) as told:
    threads = [threading.Thread(target=lambda: results.append(model(x))) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    model(x)
expected = module._fused_gelu_pytorch(x)
assert len(results) == 8 and all(torch.equal(result, expected) for result in results), len(results)
told = [str(one.message) for one in told if "PyTorch" in str(one.message)]
print(len(told), *told)
"""


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        pytest.param("", "Ninja is required", id="no ninja", marks=[pytest.mark.slow, pytest.mark.ci]),
        pytest.param("{ninja}", "c++: not found", id="no compiler"),
    ],
)
def test_where_it_cannot_be_built_there_is_one_warning_and_pytorch(
    path: str, cause: str, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    (tmp_path / "accepted.py").write_text(bench(TEXT).attempt().candidate.source)
    import ninja

    environment = {
        "PATH": path.format(ninja=ninja.BIN_DIR),
        "HOME": str(tmp_path),
        "TORCH_EXTENSIONS_DIR": str(tmp_path / "built"),
    }
    done = subprocess.run(
        [sys.executable, "-c", MANY_CALLS.format(folder=str(tmp_path), module="accepted")],
        capture_output=True, text=True, env=environment, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, text = done.stdout.split(maxsplit=1)
    assert count == "1"
    assert cause in text
    assert "g++ and ninja" in text


def test_errors_of_a_call_still_come_out(bench: Callable[..., Bench]) -> None:
    one = bench(TEXT)
    candidate = one.attempt().candidate
    new = one.build(candidate)
    new(*one.inputs)
    module = sys.modules[type(new).__module__]
    for kernels in vars(module)["_stark_libraries"].values():
        kernels.clear()
        kernels["another"] = None
    with pytest.raises(KeyError):
        new(*one.inputs)


@pytest.mark.slow
def test_the_judge_never_takes_pytorch_for_a_kernel_that_does_not_build(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    one = bench(TEXT)
    good = one.attempt().candidate.source
    broken = good.replace("out[j] = ", "flot out[j] = ")
    missing = good.replace(
        "static inline float _stark_tanh(float x) {", 'extern "C" float _stark_tanh(float);float f(float x) {'
    )
    assert len({good, broken, missing}) == 3
    problem = replace(one.problem, path=str(one.path))

    async def judged() -> list[Verdict]:
        judge = await open_judge(
            problem, interpreter=sys.executable, settings=QUICK, cache_dir=tmp_path / "cache", log=lambda line: None
        )
        try:
            await judge.prepare(lambda text: None)
            return [await judge.evaluate(Candidate(source)) for source in (good, broken, missing)]
        finally:
            await judge.close()

    verdicts = asyncio.run(judged())
    assert verdicts[0].status is VerdictStatus.OK, verdicts[0]
    assert verdicts[1].status is VerdictStatus.COMPILE_ERROR, verdicts[1]
    assert "flot" in verdicts[1].message
    assert verdicts[2].status is VerdictStatus.RUNTIME_ERROR, verdicts[2]
