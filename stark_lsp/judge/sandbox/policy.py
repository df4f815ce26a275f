"""What a confined child may touch and how much it may take, as plain data that crosses a command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from .paths import read_paths

GIB = 1 << 30
CANARY = "canary"
"""Name of a file in a child's private folder that no confined child can read."""
SECRET = "a confined child that can read this is not confined"


class Policy(NamedTuple):
    """What one child is allowed."""

    folder: str
    """Its private folder F, absolute: `F/in` it reads, `F/out` it writes."""
    read: tuple[str, ...]
    """Files and folders it may read and execute, absolute; links among them are followed."""
    gpu: bool = False
    """Whether it may use NVIDIA's device nodes."""
    watched: bool = False
    """Whether it runs under a tool that talks to it through a local socket (bubblewrap)."""
    tmp_bytes: int = 256 << 20
    """Size of its own `/tmp`, and of its own `/dev/shm` (bubblewrap)."""
    address_bytes: int = 0
    """Limit on the address space (RLIMIT_AS) of each program it starts as a compiler; 0 for none. CUDA reserves
    twice the GPU's memory in address space, so it must be 0 for what uses a GPU."""
    file_bytes: int = 0
    """Limit on the size of one file (RLIMIT_FSIZE); 0 for none."""
    processes: int = 0
    """Limit on processes and threads (RLIMIT_NPROC); 0 for none. Root is exempt from it: watch the tree as well."""
    cpu_s: int = 0
    """Limit on CPU seconds, each process (RLIMIT_CPU); 0 for none."""

    @property
    def inside(self) -> str:
        """`F/in`."""
        return os.path.join(self.folder, "in")

    @property
    def out(self) -> str:
        """`F/out`, its working directory and home."""
        return os.path.join(self.folder, "out")

    @property
    def temporary(self) -> str:
        """Its folder for temporary files, below `F/out`."""
        return os.path.join(self.out, "tmp")

    @property
    def canary(self) -> str:
        """A file that it must not be able to read."""
        return os.path.join(self.folder, CANARY)


def run_policy(folder: str, *, gpu: bool, watched: bool = False, read: Iterable[str] = ()) -> Policy:
    """Return what a process may do that runs a candidate.

    Puts the canary into `folder`, which must exist; `in` and `out` are made if they are missing.

    Parameters
    ----------
    watched
        Whether it runs under a tool such as a memory checker.
    read
        Further files or folders it may read.
    """
    return Policy(
        folder=_prepare(folder),
        read=read_paths(read),
        gpu=gpu,
        watched=watched,
        tmp_bytes=1 * GIB,
        file_bytes=16 * GIB,
        processes=512 + 8 * (os.cpu_count() or 1),
    )


def build_policy(folder: str) -> Policy:
    """Return what a process may do that compiles a candidate: no GPU, and bounds that stop compile bombs.

    The folder is as of `run_policy`.
    """
    return Policy(
        folder=_prepare(folder),
        read=read_paths(),
        tmp_bytes=512 << 20,
        address_bytes=4 * GIB,
        file_bytes=1 * GIB,
        processes=256 + 4 * (os.cpu_count() or 1),
        cpu_s=600,
    )


def _prepare(folder: str) -> str:
    """Return the absolute, link-free path of a private folder that has all its parts."""
    folder = os.path.realpath(folder)
    for name in ("in", "out", os.path.join("out", "tmp")):
        os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
    canary = os.path.join(folder, CANARY)
    if not os.path.exists(canary):
        with open(canary, "w", encoding="ascii") as file:
            file.write(SECRET)
    return folder
