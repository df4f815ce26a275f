"""Children for the user's own code that come up while the judge imports torch, as they have to."""

from __future__ import annotations

import os
from typing import Any

from ..processes.environment import cpu_threads, runner_environment
from ..processes.folders import Folder
from ..processes.spawning import COMPILER, RUNNER, Started, start
from ..timing.rounds import FEWEST

MANY_CORES = 8
"""On fewer, what is not wanted yet is made when it is."""
GPU = ("/dev/nvidiactl", "/dev/dxg")
"""Where there is a GPU, one of these is there: the driver's, or what Windows has in its place."""


def roles(settings: dict[str, Any], *, writing: bool) -> list[str]:
    """Return which there are to be: eager and its twin, what torch.compile makes and, for `Judge.written`, asks."""
    twin = int(settings["rounds"]) >= FEWEST
    compilers = (1 + writing) if settings["compile_baseline"] else 0
    return [RUNNER] * (1 + twin) + [COMPILER] * compilers


def begun(
    problem: dict[str, Any], settings: dict[str, Any], folder: str, cache_dir: str, *, writing: bool
) -> tuple[Started, ...]:
    """Start them, on many cores and for a GPU: what their start takes of a CPU would slow down all else.

    Parameters are those of `judging.Judge`.
    """
    cores = os.cpu_count() or 1
    if problem["device"] == "cpu" or cores < MANY_CORES or not any(map(os.path.exists, GPU)):
        return ()
    environment = runner_environment(cpu_threads("cuda", cores), cache_dir)
    return tuple(start(role, environment, Folder(folder), on_gpu=True) for role in roles(settings, writing=writing))
