"""The examples that models are shown keep to the rules they stand next to."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.discovery.problems import make_problem
from stark_lsp.integrity import read

GPU = (pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"))
NAMES = ("raw", "inline", "triton", "cpu")


def pair(name: str) -> tuple[str, str]:
    library = PromptLibrary()
    return library.text(f"examples/{name}/reference.py"), library.text(f"examples/{name}/candidate.py")


@pytest.mark.parametrize("name", NAMES)
def test_the_static_check_has_nothing_to_say(name: str) -> None:
    reference, candidate = pair(name)
    reading = read(candidate, "ModelNew", reference, "Model")
    assert reading.refusals == ()
    assert reading.notes == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_is_a_problem_and_a_candidate_keeps_its_constructor(name: str) -> None:
    reference, candidate = pair(name)
    assert make_problem(f"/project/{name}.py", reference, None).qualname == "Model"
    constructor = re.compile(r"    def __init__.*?(?=\n    def )", re.DOTALL)
    first, second = constructor.search(reference), constructor.search(candidate)
    assert first is not None
    assert second is not None
    assert first[0] == second[0]


@pytest.mark.parametrize("name", ["raw", "inline", "triton"])
def test_what_stands_around_a_kernel_differentiates_without_a_gpu(name: str, tmp_path: Path) -> None:
    if name == "triton":
        pytest.importorskip("triton")
    file = tmp_path / "candidate.py"
    text = pair(name)[1].replace("t.is_cuda and t.dtype is torch.float32", "True")
    file.write_text(text.replace("y = _forward(", "y = _pytorch("), encoding="utf-8")
    model = runpy.run_path(str(file))["ModelNew"](6).double()
    x, residual = (torch.randn(4, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert type(model(x, residual).grad_fn).__module__.startswith("torch.autograd.function")
    assert torch.autograd.gradcheck(model, (x, residual))
    assert torch.autograd.gradgradcheck(model, (x, residual))
    weights = torch.autograd.grad(model(x.detach(), residual.detach()).sum(), list(model.parameters()))
    form = residual + model.gain * torch.tanh(model.dense(x))
    for found, expected in zip(weights, torch.autograd.grad(form.sum(), list(model.parameters())), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_raw_kernel_compiles(tmp_path: Path) -> None:
    found = re.search(r'_CUDA = r"""\n(.*?)"""', pair("raw")[1], re.DOTALL)
    assert found is not None
    source = tmp_path / "kernel.cu"
    source.write_text(found[1], encoding="utf-8")
    command = ["nvcc", "--shared", "-Xcompiler", "-fPIC", "-Werror", "all-warnings", str(source), "-o", "kernel.so"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu", *(pytest.param(name, marks=GPU) for name in ("raw", "inline", "triton"))])
def test_the_judge_verifies_an_example(name: str, tmp_path: Path) -> None:
    for file, text in zip(("reference.py", "candidate.py"), pair(name), strict=True):
        (tmp_path / file).write_text(text, encoding="utf-8")
    device = "cpu" if name == "cpu" else "cuda"
    command = [sys.executable, "-m", "stark_lsp", "judge", "reference.py", "candidate.py", "--baselines", "eager"]
    command += ["--device", device, "--python", sys.executable, "--json", "verdict.json", "--set", "timing_s=0.5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "verdict.json").read_text(encoding="utf-8"))["status"] == "OK"


@pytest.mark.parametrize("name", ["cpu", *(pytest.param(name, marks=GPU) for name in ("raw", "inline", "triton"))])
def test_an_example_is_fast_with_gradients_and_has_those_of_the_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    device = "cpu" if name == "cpu" else "cuda"
    slopes = []
    for text, wanted in zip(pair(name), ("Model", "ModelNew"), strict=True):
        file = tmp_path / f"{wanted}.py"  # Triton reads its kernels' text from a file
        file.write_text(text, encoding="utf-8")
        space = runpy.run_path(str(file))
        if wanted == "Model":
            torch.manual_seed(1)
            init, inputs = space["get_init_inputs"](), [x.to(device) for x in space["get_inputs"]()]
        model = space[wanted](*init).to(device)
        if wanted == "Model":
            weights = model.state_dict()
        model.load_state_dict(weights)
        leaves = [x.clone().requires_grad_() for x in inputs]
        y = model(*leaves)
        if wanted == "ModelNew":
            assert "Backward" in type(y.grad_fn).__name__
            assert type(y.grad_fn).__module__.startswith("torch.autograd.function"), "the kernel is not what ran"
        slopes.append(torch.autograd.grad(y.square().mean(), [*leaves, *model.parameters()]))
    for expected, found in zip(*slopes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
