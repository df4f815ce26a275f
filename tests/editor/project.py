"""What the editor tests share: a small project, the blocks of docs/editors.md, and a way to run an editor."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "editors.md"
FLOW_S = 280.0
"""An editor that has not gone through the flow by then is stopped."""

MODULE = '''\
"""A module whose operators are worth fusing."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = 0.7978 * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(y))


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return []
'''

FEW = {
    "attempts": 2,
    "device": "cpu",
    "compileBaseline": False,
    "timingRounds": 5,
    "finalTimingRounds": 15,
    "evaluation": {"seeds": 2, "warmup": 1, "profile": False},
}
"""Settings for a short run; of 15 rounds three may be disturbed on either side, of five none."""


EDITORS = ROOT / "editors"
"""What users put into their editors."""
NEOVIM = f'package.path = "{EDITORS}/nvim/?.lua;" .. package.path\n'
EMACS = f'(add-to-list (quote load-path) "{EDITORS}/emacs")\n'
"""How the editors find it."""


def block(label: str) -> str:
    """Return a fenced block of docs/editors.md by the label after its language."""
    found = re.search(rf"^```\w+ {re.escape(label)}\n(.*?)^```$", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"docs/editors.md has no block labelled {label}"
    return found.group(1)


def with_settings(text: str, example: str, replacement: str) -> str:
    """Return a block of the docs with the settings of its example replaced by those of a short run."""
    assert example in text, f"the block no longer has the settings {example!r}"
    return text.replace(example, replacement)


@dataclass(frozen=True)
class Project:
    """A folder with one module, and an environment in which `stark-lsp` is on the PATH."""

    folder: Path
    module: Path
    environment: dict[str, str]
    result: Path
    """Where the editor's script writes what it saw, as JSON."""


def make_project(folder: Path) -> Project:
    """Make the project; skip the test if `stark-lsp` is not installed beside this interpreter."""
    programs = Path(sys.executable).parent
    if shutil.which("stark-lsp", path=str(programs)) is None:
        pytest.skip(f"stark-lsp is not installed in {programs}")
    home = folder / "home"
    work = folder / "work"
    for path in (home, work):
        path.mkdir()
    module = work / "gelu.py"
    module.write_text(MODULE)
    result = folder / "result.json"
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "NVIM", "EMACS", "ANTHROPIC_", "OPENAI_"))},
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
        "STARK_STATE_DIR": str(folder / "state"),
        "STARK_FLOW_RESULT": str(result),
        "TERM": "dumb",
    }
    return Project(work, module, environment, result)


def run_editor(command: list[str], project: Project) -> dict[str, Any]:
    """Run an editor to its end and return what its script wrote; fails with the editor's output if there is nothing."""
    process = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=FLOW_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"the editor did not end within {FLOW_S:g} s:\n{output[-6000:]}")
    finally:
        # Also when the test itself is interrupted: no editor stays behind.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    if not project.result.exists():
        pytest.fail(f"the editor ended with code {process.returncode} and wrote no result:\n{output[-6000:]}")
    seen: dict[str, Any] = json.loads(project.result.read_text())
    assert "error" not in seen, f"{seen['error']}\n{output[-6000:]}"
    return seen
