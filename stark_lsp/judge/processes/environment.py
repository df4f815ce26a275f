"""The environment that all children of a judge start from."""

from __future__ import annotations

import os

from ..building.cache import inductor_folder

FEW_CORES = 4
"""On no more than so many, threads that wait for each other go to sleep almost at once."""

BESIDE_A_GPU = 8
"""CPU threads at most where a GPU does the work. With 48 in each of many processes, which seem to wait for one another
in every small operation, an LSTM could not be prepared within 120 s."""


def cpu_threads(device: str, threads: int) -> int:
    """Return how many CPU threads the judge and its children take, of so many that torch would."""
    return threads if device == "cpu" else min(threads, BESIDE_A_GPU)


def runner_environment(threads: int, cache_dir: str, arch: str = "") -> dict[str, str]:
    """Return the environment that all children of a judge start from.

    Parameters
    ----------
    threads
        CPU threads for torch and for kernels with OpenMP.
    arch
        GPU architecture to build for, see `fingerprint.architecture`; empty for none, or for all that are there.
    """
    jobs = str(max(1, min(4, os.cpu_count() or 1)))
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        **spin_limit(),
        **steady_memory(),
        "MAX_JOBS": os.environ.get("MAX_JOBS", jobs),
        "TORCHINDUCTOR_CACHE_DIR": inductor_folder(cache_dir),
        # The instructions that the processor names are used without compiling a test of each, 7 s in a fresh cache:
        # a compiler that lacks them says so of the first kernel.
        "TORCHINDUCTOR_VEC_ISA_OK": os.environ.get("TORCHINDUCTOR_VEC_ISA_OK", "1"),
    }
    if arch:
        environment["TORCH_CUDA_ARCH_LIST"] = arch
    return environment


def spin_limit() -> dict[str, str]:
    """Return what keeps OpenMP threads from spinning for milliseconds where they wait for each other.

    GNU OpenMP spins 300,000 times by default, some 4 ms; when two threads of a region land on one core, each
    region then takes a scheduler tick. On few cores they land there often and stay for long, so that the same code
    is fast in one process and three times slower in the next unless waiting threads go to sleep at once. A user's
    own policy is left as it is.
    """
    if any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        return {}
    few = (os.cpu_count() or 1) <= FEW_CORES
    # The second is for Intel's OpenMP, in milliseconds; its default are 200.
    return {"GOMP_SPINCOUNT": "100" if few else "5000", "KMP_BLOCKTIME": "1"}


def steady_memory() -> dict[str, str]:
    """Return what keeps glibc from giving freed memory back to the system between calls.

    Otherwise each call of some processes, but not of others, pays for new pages of zeros: it depends on what
    happens to lie at the end of the heap. A user's own settings are left as they are.
    """
    wanted = {
        # The largest that glibc takes; larger blocks are mapped anew by every call, on all sides.
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_TOP_PAD_": str(16 << 20),
    }
    if "GLIBC_TUNABLES" in os.environ or any(name in os.environ for name in wanted):
        return {}
    return wanted
