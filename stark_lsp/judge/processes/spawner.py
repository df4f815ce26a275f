"""Starts processes from one thread that lives as long as the judge.

A parent-death signal (prctl(2), PR_SET_PDEATHSIG) fires when the *thread* that forked the child ends.
Attempts run in threads that come and go, so all children are started here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor


class Spawner:
    """Starts children with piped standard streams, each in a session of its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stark-spawner")

    def start(
        self, command: list[str], environment: dict[str, str], folder: str, keep: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a process.

        Parameters
        ----------
        folder
            Its working directory.
        keep
            File descriptors it inherits besides the standard streams.

        Raises
        ------
        OSError
            The program cannot be run.
        """
        return self._thread.submit(_start, command, environment, folder, tuple(keep)).result()


def _start(
    command: list[str], environment: dict[str, str], folder: str, keep: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
        cwd=folder,
        pass_fds=keep,
    )
