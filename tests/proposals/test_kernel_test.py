"""The test that is written for an accepted class: it passes where the class is right, and fails where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import InputSpec
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.classes import find_modules
from stark_lsp.proposals.kernel_test import kernel_test

pytest.importorskip("torch")

DOCUMENT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, scale=1.0):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.scale = scale

    def forward(self, x, mask=None):
        y = self.linear(x) * self.scale
        return {"y": y, "more": (y.sum(), mask)} if mask is not None else y


class ModelNew(Model):
    def forward(self, x, mask=None):
        y = torch.nn.functional.linear(x, self.linear.weight, self.linear.bias) * self.scale
        return {"y": y, "more": (y.sum(), mask)} if mask is not None else y


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return [8]
"""
TABLE = InputSpec(
    InputSource.TABLE,
    table={
        "init_kwargs": {"n": 8, "scale": 0.5},
        "kwargs": {
            "x": {"shape": [4, 8], "kind": "rand", "low": -1.0},
            "mask": {"shape": [4], "dtype": "bool", "kind": "ones"},
        },
    },
)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "."],
        cwd=folder, capture_output=True, text=True, check=False,
        # The plugins of our own tests take longer to import than the test to run.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip


def project(folder: Path, text: str = DOCUMENT) -> Path:
    (folder / "src" / "pkg").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    (folder / "src" / "pkg" / "__init__.py").touch()
    path = folder / "src" / "pkg" / "nets.py"
    path.write_text(text)
    return path


def test_the_test_passes_in_a_project_with_packages(tmp_path: Path) -> None:
    path = project(tmp_path)
    (tmp_path / "tests").mkdir()
    functions = next(c for c in find_modules(DOCUMENT) if c.qualname == "Model").inputs
    for spec, name in ((functions, "test_model_new_stark.py"), (TABLE, "test_model_new_stark2.py")):
        made = kernel_test(path, "Model", "ModelNew", spec, device="cpu")
        assert made.path == tmp_path / "tests" / name
        made.path.write_text(made.text)
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_the_test_fails_where_results_or_gradients_differ(tmp_path: Path) -> None:
    text = DOCUMENT.replace("self.linear.bias) * self.scale", "self.linear.bias).detach() * self.scale * 1.001")
    path = project(tmp_path, text)
    spec = next(c for c in find_modules(text) if c.qualname == "Model").inputs
    made = kernel_test(path, "Model", "ModelNew", spec, device="cpu", mode="")
    made.path.parent.mkdir()
    made.path.write_text(made.text)
    done = run(tmp_path)
    assert done.returncode == 1
    assert "3 failed, 1 skipped" in done.stdout or "4 failed" in done.stdout


def test_it_stands_where_the_project_has_its_tests_and_overwrites_nothing(tmp_path: Path) -> None:
    spec = InputSpec(InputSource.FUNCTIONS, "get_inputs")
    alone = tmp_path / "script.py"
    assert kernel_test(alone, "Model", "ModelNew", spec, device="cpu").path.parent == tmp_path / "tests"
    (tmp_path / "test_other.py").touch()
    made = kernel_test(alone, "Outer.Block", "Outer.BlockNew", spec, device="cuda")
    assert made.path == tmp_path / "test_outer_block_new_stark.py"
    assert "needs a GPU" in made.text
    made.path.touch()
    again = kernel_test(alone, "Outer.Block", "Outer.BlockNew", spec, device="cuda").path
    assert again == tmp_path / "test_outer_block_new_stark2.py"
    with pytest.raises(BadInput, match="no inputs"):
        kernel_test(alone, "Model", "ModelNew", InputSpec(), device="cpu")
