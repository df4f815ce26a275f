"""Do ahead, in a process that waits for its candidate, what any candidate would otherwise wait for."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile
from typing import Any
from unittest import mock

import torch

from ..reference.loading import module_at
from ..timing.timed import Timed

DRIVER = "triton-driver"
"""Folder among the temporary files where Triton keeps what it compiles for itself."""
REHEARSED = (torch.float32, torch.float16, torch.bfloat16)
"""Types of numbers that most models compute with."""
KERNEL = """
import triton
import triton.language as tl


@triton.jit
def add_one(x, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(x + place, tl.load(x + place) + 1.0)
"""


def load(device: str, *, missing: bool = False) -> None:
    """Import what candidates import: what builds extensions, for a GPU also Triton, where it is installed.

    Parameters
    ----------
    missing
        Only that of which Python has kept no bytecode yet, as where uv installed it: a candidate's process, which may
        write none, would compile a thousand files each time.
    """
    for name in ("torch.utils.cpp_extension", "triton") if device == "cuda" else ("torch.utils.cpp_extension",):
        # What is missing or broken is told to a candidate that needs it.
        with contextlib.suppress(ImportError):
            if not missing or _uncompiled(name):
                importlib.import_module(name)


def _uncompiled(name: str) -> bool:
    """Whether Python would keep bytecode of a module, and has not yet."""
    spec = importlib.util.find_spec(name)
    if sys.dont_write_bytecode or spec is None or not spec.origin or not spec.cached:
        return False
    return not os.path.exists(spec.cached) and os.access(os.path.dirname(spec.origin), os.W_OK)


def load_inductor() -> None:
    """Import what torch.compile needs, which takes twice as long as importing torch."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch._inductor.compile_fx")


def use_gpu(timed: Timed) -> None:
    """Start using the GPU, and Triton where it is installed, and time something.

    Whatever fails here fails again for a candidate that needs it, where it can be told.
    """
    try:
        ones = torch.ones(128, device="cuda")
        if importlib.util.find_spec("triton") is not None:
            # Elsewhere than the candidate's kernels, which are kept.
            with mock.patch.dict(os.environ, TRITON_CACHE_DIR=os.path.join(tempfile.gettempdir(), DRIVER)):
                _launch(ones)
        rehearse(timed, "cuda")
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - told; it is no candidate's fault yet
        print(f"Not everything could be made ready: {type(error).__name__}: {error}", file=sys.stderr)


def rehearse(timed: Timed, device: str) -> None:
    """Time a small call as a candidate's are timed: each kernel of torch is loaded on the GPU when it is first used.

    Nothing of it is held afterwards.
    """
    try:
        for dtype in REHEARSED:
            tensors = [torch.linspace(-1.0, last, 1024, device=device).to(dtype).view(32, 32) for last in (1.0, 2.0)]
            sets: list[Any] = [((tensor,), {}) for tensor in tensors]
            timed.hold(lambda arguments: torch.relu(arguments[0][0]), sets, device, warmup=1, round_ms=1.0)
            del tensors, sets
    finally:
        timed.let_go()
        if device == "cuda":
            torch.cuda.empty_cache()


def _launch(tensor: torch.Tensor) -> None:
    """Compile and run a small kernel: Triton reads all of itself, and builds its launcher, before the first."""
    path = os.path.join(tempfile.gettempdir(), "stark_add_one.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(KERNEL)
    module_at("stark_add_one", path).add_one[(1,)](tensor, SIZE=128)
