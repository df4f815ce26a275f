"""The test that is written for an accepted class: it passes where the class is right, and fails where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
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
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--rootdir", str(folder), "."],
        cwd=folder, capture_output=True, text=True, check=False,
        # The plugins of our own tests take longer to import than the test to run.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip


def project(folder: Path, text: str = DOCUMENT, name: str = "nets.py") -> Path:
    (folder / "src" / "pkg").mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    (folder / "src" / "pkg" / "__init__.py").touch()
    path = folder / "src" / "pkg" / name
    path.write_text(text)
    return path


@pytest.mark.slow
@pytest.mark.ci
def test_the_test_passes_in_a_project_with_packages_and_fails_where_results_or_gradients_differ(tmp_path: Path) -> None:
    wrong = DOCUMENT.replace("self.linear.bias) * self.scale", "self.linear.bias).detach() * self.scale * 1.001")
    assert wrong != DOCUMENT
    path, other = project(tmp_path), project(tmp_path, wrong, "wrong_nets.py")
    (tmp_path / "tests").mkdir()
    functions = next(c for c in find_modules(DOCUMENT) if c.qualname == "Model").inputs
    made = []
    halves = {**TABLE.table["kwargs"], "x": {**TABLE.table["kwargs"]["x"], "dtype": "bfloat16"}}
    converted = replace(TABLE, table={**TABLE.table, "kwargs": halves})
    for where, spec, mode, weights, autocast, name in (
        (path, functions, ".eval()", "", "", "test_model_new_stark.py"),
        (path, TABLE, ".eval()", "", "", "test_model_new_stark2.py"),
        (path, converted, ".eval()", "bfloat16", "", "test_model_new_stark3.py"),
        (path, functions, ".eval()", "", "bfloat16", "test_model_new_stark4.py"),
        (other, functions, "", "", "", "test_model_new_stark5.py"),
    ):
        how = {"mode": mode, "weights_dtype": weights, "autocast": autocast}
        test = kernel_test(where, "Model", "ModelNew", spec, device="cpu", **how)
        assert test.path == tmp_path / "tests" / name
        test.path.write_text(test.text)
        made.append(name)
    done = run(tmp_path)
    assert done.returncode == 1
    for name in made[:4]:
        assert done.stdout.count(f"PASSED tests/{name}::") == 4, done.stdout
        assert f"FAILED tests/{name}" not in done.stdout
    assert done.stdout.count(f"FAILED tests/{made[4]}::") in (3, 4), done.stdout
    assert f"PASSED tests/{made[4]}" not in done.stdout


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
