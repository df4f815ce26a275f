"""Starting children. Imports no torch, so that some come up while the judge imports it itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .folders import Folder

if TYPE_CHECKING:
    from .confinement import Confinement, Tool

RUNNER = "runner"
COMPILER = "compiler"
BUILDER = "builder"
_FORKING = ThreadPoolExecutor(1, thread_name_prefix="stark-spawner")
"""Starts all children: a parent-death signal (prctl(2), PR_SET_PDEATHSIG) fires when the *thread* that forked ends."""


@dataclass(frozen=True)
class Started:
    """A child that was started."""

    role: str
    """As in `__main__`."""
    process: subprocess.Popen[bytes]
    files: Folder
    """Its private folder."""
    socket: socket.socket | None
    """By which GPU memory is handed over; none for a child that shares none."""
    confinement: Confinement | None
    """What it is kept in; None for the user's own code."""


def start(
    role: str,
    environment: dict[str, str],
    files: Folder,
    *,
    on_gpu: bool,
    confinement: Confinement | None = None,
    tool: Tool | None = None,
) -> Started:
    """Start a child; parameters as of `runners.RunnerProcess`."""
    main = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    command = [sys.executable, "-u", main, role]
    ours, its = socket.socketpair() if on_gpu else (None, None)
    try:
        arguments = [f"cuda:{its.fileno()}"] if its is not None else []
        if confinement is not None:
            command, environment = confinement.apply(role, command, environment, files, arguments=arguments, tool=tool)
        else:
            command = [*command, "", *arguments]
        process = _FORKING.submit(
            subprocess.Popen,
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment,
            cwd=files.out,
            pass_fds=() if its is None else (its.fileno(),),
        ).result()
    except BaseException:
        if ours is not None:
            ours.close()
        raise
    finally:
        if its is not None:
            its.close()
    return Started(role, process, files, ours, confinement)
