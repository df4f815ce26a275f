"""Asks an interpreter what it has; `lookup` finds the one of a file."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

from stark_lsp.core.errors import BadInput
from stark_lsp.evaluation.environment import worker_environment

# The current folder is left out before anything is imported: its platform.py would be.
_PROBE = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import json, os, platform, tempfile
found = {"python": platform.python_version(), "torch": None, "cuda": None,
         "gpus": [], "triton": None, "triton_problem": "", "problem": "", "doing": ""}
def tell(doing):
    # Told before each import, since an import may end the process.
    found["doing"] = doing
    print("\\n" + json.dumps(found), flush=True)
def words(error):
    said = str(error)
    return type(error).__name__ + (": " + said if said else "")
tell("problem")
try:
    import torch
    found["torch"] = str(torch.__version__)
    found["cuda"] = torch.version.cuda
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
except BaseException as error:
    found["problem"] = words(error)
tell("triton_problem")
try:
    import triton
    found["triton"] = str(triton.__version__)
    tell("triton_problem")
    if found["gpus"]:
        # The driver is looked for, and a part of it compiled, at first use.
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TRITON_CACHE_DIR"] = folder
            from triton.runtime import driver
            driver.active.get_current_target()
except BaseException as error:
    if not (isinstance(error, ModuleNotFoundError) and error.name == "triton"):
        found["triton_problem"] = words(error)
tell("")
"""


@dataclass(frozen=True)
class InterpreterInfo:
    """What an interpreter has."""

    python: str
    """Version."""
    torch: str | None = None
    """Version, None if torch cannot be imported."""
    cuda: str | None = None
    """CUDA version torch was built with."""
    gpus: tuple[str, ...] = ()
    """Names of the GPUs torch sees."""
    triton: str | None = None
    """Version, None if Triton is not installed or cannot be imported."""
    triton_problem: str = ""
    """Why Triton cannot be imported, or used on the GPU that torch sees; empty if it is not installed. One line."""
    problem: str = ""
    """Why torch cannot be imported."""


def probe(interpreter: str, timeout_s: float = 60.0) -> InterpreterInfo:
    """Ask an interpreter for its version, torch, GPUs and Triton.

    What ends the interpreter, or hangs, while it is imported is told as the problem of what was imported.

    Raises
    ------
    BadInput
        It cannot be run, or does not answer as a Python interpreter does.
    """
    cure = "Choose another interpreter."
    command = [interpreter, "-c", _PROBE]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env=worker_environment(os.environ),
            check=False,
        )
    except OSError as error:
        raise BadInput(f"{interpreter} cannot be run: {error.strerror or error}.", cure=cure) from error
    except subprocess.TimeoutExpired as error:
        found, ended = last_object(error.stdout or b"", "doing"), f"no answer within {timeout_s:g} s"
        if found is None:
            raise BadInput(f"{interpreter} did not answer within {timeout_s:g} s.", cure=cure) from error
    else:
        found, ended = last_object(done.stdout, "doing"), f"the interpreter ended {_how(done.returncode)}"
        if found is None:
            raise BadInput(
                f"{interpreter} does not answer as a Python interpreter does.",
                cure=cure,
                details=done.stderr.decode(errors="replace")[-2000:],
            )
    if doing := found.pop("doing"):
        found[doing] = ended
    found |= {"gpus": tuple(found["gpus"]), "triton_problem": first_line(found["triton_problem"])}
    return InterpreterInfo(**found)


def last_object(output: bytes, member: str) -> dict[str, Any] | None:
    """Return the JSON object with a member that a program printed last, None if there is none; others print too."""
    for line in reversed(output.decode(errors="replace").splitlines()):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and member in found:
            return found
    return None


def _how(status: int) -> str:
    return f"by signal {-status}" if status < 0 else f"with status {status}"


def first_line(text: str) -> str:
    """Return the first line of a text that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
