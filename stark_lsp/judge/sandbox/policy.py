"""What a confined child may touch and how much it may take, as plain data that crosses a command line."""

from __future__ import annotations

import json
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
    write: tuple[str, ...]
    """Folders it may change."""
    gpu: bool = False
    """Whether it may use NVIDIA's device nodes."""
    watched: bool = False
    """Whether it runs under a tool that talks to it through a local socket (bubblewrap)."""
    tmp_bytes: int = 256 << 20
    """Size of its own `/tmp`, and of its own `/dev/shm` (bubblewrap)."""
    memory_bytes: int = 0
    """Limit on its private writable memory (RLIMIT_DATA), each process; 0 for none."""
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

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError
            The text is not a policy.
        """
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError("a policy is a JSON object")
        try:
            return cls(**{**fields, "read": tuple(fields["read"]), "write": tuple(fields["write"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a policy: {error}") from error


def run_policy(
    folder: str,
    *,
    gpu: bool,
    watched: bool = False,
    read: Iterable[str] = (),
    tmp_bytes: int = 1 * GIB,
    memory_bytes: int = 0,
    file_bytes: int = 16 * GIB,
    processes: int = 0,
    cpu_s: int = 0,
) -> Policy:
    """Return what a process may do that runs a candidate.

    Puts the canary into `folder`, which must exist; `in` and `out` are made if they are missing.

    Parameters
    ----------
    folder
        The child's private folder.
    gpu
        Whether it computes on a GPU.
    watched
        Whether it runs under a tool such as a memory checker.
    read
        Further files or folders it may read.
    processes
        0 for a number that grows with the machine's cores.
    """
    return Policy(
        folder=_prepare(folder),
        read=read_paths(read),
        write=(os.path.join(_prepare(folder), "out"),),
        gpu=gpu,
        watched=watched,
        tmp_bytes=tmp_bytes,
        memory_bytes=memory_bytes,
        file_bytes=file_bytes,
        processes=processes or 512 + 8 * (os.cpu_count() or 1),
        cpu_s=cpu_s,
    )


def build_policy(
    folder: str,
    *,
    read: Iterable[str] = (),
    write: Iterable[str] = (),
    tmp_bytes: int = 512 << 20,
    address_bytes: int = 4 * GIB,
    file_bytes: int = 1 * GIB,
    processes: int = 0,
    cpu_s: int = 600,
) -> Policy:
    """Return what a process may do that compiles a candidate: no GPU, and bounds that stop compile bombs.

    Parameters
    ----------
    folder
        The child's private folder; see `run_policy`.
    write
        Further folders it may change.
    """
    return Policy(
        folder=_prepare(folder),
        read=read_paths(read),
        write=(os.path.join(_prepare(folder), "out"), *(os.path.abspath(path) for path in write)),
        tmp_bytes=tmp_bytes,
        address_bytes=address_bytes,
        file_bytes=file_bytes,
        processes=processes or 256 + 4 * (os.cpu_count() or 1),
        cpu_s=cpu_s,
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
