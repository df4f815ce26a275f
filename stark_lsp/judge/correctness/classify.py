"""What a failure of a candidate's process means: the status, a sentence, and the line of the candidate."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...contract.errors import Broken
from ..building import diagnostics
from ..building.service import Built, Failure
from ..processes.failures import (
    RunnerDied,
    RunnerError,
    RunnerExceeded,
    RunnerFailure,
    RunnerFlooded,
    RunnerForged,
    RunnerTimedOut,
    exit_text,
)
from ..processes.runners import RunnerProcess

_NO_NVCC = re.compile(r"CUDA_HOME environment variable is not set|nvcc: not found|nvcc: No such file", re.I)
_NO_NINJA = re.compile(r"Ninja is required to load C\+\+ extensions", re.I)
_NO_CXX = re.compile(
    r"(?:g\+\+|c\+\+|gcc|\bcc|clang(?:\+\+)?): (?:not found|No such file|command not found)|Failed to find C compiler",
    re.I,
)
_BUILD = re.compile(
    r"Error building extension|Error compiling objects for extension|CompilationError|PTXASError|NVRTC_ERROR", re.I
)
_BUILD_TYPES = {"CompilationError", "CompileTimeAssertionError", "UnsupportedLanguageConstruct", "PTXASError"}
_SIZE = r"([\d.]+) (bytes|[KMG]iB)"
_FULL = re.compile(
    rf"Tried to allocate {_SIZE}.*? capacity of {_SIZE} of which {_SIZE} is free.*?this process has {_SIZE}", re.S
)
"""How torch tells that a GPU is full (c10/cuda/CUDACachingAllocator.cpp)."""
_GIB = {"bytes": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0}
_MEMORY = re.compile(r"out of memory|can't allocate memory|cannot allocate memory|not enough memory", re.I)


UNSEEN = " A candidate sees those files alone that the original reads while it is loaded, below its project."
BUILD = "build"
"""`core.Stage.BUILD`."""


@dataclass(eq=False)
class Finding:
    """One failure, ready for a verdict."""

    status: str
    message: str
    line: int | None = None
    stage: str = ""
    """A value of `core.Stage` if it is another one than that in which the failure was noticed."""
    compiler: list[dict[str, Any]] = field(default_factory=list)
    details: str = ""


class Failed(Exception):
    """The candidate failed, which ends its judging; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


Ask = Callable[..., dict[str, Any]]
"""`ask(stage, command, **params)`: asks a candidate's process; raises `Failed` when it fails."""


def asking(runner: RunnerProcess, settings: dict[str, Any], path: str) -> Ask:
    """Return what asks one process."""
    run_s, build_s = float(settings["run_timeout_s"]), float(settings["build_timeout_s"])

    def ask(stage: str, command: str, **params: Any) -> dict[str, Any]:
        try:
            return dict(runner.ask(command, run_s=run_s, build_s=build_s, **params))
        except RunnerFailure as error:
            raise Failed(classify(error, stage, path)) from error

    return ask


def classify(error: Exception, stage: str, source_path: str) -> Finding:
    """Say what an exception of `RunnerProcess.ask` means.

    Parameters
    ----------
    stage
        `load` until the module stands, `forward` afterwards, `time` while it is timed.

    Raises
    ------
    Broken
        The machine lacks something that every candidate of this kind needs.
    """
    if isinstance(error, RunnerTimedOut):
        doing = {"load": "loading", "time": "a timing round"}.get(stage, "the forward pass")
        if error.building:
            return Finding("TIMED_OUT", f"Stopped after {error.seconds:g} s of compiling.", stage=BUILD)
        return Finding("TIMED_OUT", f"Stopped after {error.seconds:g} s of {doing}.")
    if isinstance(error, RunnerDied):
        return Finding("CRASHED", _death(error.code, stage))
    if isinstance(error, RunnerExceeded):
        status = {"memory": "OUT_OF_MEMORY", "processes": "CRASHED"}.get(error.exceeded.what, "RUNTIME_ERROR")
        return Finding(status, f"Stopped: {error.exceeded.text}.")
    if isinstance(error, RunnerFlooded):
        return Finding("RUNTIME_ERROR", "Stopped: it printed more than 64 MiB.")
    if isinstance(error, RunnerForged):
        return Finding("CHEATED", "It wrote to the judge's own pipe.")
    if isinstance(error, RunnerError):
        return _raised(error.report, stage, source_path)
    raise error


def _death(code: int, stage: str) -> str:
    doing = {"load": "while loading", "time": "while it was timed"}.get(stage, "in the forward pass")
    hint = {
        -11: " A kernel probably read or wrote outside its memory.",
        -7: " A kernel probably read or wrote outside its memory.",
        -6: " Something called abort, for instance after memory was damaged.",
        -8: " A kernel probably divided an integer by zero.",
        -4: " A kernel uses instructions that this CPU does not have.",
        -9: " The system probably ran out of memory.",
    }.get(code, "")
    return f"The process {exit_text(code)} {doing}.{hint}"


def _raised(report: dict[str, Any], stage: str, source_path: str) -> Finding:
    types = set(report.get("types") or [])
    text = str(report.get("text", ""))
    everything = "\n".join([text, *(str(cause.get("text", "")) for cause in report.get("causes") or [])])
    line = _line(report, source_path)
    short = _short(report)
    finding = _build_failure(types, everything, line)
    if finding is None:
        if "OutOfMemoryError" in types or "MemoryError" in types or ("RuntimeError" in types and _MEMORY.search(text)):
            finding = Finding("OUT_OF_MEMORY", f"Memory ran out: {short}.", line)
        elif "SyntaxError" in types:
            # What it says of the file is of our copy; a traceback would show nothing but ours.
            said = re.sub(r" \([^()]*, line \d+\)$", "", text) or short
            return Finding("LOAD_ERROR", f"The candidate does not parse: {said}.", line)
        elif stage == "load":
            hint = UNSEEN if types & {"FileNotFoundError", "PermissionError"} else ""
            finding = Finding("LOAD_ERROR", f"The candidate could not be loaded: {short}.{hint}", line)
        elif "NotPlain" in types:
            finding = Finding("WRONG_SHAPE", f"The forward pass returned something else than tensors: {text}.", line)
        elif "NoGradient" in types:
            return Finding("WRONG_RESULT", text, line)
        elif "SystemExit" in types:
            finding = Finding("RUNTIME_ERROR", "The forward pass tried to end the process.", line)
        else:
            finding = Finding("RUNTIME_ERROR", f"The forward pass raised {short}.", line)
    finding.details = str(report.get("traceback", ""))
    return finding


def _build_failure(types: set[str], everything: str, line: int | None) -> Finding | None:
    """Return a finding if a build failed; a missing host compiler is nobody's but the machine's fault."""
    if _NO_NINJA.search(everything):
        raise Broken(
            "Kernels cannot be built: ninja is missing.", "Install it for the worker's interpreter: pip install ninja."
        )
    building = bool(_BUILD.search(everything)) or bool(types & _BUILD_TYPES)
    if _NO_NVCC.search(everything):
        return Finding(
            "COMPILE_ERROR",
            "CUDA kernels cannot be built here: nvcc was not found. Install the CUDA toolkit or set CUDA_HOME.",
            line,
            stage=BUILD,
        )
    if not building and not _NO_CXX.search(everything):
        return None
    if host_compiler() is None:
        raise Broken(
            "Kernels cannot be built: no C++ compiler was found on the PATH.",
            "Install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or set CXX.",
        )
    messages = diagnostics.compiler_messages(everything)
    return Finding("COMPILE_ERROR", diagnostics.summary(messages, everything), line, BUILD, messages)


def build_finding(built: Built) -> Finding:
    """Return what a failed build means for the candidate.

    Raises
    ------
    Broken
        The machine lacks what every build needs.
    """
    # Without torch's `Error building extension 'name':`.
    text = built.error.partition(": ")[2] or built.error
    if built.failure is Failure.REFUSED:
        return Finding("REFUSED", text, stage=BUILD)
    if built.failure in (Failure.TIMED_OUT, Failure.MEMORY):
        status = "TIMED_OUT" if built.failure is Failure.TIMED_OUT else "OUT_OF_MEMORY"
        return Finding(status, f"The compiler was {text}", stage=BUILD)
    if built.failure is Failure.BROKEN:
        return Finding("COMPILE_ERROR", f"It could not be built: {text}", stage=BUILD, details=built.log)
    finding = _build_failure(set(), built.error, None) or Finding("COMPILE_ERROR", text)
    finding.stage = BUILD
    finding.compiler = finding.compiler or built.compiler
    finding.details = built.log
    return finding


def host_compiler() -> str | None:
    """Return the path of the C++ compiler that torch would call, None if there is none."""
    return shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++")


def memory_full(text: str) -> str:
    """Return what torch says at length of a full GPU, in short and with what other programs hold; empty if nothing."""
    found = _FULL.search(text)
    if found is None:
        return ""
    sizes = found.groups()
    wanted, total, free, here = (float(sizes[i]) * _GIB[sizes[i + 1]] for i in range(0, 8, 2))
    others = max(0.0, total - free - here)
    had = f"{free:.2f} of the GPU's {total:.0f} GiB were free and {others:.1f} with other programs"
    return f"{wanted:.2f} GiB more were wanted where {had}"


def _short(report: dict[str, Any]) -> str:
    name = (report.get("types") or ["Exception"])[0]
    # Torch adds the same advice on debugging to every CUDA error.
    text = re.split(r"\s*(?:Search for `cuda|CUDA kernel errors might be async)", str(report.get("text", "")))[0]
    full = memory_full(text)
    if full:
        return full
    text = " ".join(text.split()).rstrip(".")
    return f"{name}: {text[:400]}" if text else str(name)


def _line(report: dict[str, Any], source_path: str) -> int | None:
    """Return the innermost line of the candidate file."""
    syntax = report.get("syntax")
    if isinstance(syntax, dict) and os.path.basename(str(syntax.get("path"))) == os.path.basename(source_path):
        return int(syntax.get("line") or 0) or None
    found = None
    for frame in report.get("frames") or []:
        if frame.get("path") == source_path:
            found = int(frame.get("line") or 0) or found
    return found


def stages(pairs: list[tuple[str, float]]) -> list[list[Any]]:
    """Return `Verdict.stages_s` in wire form; what came in several parts counts once."""
    found: dict[str, float] = {}
    for name, seconds in pairs:
        found[name] = found.get(name, 0.0) + seconds
    return [[name, round(seconds, 4)] for name, seconds in found.items()]
