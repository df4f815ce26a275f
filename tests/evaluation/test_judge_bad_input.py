"""What a user's file, interpreter or machine can lack: each is named, with its place and its cure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from judge_cases import QUICK, RAW, REFERENCE, candidate_with, make_problem, prepare, preparing

from stark_lsp.contract.errors import Bad
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.problem import InputSpec, Problem
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, InputSource, IsolationLayer
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.wire import to_wire
from stark_lsp.judge.reference.reference import Reference
from stark_lsp.judge.sandbox import landlock


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


BLAMED = [
    ("return torch.relu(", "return torch.nothing(", "forward pass of Model raised", "torch.nothing"),
    ("return [torch.randn(64, 128)]", "return [torch.randn(-1)]", "get_inputs() raised", "torch.randn(-1)"),
    ("return [128]", "raise KeyError('n')", "get_init_inputs() raised", "raise KeyError"),
    ("return [128]", "return [128, 2]", "cannot be constructed", "class Model"),
    ("import torch.nn as nn", "import torch.nn as nn\nimport no_such_module", "import failed", "no_such_module"),
    ("return torch.relu(", "return torch.randn(64, 128) * (", "different results", "class Model"),
    ("return torch.relu(", "return str(", "returned no tensor", "class Model"),
    ("return [torch.randn(64, 128)]", "return [object()]", "handed to a candidate", "class Model"),
]
"""What a user's file may do wrong: the text that stands for another, what is said of it, and at which line."""


@pytest.mark.parametrize(("old", "new", "words", "at"), BLAMED[:1])
async def test_the_users_code_is_blamed_at_its_line(tmp_path: Path, old: str, new: str, words: str, at: str) -> None:
    text = REFERENCE.replace(old, new)
    with pytest.raises(BadInput) as caught:
        await prepare(make_problem(tmp_path / "model.py", text), tmp_path)
    assert words in caught.value.message
    assert caught.value.path == str(tmp_path / "model.py")
    assert caught.value.line == line_of(text, at)
    assert caught.value.cure


def loaded(problem: Problem, folder: Path) -> Reference:
    """Do in this process what a worker does with the user's file before anything is timed."""
    return Reference(to_wire(problem), QUICK.seeds, str(folder), lambda text: None)


@pytest.mark.parametrize(("old", "new", "words", "at"), BLAMED)
def test_whatever_it_does_wrong(tmp_path: Path, old: str, new: str, words: str, at: str) -> None:
    """The same without processes of their own, for everything that can be wrong."""
    text = REFERENCE.replace(old, new)
    with pytest.raises(Bad) as caught:
        loaded(make_problem(tmp_path / "model.py", text), tmp_path)
    assert words in caught.value.message
    assert caught.value.path == str(tmp_path / "model.py")
    assert caught.value.line == line_of(text, at)
    assert caught.value.cure


def test_a_class_that_is_gone_after_loading_is_named(tmp_path: Path) -> None:
    with pytest.raises(Bad, match="no class Model"):
        loaded(make_problem(tmp_path / "model.py", REFERENCE + "\ndel Model\n"), tmp_path)


@pytest.mark.slow
@pytest.mark.ci
async def test_a_forward_pass_without_end_is_stopped(tmp_path: Path) -> None:
    text = REFERENCE.replace("return torch.relu(", "while True:\n            pass\n        return (")
    settings = EvaluationSettings(load_timeout_s=0.5, compile_baseline=False)
    with pytest.raises(BadInput, match="took longer than") as caught:
        await prepare(make_problem(tmp_path / "model.py", text), tmp_path, settings=settings)
    assert "--set load_timeout_s=2.5, or stark.evaluation in an editor" in caught.value.cure


async def test_a_reference_that_ends_the_process_is_named_with_what_ended_it(tmp_path: Path) -> None:
    text = REFERENCE.replace("return torch.relu(", "import os; os.abort()\n        return (")
    with pytest.raises(BadInput, match=r"Model took its process down.*SIGABRT.*Running the reference") as caught:
        await prepare(make_problem(tmp_path / "model.py", text), tmp_path)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "model.py"), line_of(text, "class Model"))


def test_device_cuda_without_a_gpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Bad, match="sees no GPU") as caught:
        loaded(make_problem(tmp_path / "model.py", device=DeviceChoice.CUDA), tmp_path)
    assert "cpu" in caught.value.cure


async def test_an_interpreter_without_torch_is_named(tmp_path: Path) -> None:
    environment = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    interpreter = str(environment / "bin" / "python")
    with pytest.raises(BadInput, match="There is no torch") as caught:
        await prepare(make_problem(tmp_path / "model.py"), tmp_path, interpreter=interpreter)
    assert interpreter in caught.value.message


async def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be run"):
        await prepare(make_problem(tmp_path / "model.py"), tmp_path, interpreter=str(tmp_path / "python"))


async def test_a_program_that_is_no_python_is_a_fault_with_its_name(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho not a python >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(Fault, match="exit code 3") as caught:
        await prepare(make_problem(tmp_path / "model.py"), tmp_path, interpreter=str(program))
    assert "not a python" in caught.value.message


@pytest.mark.slow
async def test_a_missing_compiler_is_a_fault_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    async with preparing(make_problem(tmp_path / "model.py"), tmp_path) as (judge, reference):
        assert reference.environment.compiler is None
        with pytest.raises(Fault) as caught:
            await judge.evaluate(Candidate(RAW))
        assert "compiler" in caught.value.message
        assert "apt install g++" in caught.value.cure
        torch_only = candidate_with("return torch.relu(x * self.weight + 1.0)")
        assert (await judge.evaluate(Candidate(torch_only))).status is Status.OK


def test_a_table_gives_inputs_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    text = REFERENCE[: REFERENCE.index("def get_inputs")]
    table = {"init_args": [8], "args": [{"shape": [2, 8], "dtype": "float32", "kind": "rand"}]}
    spec = InputSpec(InputSource.TABLE, table=table, table_path=str(tmp_path / "stark.toml"))
    reference = loaded(make_problem(tmp_path / "model.py", text, inputs=spec), tmp_path)
    assert [tuple(tensor.shape) for tensor in reference.cases[0].forms] == [(2, 8)]
    wrong = InputSpec(
        InputSource.TABLE,
        table={"init_args": [8], "args": [{"shape": [2, 8], "dtype": "float31"}]},
        table_path=str(tmp_path / "stark.toml"),
    )
    with pytest.raises(Bad, match="float31") as caught:
        loaded(make_problem(tmp_path / "model.py", text, inputs=wrong), tmp_path)
    assert caught.value.path == str(tmp_path / "stark.toml")


@pytest.mark.parametrize(
    "layer", [pytest.param(IsolationLayer.BUBBLEWRAP, marks=pytest.mark.ci), IsolationLayer.LANDLOCK]
)
@pytest.mark.slow
async def test_a_module_in_a_package_uses_its_relative_imports_and_trees_as_inputs(
    tmp_path: Path, layer: IsolationLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layer is IsolationLayer.LANDLOCK:
        if landlock.abi() < landlock.NEEDED_ABI:
            pytest.skip("the kernel offers no Landlock")
        broken = tmp_path / "programs" / "bwrap"
        broken.parent.mkdir()
        broken.write_text("#!/bin/sh\nexit 1\n")
        broken.chmod(0o755)
        monkeypatch.setenv("PATH", f"{broken.parent}{os.pathsep}{os.environ['PATH']}")
    elif shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    package = tmp_path / "project" / "layers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "plain").mkdir()
    (package / "plain" / "scale.py").write_text("SCALE = 2.0\n")
    text = """from dataclasses import dataclass

import torch
from torch import nn

from .plain.scale import SCALE


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Block(nn.Module):
    def forward(self, pair, *, extra, names):
        total = (pair.left + pair.right) * SCALE + extra["shift"]
        return {"total": total, "pair": Pair(total, -total), "name": names[0]}


def get_inputs():
    pair = Pair(torch.randn(4, 8), torch.randn(8, 4).t())
    return {"pair": pair, "extra": {"shift": torch.randn(8)}, "names": ("a", "b")}
"""
    problem = make_problem(package / "block.py", text, qualname="Block")
    async with preparing(problem, tmp_path, settings=QUICK) as (judge, reference):
        assert reference.outputs == ("float32[4x8]",) * 3
        verdict = await judge.evaluate(Candidate(text.replace("class Block", "class BlockNew"), class_name="BlockNew"))
        assert verdict.status is Status.OK, verdict
        assert verdict.environment.isolation == layer, verdict.environment
        wrong = text.replace("class Block", "class BlockNew").replace("Pair(total, -total)", "Pair(total, total)")
        verdict = await judge.evaluate(Candidate(wrong, class_name="BlockNew"))
        assert verdict.status is Status.WRONG_RESULT
        assert ".right" in verdict.message
