"""The doctor tries what it reports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_cases import bare_path, stark

from stark_lsp.cli.checks import toolchain
from stark_lsp.cli.checks.health import Health

SECRET = "sk-ant-very-secret"
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


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the doctor says of this machine."""
    state = tmp_path_factory.mktemp("ready") / "state"
    done = stark("doctor", "--json", "--python", sys.executable, state=state)
    assert done.returncode == 0
    return dict(json.loads(done.stdout))


def test_a_machine_that_can_optimize_is_ready(report: dict[str, Any]) -> None:
    assert report["ready"]["cpu"] is True
    assert [check["name"] for check in report["checks"]] == NAMES
    compiler = report["checks"][NAMES.index("C++ compiler")]
    assert compiler["health"] == "good"
    assert "OpenMP" in compiler["detail"]
    for check in report["checks"]:
        assert check["health"] in {"good", "absent", "broken"}
        assert check["detail"]


def test_it_names_the_layer_that_a_run_will_use(report: dict[str, Any]) -> None:
    checks = {check["name"]: check for check in report["checks"]}
    layer = report["isolation"]["layer"]
    if layer is None:
        assert checks["bubblewrap"]["health"] == "broken"
    else:
        assert checks["bubblewrap" if layer == "bubblewrap" else "Landlock"]["health"] == "good"


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What it says where there is no compiler and no state directory, and the state directory; a key is set."""
    folder = tmp_path_factory.mktemp("lacking")
    (folder / "file").write_text("")
    state = folder / "file" / "state"
    address = "http://user:word@host:8000/v1"
    keys = {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": address}
    env = {**keys, "PATH": bare_path(folder / "bare", "sh", "env", "true", "uname"), "CXX": ""}
    return stark("doctor", "--python", sys.executable, state=state, env=env), state


Lacking = tuple[subprocess.CompletedProcess[str], Path]


def test_the_key_is_never_shown(lacking: Lacking) -> None:
    done, _ = lacking
    assert "by ANTHROPIC_API_KEY" in done.stdout
    assert re.search(r"openai:NAME +at host:8000, by OPENAI_BASE_URL and OPENAI_API_KEY; a key is sent", done.stdout)
    assert SECRET not in done.stdout + done.stderr
    assert "word" not in done.stdout


def test_a_proxy_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    keys = {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET, "ALL_PROXY": "socks://user:word@127.0.0.1:1080/"}
    env = {**keys, "PATH": bare_path(tmp_path / "bare", "sh", "env", "true", "uname"), "CXX": ""}
    done = stark("doctor", "--python", sys.executable, state=tmp_path / "state", env=env)
    assert done.stdout.count("Check HTTP(S)_PROXY") == 2
    assert "word" not in done.stdout + done.stderr


def test_a_state_directory_that_cannot_be_used_is_told(lacking: Lacking) -> None:
    done, state = lacking
    assert done.returncode == 1
    assert os.fspath(state) in done.stdout
    assert "STARK_STATE_DIR" in done.stdout


def test_without_a_compiler_it_says_how_to_get_one(lacking: Lacking) -> None:
    done, _ = lacking
    assert done.returncode == 1
    assert "c++ was not found" in done.stdout
    assert "apt install g++" in done.stdout


def test_a_compiler_without_openmp_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "cxx"
    fake.write_text("#!/bin/sh\necho 'openmp.cpp:2:10: fatal error: omp.h: No such file or directory'\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    check = toolchain.compiler()
    assert check.health is Health.BROKEN
    assert "omp.h" in check.detail
    assert check.cure
