"""Checks of what builds kernels: Triton, C++ compiler, ninja, GPU and nvcc. Compilers are really run."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from stark_lsp.cli.checks.health import Check, Health, output, version
from stark_lsp.core.errors import Fault
from stark_lsp.evaluation.compilers import find_compiler, find_nvcc, search_path
from stark_lsp.evaluation.environment import folder_for_programs
from stark_lsp.evaluation.interpreters import InterpreterInfo, first_line
from stark_lsp.evaluation.preflight import INSTALL_COMPILER
from stark_lsp.store.paths import state_dir

OPENMP_PROGRAM = """\
#include <cstdio>
#include <omp.h>
int main() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  std::printf("%d\\n", threads);
}
"""
"""Counts the threads of a parallel region: fails to compile, link or run where OpenMP does not work."""


def triton(info: InterpreterInfo, interpreter: str) -> Check:
    """Say whether Triton is there and works; a GPU's torch.compile and kernels in Triton need it."""
    name = "Triton"
    if info.triton is None and info.triton_problem:
        cure = "Install torch again: it brings the Triton that it was built for." if info.gpus else ""
        return Check(name, Health.ABSENT, f"cannot be imported by {interpreter}: {info.triton_problem}", cure)
    if info.triton is None:
        if not info.gpus:
            return Check(name, Health.ABSENT, "not installed, and not needed without a GPU")
        cure = f"Install it: {interpreter} -m pip install triton. torch.compile and kernels in Triton need it."
        return Check(name, Health.ABSENT, f"not installed in {interpreter}", cure)
    if info.triton_problem:
        cure = "Is there a C compiler with Python's headers, and is the driver new enough for this Triton?"
        return Check(name, Health.ABSENT, f"{info.triton}, which cannot use the GPU: {info.triton_problem}", cure)
    return Check(name, Health.GOOD, f"{info.triton}, works with the GPU" if info.gpus else info.triton)


def compiler(interpreter: str | None = None) -> Check:
    """Compile and run an OpenMP program with the compiler that kernels would be built with."""
    name = "C++ compiler"
    asked = os.environ.get("CXX")
    found = find_compiler(os.environ, interpreter or "")
    if found is None:
        cure = f"CXX is set to {asked}: unset it, or install that compiler." if asked else INSTALL_COMPILER
        return Check(name, Health.BROKEN, f"{asked or 'c++'} was not found", cure)
    try:
        parent = folder_for_programs(state_dir())
    except Fault as error:
        return Check(name, Health.BROKEN, error.message, error.cure)
    with tempfile.TemporaryDirectory(prefix="stark-doctor-", dir=parent) as folder:
        source, program = Path(folder, "openmp.cpp"), Path(folder, "openmp")
        source.write_text(OPENMP_PROGRAM)
        began = time.monotonic()
        status, text = output([found, "-O2", "-fopenmp", str(source), "-o", str(program)], timeout=60)
        took = time.monotonic() - began
        if status != 0:
            why = next((line for line in text.splitlines() if "error" in line), first_line(text))
            return Check(name, Health.BROKEN, f"{found} cannot compile an OpenMP program: {why}", INSTALL_COMPILER)
        status, threads = output([str(program)])
        if status != 0 or not threads.isdigit():
            why = first_line(threads) or f"exit status {status}"
            cure = "Is the OpenMP library (libgomp or libomp) installed?"
            return Check(name, Health.BROKEN, f"an OpenMP program compiles but does not run: {why}", cure)
    made = first_line(output([found, "--version"])[1]) or found
    return Check(name, Health.GOOD, f"{made}; OpenMP with {threads} threads, compiled in {took:.1f} s")


def ninja(interpreter: str | None) -> Check:
    """Look for ninja on the path and beside the interpreter, where pip puts it."""
    found = shutil.which("ninja", path=search_path(os.environ, interpreter or ""))
    # torch refuses to build any extension without ninja.
    if found is None:
        where = interpreter or "python"
        return Check("ninja", Health.BROKEN, "not found", f"Install it: {where} -m pip install ninja")
    status, text = output([found, "--version"])
    if status != 0:
        return Check("ninja", Health.BROKEN, f"{found} does not run: {first_line(text)}", "Install it again.")
    return Check("ninja", Health.GOOD, version(text))


def gpu() -> Check:
    """Ask the driver for its GPUs."""
    nodes = sorted(Path("/dev").glob("nvidia[0-9]*"))
    smi = shutil.which("nvidia-smi")
    if smi is None and not nodes and not Path("/dev/dxg").exists():
        return Check("GPU", Health.ABSENT, "none found; kernels are optimized for the CPU")
    if smi is None:
        return Check("GPU", Health.ABSENT, "a GPU but no nvidia-smi", "Install the NVIDIA driver with its tools.")
    status, text = output([smi, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    if status != 0 or not text:
        why = first_line(text) or "no answer"
        return Check("GPU", Health.ABSENT, f"the driver does not answer: {why}", "Is the NVIDIA driver loaded?")
    cards = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    names, drivers = [card.rsplit(", ", 1)[0] for card in cards], cards[0].rsplit(", ", 1)[-1]
    many = f"{len(names)} x " if len(names) > 1 else ""
    return Check("GPU", Health.GOOD, f"{many}{names[0]}, driver {drivers}")


def nvcc(*, wanted: bool) -> Check:
    """Look for nvcc where torch does: `CUDA_HOME`, the path, `/usr/local/cuda`; it is `wanted` where there is a GPU."""
    found = find_nvcc(os.environ, "")
    if found is None:
        cure = "Install the CUDA toolkit of the version that torch was built for, and set CUDA_HOME." if wanted else ""
        return Check("nvcc", Health.ABSENT, "not found" if wanted else "not found, and not needed without a GPU", cure)
    status, text = output([found, "--version"])
    release = next((line for line in text.splitlines() if "release" in line), text)
    if status != 0:
        return Check(
            "nvcc", Health.ABSENT, f"{found} does not run: {first_line(text)}", "Install the CUDA toolkit again."
        )
    return Check("nvcc", Health.GOOD, f"{version(release)} at {found}")
