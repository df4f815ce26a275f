"""Children that come up while the judge imports torch, as they have to: it takes seconds."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .. import sandbox
from ..processes.confinement import Confinement
from ..processes.environment import cpu_threads, runner_environment
from ..processes.folders import Folder
from ..processes.spawning import COMPILER, RUNNER, Started, start
from ..sandbox.paths import gpu_present
from ..timing.rounds import FEWEST

MANY_CORES = 8
"""On fewer, what is not wanted yet is made when it is."""


def roles(settings: dict[str, Any], *, writing: bool) -> list[str]:
    """Return those for the user's own code: eager and its twin, torch.compile and, for `Judge.written`, Inductor."""
    twin = int(settings["rounds"]) >= FEWEST
    compilers = (1 + writing) if settings["compile_baseline"] else 0
    return [RUNNER] * (1 + twin) + [COMPILER] * compilers


def begun(
    problem: dict[str, Any], settings: dict[str, Any], folder: str, cache_dir: str, *, writing: bool
) -> Future[tuple[Started, ...]]:
    """Start them beside whatever goes on, and one for the first candidate, as if it imported nothing of the project.

    Only on many cores and for a GPU: what their start takes of a CPU would slow down all else. Parameters are those of
    `judging.Judge`.
    """
    cores = os.cpu_count() or 1
    wanted = problem["device"] != "cpu" and cores >= MANY_CORES and gpu_present()

    def start_all() -> tuple[Started, ...]:
        if not wanted:
            return ()
        environment = runner_environment(cpu_threads("cuda", cores), cache_dir)
        made = [start(role, environment, Folder(folder), on_gpu=True) for role in roles(settings, writing=writing)]
        # What is wrong with it is told once the class is loaded.
        with contextlib.suppress(sandbox.Refused):
            confinement = Confinement(sandbox.choose(str(settings["isolation"]), gpu=True).layer, gpu=True)
            made.append(start(RUNNER, environment, Folder(folder), on_gpu=True, confinement=confinement))
        return tuple(made)

    thread = ThreadPoolExecutor(1, thread_name_prefix="stark-early")
    found = thread.submit(start_all)
    thread.shutdown(wait=False)
    return found
