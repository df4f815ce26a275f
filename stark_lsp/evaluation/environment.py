"""Which environment variables the worker is given: those it needs, and no secrets; and where it may run programs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from stark_lsp.core.errors import Fault

ALLOWED = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "TMP",
        "TEMP",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "CC",
        "CXX",
        "CFLAGS",
        "CXXFLAGS",
        "LDFLAGS",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "PYTHONPATH",
        "PYTHONHASHSEED",
        "PYTHONUTF8",
        "PYTHONIOENCODING",
        "MAX_JOBS",
        "NINJA_STATUS",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
        "HF_HOME",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "TRANSFORMERS_CACHE",
        "CUBLAS_WORKSPACE_CONFIG",
        "NVCC_PREPEND_FLAGS",
        "NVCC_APPEND_FLAGS",
        "SYSTEMROOT",
        "STARK_LOCKS_DIR",
    ]
)
"""Names that are passed on."""

PREFIXES = (
    "LC_",
    "CUDA_",
    "NVIDIA_",
    "TORCH_",
    "TORCHINDUCTOR_",
    "PYTORCH_",
    "TRITON_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "ONEDNN_",
    "DNNL_",
    "ATEN_",
)
"""Beginnings of names that are passed on."""

SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(API_?)?KEY($|_)|AUTH", re.IGNORECASE)
"""Names that look like secrets are never passed on, whatever they begin with."""


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of `environ` that the worker, and so the user's and candidates' code, may see."""
    return {
        name: value
        for name, value in environ.items()
        if (name in ALLOWED or name.startswith(PREFIXES)) and not SECRET.search(name)
    }


def folder_for_programs(state: Path) -> str:
    """Return the folder for temporary files, or `state` where no program may run from that (mounted `noexec`).

    Raises
    ------
    Fault
        No program may run from either.
    """
    temporary = tempfile.gettempdir()
    if not _noexec(temporary):
        return temporary
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _noexec(str(state)):
        raise Fault(
            f"No program may run from {temporary}, nor from {state}, which are mounted noexec.",
            cure="Set TMPDIR to a folder from which programs may run.",
        )
    return str(state)


def _noexec(folder: str) -> bool:
    return bool(os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0))
