"""What Inductor of the torch that is installed writes for a GPU is read, and computes what the module does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent.parent
NAMES = (
    "convolution",
    "convolution_direct",
    "convolution_transposed_volume",
    "cross_entropy",
)


def ran(module: str, *given: str, **environment: str) -> str:
    """Run a module of the tests in a process of its own; returns what it prints."""
    command = [sys.executable, "-m", f"tests.playbook.{module}", *given]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.ci
def test_what_this_torch_writes_for_an_h100_computes_what_the_module_does(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11):
        pytest.skip("older ones are told of a GPU in other ways")
    ran("pretended", str(tmp_path), *NAMES)
    found = ran("interpreted", *(str(tmp_path / name) for name in NAMES), TRITON_INTERPRET="1")
    differences = json.loads(found.splitlines()[-1])
    assert len(differences) == len(NAMES)
    assert set(differences.values()) == {""}, differences
