"""The extension, packed once for all tests of a session."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "vscode-client"
REPOSITORY = "https://forge.example/stark"


def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the .vsix; what packs it makes npm's folder anew, so it waits for another worker that does the same."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    file = shared / "packed" / "stark-lsp.vsix"
    file.parent.mkdir(exist_ok=True)
    with (file.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            pack = [sys.executable, CLIENT / "pack.py", "--file", file, "--repository", REPOSITORY]
            done = subprocess.run(pack, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return file
