"""What the judge hands to runners on the GPU itself: inputs that stay there, and memory both sides see."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass

import torch

from . import tensorfile
from .exchange import Exchange, Unavailable

WORTH = 8 << 20
"""Bytes of inputs and outputs of a call from which it pays; what is smaller is read from a file at once."""
EXCHANGE_SHARE = 0.2
"""Of the GPU's memory, for the memory that is shared with all children together."""
RESIDENT_SHARE = 0.1
"""Of the GPU's memory, for the inputs that stay there."""
PIECE = 256 << 20
"""Size of the memory by which what does not fit is poured, piece by piece."""
SLACK = 4 << 20
"""Bytes that are lost between tensors, and those of small ones."""


@dataclass(eq=False)
class Resident:
    """Inputs on the GPU by the path of their file; safe to use from several threads."""

    paths: list[str]
    """The files; each is read when it is first wanted."""

    def __post_init__(self) -> None:
        self._loaded: dict[str, tensorfile.Loaded] = {}
        self._lock = threading.Lock()

    def get(self, path: str) -> tensorfile.Loaded | None:
        """Return what a file holds, None if it is not one of those that stay on the GPU."""
        if path not in self.paths:
            return None
        with self._lock:
            if path not in self._loaded:
                self._loaded[path] = tensorfile.load(path, device="cuda")
                # Copied in pieces on this thread's stream; others read it from theirs.
                torch.cuda.synchronize()
            return self._loaded[path]


@dataclass(frozen=True)
class Gpu:
    """What all runners of a judge share with it on the GPU."""

    resident: Resident
    """Inputs that stay there."""
    nbytes: int
    """Size of the memory that each runner shares with the judge; 0 for none."""
    most: int
    """Bytes that may be poured back for one request."""

    def exchange(self) -> Exchange | None:
        """Allocate memory for one runner; None if tensors are to travel by files."""
        if not self.nbytes:
            return None
        try:
            made = Exchange.create(self.nbytes)
            made.most = self.most
            return made
        except Unavailable:
            # Files always work.
            return None


def received(fd: int) -> int:
    """Return the descriptor that was sent to this process (`socket.send_fds`) by the socket `fd`, which stays open.

    Raises
    ------
    Unavailable
        None was.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(fd)) as channel:
        channel.setblocking(False)
        try:
            found = socket.recv_fds(channel, 1, 1)[1]
        except OSError as error:
            raise Unavailable(str(error)) from error
    if not found:
        raise Unavailable("no memory was handed over")
    return found[0]


def exchange_bytes(asked: list[int], answered: list[int], *, children: int, resident: int, total: int) -> int:
    """Return the size of the memory that is shared with each child, 0 if tensors should travel by files.

    Parameters
    ----------
    asked, answered
        Bytes of what goes into one request, and of what comes back, for each kind of request.
    """
    most = max([*asked, *answered], default=0)
    fits = (most + SLACK) * children <= EXCHANGE_SHARE * total and resident <= RESIDENT_SHARE * total
    return most + SLACK if most >= WORTH and fits else 0


def piece_bytes(answered: list[int], *, children: int, total: int) -> int:
    """Return the size of the memory by which answers are poured where they do not fit, 0 if that is not worth it.

    Parameters are as of `exchange_bytes`.
    """
    return PIECE if max(answered, default=0) > PIECE and PIECE * children <= EXCHANGE_SHARE * total else 0


def size_of(paths: list[str]) -> int:
    """Return the bytes of files together."""
    return sum(os.path.getsize(path) for path in paths)
