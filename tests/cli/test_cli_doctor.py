"""The doctor tries what it reports."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from cli_cases import stark

from stark_lsp.cli import toolchain
from stark_lsp.cli.health import Health

NAMES = [
    "stark-lsp",
    "interpreter",
    "torch",
    "Triton",
    "C++ compiler",
    "ninja",
    "GPU",
    "nvcc",
    "language model",
    "bubblewrap",
    "user namespaces",
    "Landlock",
    "state directory",
]


def test_a_machine_that_can_optimize_is_ready(tmp_path: Path) -> None:
    done = stark("doctor", "--json", "--python", sys.executable, state=tmp_path / "state")
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert report["ready"]["cpu"] is True
    assert [check["name"] for check in report["checks"]] == NAMES
    compiler = report["checks"][NAMES.index("C++ compiler")]
    assert compiler["health"] == "good"
    assert "OpenMP" in compiler["detail"]
    for check in report["checks"]:
        assert check["health"] in {"good", "absent", "broken"}
        assert check["detail"]


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    secret = "sk-ant-very-secret"
    done = stark("doctor", "--python", sys.executable, state=tmp_path, env={"ANTHROPIC_API_KEY": secret})
    assert "by ANTHROPIC_API_KEY" in done.stdout
    assert secret not in done.stdout + done.stderr


def test_a_compiler_without_openmp_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "cxx"
    fake.write_text("#!/bin/sh\necho 'openmp.cpp:2:10: fatal error: omp.h: No such file or directory'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    check = toolchain.compiler()
    assert check.health is Health.BROKEN
    assert "omp.h" in check.detail
    assert check.cure


def test_a_state_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    done = stark("doctor", "--python", sys.executable, state=blocker / "state")
    assert done.returncode == 1
    assert os.fspath(blocker / "state") in done.stdout
    assert "STARK_STATE_DIR" in done.stdout
