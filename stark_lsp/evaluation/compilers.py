"""The C++ compiler that kernels are built with, also where torch's rule (`$CXX`, else `c++`) misses one."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

NAMES = ("c++", "g++", "clang++")
"""Looked for in this order."""
CONDA = "*-conda-*-c++"
"""conda's compilers, which are called by this name unless the environment is activated."""


def search_path(environ: Mapping[str, str], interpreter: str) -> str:
    """Return where the worker looks for programs: beside its interpreter, then on the path."""
    return os.pathsep.join(filter(None, (os.path.dirname(interpreter), environ.get("PATH", ""))))


def find_compiler(environ: Mapping[str, str], interpreter: str) -> str | None:
    """Return the path of the C++ compiler, None if there is none; a `CXX` that is set is the only one that counts."""
    path = search_path(environ, interpreter)
    if asked := environ.get("CXX", "").strip():
        return shutil.which(_program(asked), path=path)
    found = next(filter(None, (shutil.which(name, path=path) for name in NAMES)), None)
    if found is None and interpreter:
        found = next(map(str, sorted(Path(interpreter).parent.glob(CONDA))), None)
    return found


def compiler_variables(environ: Mapping[str, str], interpreter: str) -> dict[str, str]:
    """Return `CXX` for the worker if torch would not find the compiler without it, else nothing."""
    if environ.get("CXX", "").strip() or shutil.which("c++", path=search_path(environ, interpreter)):
        return {}
    found = find_compiler(environ, interpreter)
    return {"CXX": found} if found is not None else {}


def find_nvcc(environ: Mapping[str, str], interpreter: str) -> str | None:
    """Return the path of nvcc where torch looks for it, None if it is not there."""
    homes = [os.path.join(home, "bin") for name in ("CUDA_HOME", "CUDA_PATH") if (home := environ.get(name))]
    path = os.pathsep.join([*homes, search_path(environ, interpreter), "/usr/local/cuda/bin"])
    return shutil.which("nvcc", path=path)


def _program(command: str) -> str:
    """Return the program of a command such as `ccache g++`."""
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return command
