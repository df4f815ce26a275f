"""Runs pieces of Python in a real sandbox and returns what they printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stark_lsp.judge.sandbox import Layer, build_policy, instructions, run_policy, wrap
from stark_lsp.judge.sandbox.policy import Policy
from stark_lsp.judge.sandbox.probe import attempt

SOURCES = Path(__file__).parents[2] / "stark_lsp"
MAIN = str(SOURCES / "judge" / "__main__.py")
CONFINED = """
import importlib, os, sys, types
sys.modules["stark_worker"] = package = types.ModuleType("stark_worker")
package.__path__ = [sys.argv[1]]
policy = importlib.import_module("stark_worker.judge.sandbox").confine(sys.argv[2])
importlib.import_module("stark_worker.judge.sandbox.rlimits").limit_address_space(policy.address_bytes)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""A program that confines itself by instructions and becomes another one; first the folder that `judge` is in."""
LAYERS = (Layer.BUBBLEWRAP, Layer.LANDLOCK)
KINDS = ("run", "build")


def need(layer: Layer) -> None:
    """Skip the test where a layer really does not work."""
    problem, _ = attempt(layer, gpu=False)
    if problem:
        pytest.skip(f"{layer.value} does not work here: {problem}")


def policy_of(kind: str, folder: Path, **changes: Any) -> Policy:
    """Return a policy for a new private folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = run_policy(str(folder), gpu=False) if kind == "run" else build_policy(str(folder))
    return made._replace(**changes)


def command(layer: Layer, policy: Policy, argv: list[str], *, python: str = sys.executable) -> list[str]:
    """Return the command that confines itself and becomes `argv`."""
    return wrap(layer, policy, becoming(instructions(layer, policy), argv, python=python))


def becoming(told: str, argv: list[str], *, python: str = sys.executable) -> list[str]:
    """Return the command that confines itself as it is told, without a sandbox around it, and becomes `argv`."""
    return [python, "-I", "-S", "-c", CONFINED, str(SOURCES), told, *argv]


def inside(
    layer: Layer, policy: Policy, argv: list[str], *, env: dict[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a program in a layer and wait for it."""
    given = {"PATH": os.environ["PATH"], "LC_ALL": "C", **(env or {})}
    return subprocess.run(
        command(layer, policy, argv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=given,
        cwd=policy.out,
        timeout=timeout,
        check=False,
    )


def python(layer: Layer, policy: Policy, code: str, *values: object, timeout: float = 60) -> Any:
    """Run Python code in a layer; `VALUES` holds the values, and what it assigns to `answer` is returned.

    An `OSError` that it lets through becomes `"ERRNO NAME"`.
    """
    body = "\n".join("    " + line for line in code.strip("\n").splitlines())
    program = (
        "import ctypes, errno, json, os, signal, socket, subprocess, sys\n"
        f"VALUES = json.loads({json.dumps(json.dumps(values))})\n"
        "answer = None\n"
        f"try:\n{body}\n"
        "except OSError as error:\n    answer = 'ERRNO ' + errno.errorcode.get(error.errno, str(error.errno))\n"
        "print(json.dumps(answer))\n"
    )
    done = inside(layer, policy, [sys.executable, "-I", "-c", program], timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
