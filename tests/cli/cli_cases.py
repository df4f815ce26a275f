"""Small modules to optimize, and a way to run the program as a user does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stark_lsp.cli import main

CHAIN = '''"""A chain of pointwise operations: one fused kernel instead of six."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """A gate with a polynomial."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.scale * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return [0.79788456]
'''
"""Large enough that a fused kernel wins by far on any machine: eager passes over 1 MiB nine times."""

LINEAR = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.randn(4, 16)]
"""
"""Nothing here that the playbook could fuse."""

FEW = tuple(
    word
    for name in (
        *("seeds=2", "warmup=1", "rounds=5", "final_rounds=5", "round_ms=5"),
        *("profile=false", "gradients=false", "special_inputs=false"),
    )
    for word in ("--set", name)
)
"""Few checks and rounds: these tests are about what the program says, never about times. Profiles, gradients and
special inputs take as long as the rest of preparing, and from six rounds on the reference has a second process.
"""
WHOLE = tuple(
    word
    for name in ("rounds=6", "final_rounds=6", "profile=true", "gradients=true", "special_inputs=true")
    for word in ("--set", name)
)
"""As a user has it."""
QUICK = ("--no-compile-baseline", "--device", "cpu", "--python", sys.executable, *FEW)
"""Options most tests share."""


def environment(state: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a run with a state directory of its own."""
    env = {**os.environ, "STARK_STATE_DIR": str(state), "COLUMNS": "160", **(extra or {})}
    env.pop("ANTHROPIC_API_KEY", None)
    env.update(extra or {})
    return env


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of `stark-lsp`."""
    return [sys.executable, "-m", "stark_lsp", *(str(argument) for argument in arguments)]


def stark(
    *arguments: str | Path,
    state: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    **options: object,
) -> subprocess.CompletedProcess[str]:
    """Run `stark-lsp` to its end and return its output and exit code."""
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command(*arguments),
        cwd=cwd,
        env=environment(state, env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
        **options,
    )


def begin(*arguments: str | Path, state: Path, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start `stark-lsp` as a terminal does, in a process group of its own."""
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(state),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def here(
    capsys: pytest.CaptureFixture[str], *arguments: str | Path, state: Path, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Do the same in this process, for what starts no worker."""
    words = [str(argument) for argument in arguments]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STARK_STATE_DIR", str(state))
        patch.setenv("COLUMNS", "160")
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        if cwd is not None:
            patch.chdir(cwd)
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    said = capsys.readouterr()
    return subprocess.CompletedProcess(words, code, said.out, said.err)


def bare_path(folder: Path, *programs: str) -> str:
    """Return a search path with these programs and no others; what is not there fails when it is run."""
    folder.mkdir()
    for name in programs:
        os.symlink(shutil.which(name) or "/bin/false", folder / name)
    return str(folder)


def write(folder: Path, name: str, text: str) -> Path:
    """Write a module and return its path."""
    path = folder / name
    path.write_text(text)
    return path
