"""`stark-lsp doctor`: what is there, what is missing, and how to mend it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from stark_lsp import __version__
from stark_lsp.agents.models.anthropic import AnthropicModel
from stark_lsp.agents.models.prices import prices_of
from stark_lsp.agents.models.sdk import installable, missing
from stark_lsp.agents.models.secret import ANTHROPIC_KEY, ANTHROPIC_TOKEN, OPENAI_KEY
from stark_lsp.agents.models.service import http_client
from stark_lsp.cli.checks import isolation, toolchain
from stark_lsp.cli.checks.health import Check, Health
from stark_lsp.cli.checks.isolation import Report
from stark_lsp.cli.runs.lookup import open_store
from stark_lsp.cli.terminal import console
from stark_lsp.cli.terminal.console import clean
from stark_lsp.cli.terminal.failures import FAULT, OK
from stark_lsp.core.errors import StarkError
from stark_lsp.evaluation.interpreters import first_line, probe
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.store.paths import state_dir

DESCRIPTION = """\
Check what optimizing needs: a Python with torch, a C++ compiler, ninja, and for a GPU the driver and
nvcc. Compilers are really run. Nothing is changed on this machine.
"""

EPILOG = """\
exit codes:
  0  optimizing works, at least for the CPU      1  something it needs is missing
"""

LOW_SPACE = 1 << 30
"""Bytes of free space below which the doctor warns."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `stark-lsp doctor`."""
    parser.add_argument("--python", metavar="INTERPRETER", help="the Python that has torch (default: the project's)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run all checks and return the exit code."""
    checks, cuda, isolation = examine(args.python)
    cpu = not any(check.health is Health.BROKEN for check in checks)
    if args.json:
        _print_json(checks, isolation, cpu=cpu, cuda=cpu and cuda)
    else:
        _print(checks, isolation, cpu=cpu, cuda=cpu and cuda)
    return OK if cpu else FAULT


def examine(python: str | None) -> tuple[tuple[Check, ...], bool, Report]:
    """Return all checks, whether a GPU can be optimized for, and what candidates are kept in."""
    interpreter, torch_checks, sees_gpu = _torch(python)
    gpu = toolchain.gpu()
    nvcc = toolchain.nvcc(wanted=gpu.health is Health.GOOD)
    kept = isolation.examine(interpreter)
    checks = (
        Check("stark-lsp", Health.GOOD, f"{__version__}, on Python {platform.python_version()} ({sys.executable})"),
        *torch_checks,
        toolchain.compiler(interpreter),
        toolchain.ninja(interpreter),
        gpu,
        nvcc,
        _model(),
        *_openai(),
        *kept.checks,
        _state(),
    )
    return checks, sees_gpu and nvcc.health is Health.GOOD, kept


def _torch(python: str | None) -> tuple[str | None, tuple[Check, ...], bool]:
    """Return the project's interpreter, what is to say on it, its torch and Triton, and whether torch sees a GPU."""
    try:
        chosen = find_interpreter(python, os.path.join(os.getcwd(), "model.py"), (os.getcwd(),))
        interpreter = chosen.path
        info = probe(interpreter)
    except StarkError as error:
        cure = error.cure or "Name another one with --python."
        return None, (Check("interpreter", Health.BROKEN, error.message, cure),), False
    found = (
        Check("interpreter", Health.GOOD, f"Python {info.python} ({interpreter}), {chosen.why}"),
        *(Check("interpreter", Health.ABSENT, text) for text in chosen.passed_over),
    )
    if info.torch is None:
        why = "" if "No module named 'torch'" in info.problem else f": {first_line(info.problem)}"
        detail = f"cannot be imported by {interpreter}{why}" if why else f"not installed in {interpreter}"
        cure = f"Install it: {interpreter} -m pip install torch, or name another Python with --python."
        return interpreter, (*found, Check("torch", Health.BROKEN, detail, cure)), False
    sees = f"sees {', '.join(info.gpus)}" if info.gpus else "sees no GPU"
    built = f"built for CUDA {info.cuda}, {sees}" if info.cuda else "built for the CPU"
    torch = Check("torch", Health.GOOD, f"{info.torch}, {built}")
    return interpreter, (*found, torch, toolchain.triton(info, interpreter)), bool(info.gpus)


def _model() -> Check:
    """Return who would answer as the agents; nobody is asked."""
    found = next((name for name in (ANTHROPIC_KEY, ANTHROPIC_TOKEN) if os.environ.get(name, "").strip()), None)
    if found is None:
        return Check("language model", Health.ABSENT, f"{ANTHROPIC_KEY} is not set; the playbook works without a key")
    model = AnthropicModel()
    if missing("anthropic") and installable():
        told = f"asked at {model.server}, by {found}; its SDK is installed when a run in the editor first needs it"
        return Check("language model", Health.GOOD, told)
    try:
        _connects()
        known = prices_of("anthropic").of(model.name) is not None
        price = "its price is known" if known else "its price is unknown"
    except StarkError as error:
        return Check("language model", Health.ABSENT, error.message, error.cure)
    return Check("language model", Health.GOOD, f"{model.name} at {model.server}, by {found}; {price}")


def _openai() -> tuple[Check, ...]:
    """Return whom models of `openai:NAME` are asked of, where the environment says anything on it; nobody is asked."""
    from stark_lsp.agents.models.openai import BASE_URL_VARIABLE, OpenAIModel, check

    found = [name for name in (BASE_URL_VARIABLE, OPENAI_KEY) if os.environ.get(name, "").strip()]
    if not found:
        return ()
    try:
        check("")
        _connects()
    except StarkError as error:
        return (Check("openai:NAME", Health.ABSENT, error.message, error.cure),)
    key = "a key" if OPENAI_KEY in found else "no key"
    return (Check("openai:NAME", Health.GOOD, f"at {OpenAIModel('').server}, by {' and '.join(found)}; {key} is sent"),)


def _connects() -> None:
    """Raise `BadInput` if the environment names a proxy or certificates that cannot be used."""
    if not missing("httpx2"):
        from httpx2 import AsyncClient

        http_client(AsyncClient)


def _state() -> Check:
    folder = state_dir()
    try:
        open_store()
        probe_file = Path(folder, f".doctor-{os.getpid()}")
        probe_file.write_bytes(b"\0" * 4096)
        probe_file.unlink()
    except StarkError as error:
        return Check("state directory", Health.BROKEN, f"{folder}: {error.message}", error.cure)
    except OSError as error:
        cure = "Make it writable, or set STARK_STATE_DIR to another directory."
        return Check("state directory", Health.BROKEN, f"{folder} cannot be written: {error.strerror}", cure)
    free = shutil.disk_usage(folder).free
    size = f"{free / (1 << 30):.1f} GiB free"
    if free < LOW_SPACE:
        cure = "Free some space, or set STARK_STATE_DIR to another directory."
        return Check("state directory", Health.ABSENT, f"{folder}, only {size}", cure)
    return Check("state directory", Health.GOOD, f"{folder}, {size}")


def _conclusion(*, cpu: bool, cuda: bool) -> str:
    if not cpu:
        return "Not ready yet: mend what is missing, then run stark-lsp doctor again."
    return "Ready to optimize for the GPU and the CPU." if cuda else "Ready to optimize for the CPU."


def _print(checks: Sequence[Check], isolation: Report, *, cpu: bool, cuda: bool) -> None:
    marks = {Health.GOOD: ("ok", "green"), Health.ABSENT: ("-", "yellow"), Health.BROKEN: ("missing", "bold red")}
    out = console.make()
    for check in checks:
        mark, style = marks[check.health]
        console.line(out, Text.assemble((f"{mark:<8}", style), (f"{check.name:<17}", "bold"), clean(check.detail)))
        if check.cure:
            console.line(out, Text.assemble(" " * 25, (clean(check.cure), "cyan")))
    out.print()
    console.line(out, clean(isolation.words), "dim" if isolation.layer else "bold red")
    console.line(out, _conclusion(cpu=cpu, cuda=cuda), "bold green" if cpu else "bold red")


def _print_json(checks: Sequence[Check], isolation: Report, *, cpu: bool, cuda: bool) -> None:
    report = {
        "ready": {"cpu": cpu, "cuda": cuda},
        "isolation": isolation.summary(),
        "checks": [
            {"name": check.name, "health": check.health.value, "detail": check.detail, "cure": check.cure}
            for check in checks
        ],
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
