"""What optimizing needs of the machine, looked at within two seconds and before anything is begun.

`examine` collects facts; torch takes seconds to import, so the interpreter only says where it would import it from.
`lacking` is what they mean. What could not be found out in time counts as there: then the run itself finds out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from stark_lsp.contract.process_trees import kill_tree
from stark_lsp.core.status import DeviceChoice, Isolation
from stark_lsp.evaluation.compilers import find_compiler, find_nvcc, search_path
from stark_lsp.evaluation.environment import worker_environment
from stark_lsp.evaluation.interpreters import last_object

LIMIT_S = 1.5
"""Seconds for all that is asked."""

INSTALL_COMPILER = (
    "Install one, for instance: sudo apt install g++ (Debian, Ubuntu), sudo dnf install gcc-c++ (Fedora)."
)

WORKER = Path(__file__).resolve().parent.parent / "judge" / "__main__.py"

# The current folder is left out before anything is imported: its platform.py would be.
_ASK = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
import importlib.util, json, os, platform, sysconfig
def place(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None
torch, version = place("torch"), ""
try:
    with open(os.path.join(os.path.dirname(torch or ""), "version.py")) as file:
        version = file.read()
except OSError:
    pass
managed = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print("\\n" + json.dumps({
    "python": platform.python_version(), "torch": torch, "version": version, "triton": bool(place("triton")),
    "ninja": bool(place("ninja")), "pip": bool(place("pip")),
    "managed": sys.prefix == sys.base_prefix and os.path.exists(managed)}))
"""


class Need(str, Enum):
    """What optimizing needs, in the order in which it is told."""

    INTERPRETER = "interpreter"
    TORCH = "torch"
    GPU = "GPU"
    COMPILER = "compiler"
    NVCC = "nvcc"
    NINJA = "ninja"
    SANDBOX = "sandbox"


@dataclass(frozen=True)
class Lack:
    """Something that is missing."""

    need: Need
    cause: str
    """What is wrong, one sentence."""
    cure: str
    """What to do about it, one sentence."""


@dataclass(frozen=True)
class Facts:
    """What was found out."""

    interpreter: str
    problem: str = ""
    """Why the interpreter does not answer, empty if it does or was too slow."""
    torch: bool | None = None
    """Whether torch is installed, None if not known; so with the others."""
    cuda: bool | None = None
    """Whether that torch was built for CUDA."""
    triton: bool | None = None
    ninja: bool | None = None
    pip: bool = True
    managed: bool = False
    """Whether the interpreter is the system's own, which takes no packages from pip."""
    compiler: str | None = None
    """Path of the C++ compiler."""
    cxx: str = ""
    """What `CXX` names, empty if it is not set."""
    c_compiler: str | None = None
    """What Triton would compile with."""
    nvcc: str | None = None
    gpu: bool = False
    """Whether there is a driver with a GPU that torch may use."""
    sandbox: Mapping[str, Any] | None = None
    """What the worker says of `auto` and `strict`, None if not known."""

    def __str__(self) -> str:
        """Return one line for a log."""
        sandbox = "not known" if self.sandbox is None else str(self.sandbox["auto"]["layer"])
        parts = {
            "torch": self.torch, "built for CUDA": self.cuda, "Triton": self.triton, "ninja": self.ninja,
            "compiler": self.compiler, "nvcc": self.nvcc, "GPU": self.gpu, "sandbox": sandbox,
        }  # fmt: skip
        return ", ".join(f"{name}: {_word(value)}" for name, value in parts.items())


@dataclass(frozen=True)
class Wishes:
    """What the run is to be like, as far as it matters here."""

    device: DeviceChoice = DeviceChoice.AUTO
    isolation: Isolation = Isolation.AUTO
    triton: bool = False
    """Whether all kernels will be asked for in Triton; the playbook's never are."""


def examine(interpreter: str, environ: Mapping[str, str], *, sandbox: bool = True) -> Facts:
    """Look at the machine and ask the interpreter.

    Parameters
    ----------
    interpreter
        The interpreter that the worker will run under.
    environ
        The environment it will be started from.
    sandbox
        Whether to try the sandbox.
    """
    deadline = time.monotonic() + LIMIT_S
    given = worker_environment(environ)
    asked = _start([interpreter, "-c", _ASK], given)
    # The driver is not tried with it: what refuses a sandbox is the kernel, and waking a GPU takes too long.
    tried = _start([interpreter, "-u", str(WORKER), "probe", "", "cpu"], given) if sandbox else None
    path = search_path(environ, interpreter)
    answer, problem = _answer(asked, "python", deadline)
    kept, _ = _answer(tried, "auto", deadline) if tried is not None else (None, "")
    found = Facts(
        interpreter=interpreter,
        problem=problem,
        compiler=find_compiler(environ, interpreter),
        cxx=environ.get("CXX", "").strip(),
        c_compiler=environ.get("CC") or shutil.which("gcc", path=path) or shutil.which("clang", path=path),
        nvcc=find_nvcc(environ, interpreter),
        gpu=_gpu(environ),
        sandbox=kept,
    )
    if answer is None:
        return found
    return replace(
        found,
        torch=answer["torch"] is not None,
        cuda=_built_for_cuda(answer["version"]),
        triton=answer["triton"],
        ninja=answer["ninja"] or shutil.which("ninja", path=path) is not None,
        pip=answer["pip"],
        managed=answer["managed"],
    )


def lacking(facts: Facts, wishes: Wishes) -> tuple[Lack, ...]:
    """Return what is missing, what must be mended first first."""
    if facts.problem:
        return (Lack(Need.INTERPRETER, f"the Python of your project {facts.problem}", "Choose another one."),)
    found: list[Lack] = []
    if facts.torch is False:
        found.append(
            Lack(
                Need.TORCH,
                "torch is not installed in the Python of your project",
                "Install it, or choose another Python.",
            )
        )
    if wishes.device is DeviceChoice.CUDA and (not facts.gpu or facts.cuda is False):
        why = "this machine shows no NVIDIA GPU" if not facts.gpu else "the project's torch was built for the CPU"
        found.append(
            Lack(Need.GPU, f"stark.device is cuda, but {why}", "Set stark.device to auto or cpu, or mend that.")
        )
    on_gpu = wishes.device is not DeviceChoice.CPU and facts.gpu and facts.cuda is True
    if on_gpu and wishes.triton and facts.triton is not False and facts.c_compiler:
        return (*found, *_sandbox(facts, wishes))
    if facts.compiler is None and facts.cxx:
        cause = f"the C++ compiler that CXX names, {facts.cxx}, was not found"
        found.append(Lack(Need.COMPILER, cause, "Unset CXX, or install that compiler."))
    elif facts.compiler is None:
        found.append(Lack(Need.COMPILER, "there is no C++ compiler to build kernels with", INSTALL_COMPILER))
    if on_gpu and facts.nvcc is None:
        cure = "Install the CUDA toolkit or set CUDA_HOME; without it, set stark.device to cpu"
        more = ", or stark.dialect to triton where a language model answers" if facts.triton else ""
        found.append(Lack(Need.NVCC, "nvcc, which builds kernels for the GPU, was not found", f"{cure}{more}."))
    if facts.ninja is False:
        found.append(Lack(Need.NINJA, "ninja, which torch builds kernels with, was not found", "Install it."))
    return (*found, *_sandbox(facts, wishes))


def _sandbox(facts: Facts, wishes: Wishes) -> tuple[Lack, ...]:
    if facts.sandbox is None or wishes.isolation is Isolation.OFF:
        return ()
    outcome = facts.sandbox["strict" if wishes.isolation is Isolation.STRICT else "auto"]
    if outcome["layer"] is not None:
        return ()
    cure = f"{outcome['cure']} Or set stark.isolation to off, if you trust every candidate.".strip()
    return (Lack(Need.SANDBOX, f"candidates cannot be kept apart here: {outcome['reason'].rstrip('.')}", cure),)


def install_command(facts: Facts, package: str, folder: str) -> str:
    """Return the command that installs a package for the interpreter, as a person would type it.

    Parameters
    ----------
    package
        Its name.
    folder
        The project's folder: what manages it, if something does, must know of the package.
    """
    python = facts.interpreter
    home = Path(python).parent.parent
    project = next((up for up in (Path(folder), *Path(folder).parents) if (up / "pyproject.toml").is_file()), None)
    if project is not None and home.parent == project and (project / "uv.lock").is_file():
        return f"uv add --project {shlex.quote(str(project))} {package}"
    if project is not None and (project / "poetry.lock").is_file():
        return f"poetry add --directory {shlex.quote(str(project))} {package}"
    if facts.managed:
        new = Path(project or folder, ".venv")
        made = shlex.quote(str(new / "bin" / "python"))
        return f"{shlex.quote(python)} -m venv {shlex.quote(str(new))} && {made} -m pip install torch ninja"
    if not facts.pip:
        return f"uv pip install --python {shlex.quote(python)} {package}"
    return f"{shlex.quote(python)} -m pip install {package}"


def _start(command: list[str], environ: dict[str, str]) -> subprocess.Popen[bytes] | str:
    """Start a command; the reason if that cannot be done."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        return f"cannot be run ({error.strerror or error})"


def _answer(process: subprocess.Popen[bytes] | str, member: str, deadline: float) -> tuple[dict[str, Any] | None, str]:
    """Return the JSON with a member that a process printed last, None if there is none, and why if that is known."""
    if isinstance(process, str):
        return None, process
    try:
        output, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.05))
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        process.communicate()
        return None, ""
    found = last_object(output, member)
    return found, "" if found is not None else "does not answer as a Python interpreter does"


def _gpu(environ: Mapping[str, str]) -> bool:
    """Whether there is an NVIDIA driver, and torch is not told to see no GPU."""
    if environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    places = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
    return any(map(os.path.exists, places))


def _built_for_cuda(version: str) -> bool | None:
    """Return what torch's `version.py` says, None if it says nothing that is known here."""
    found = re.search(r"^cuda\b[^=\n]*=\s*(\S+)", version, re.MULTILINE)
    return None if found is None else found.group(1) != "None"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not found" if value is None else str(value)
