"""Which environment variables the worker is given: those it needs, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
