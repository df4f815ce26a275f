"""What must fail in a confined process; tried by the process itself at each start."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator

from ...contract.prctl import prctl
from . import kernel
from .layers import ConfinementFailed, Layer
from .policy import Policy

CLONE_NEWUSER = 0x10000000
DENIED = (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOSYS)
"""How a refusal may look; a file that is out of sight does not exist."""


def check(layer: Layer, policy: Policy) -> None:
    """Try what must not work.

    Raises
    ------
    ConfinementFailed
        Something worked, with what it was; or the child cannot write where it must.
    """
    for what, attempt in forbidden(layer, policy):
        try:
            attempt()
        except OSError as error:
            if error.errno in DENIED:
                continue
            raise ConfinementFailed(f"trying to {what} failed in an unexpected way ({error})") from error
        raise ConfinementFailed(f"it could {what}")
    if prctl(kernel.PR_GET_SECCOMP) != 2:
        raise ConfinementFailed("it has no system call filter")
    if prctl(kernel.PR_GET_NO_NEW_PRIVS) != 1:
        raise ConfinementFailed("it could gain privileges")
    _must_write(policy)


def forbidden(layer: Layer, policy: Policy) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield attempts, each with words for what it tries."""
    yield "read a file that it was not given", lambda: _read(policy.canary)
    yield "change a file that it was not given", lambda: _append(policy.canary)
    yield "change what it is handed in", lambda: _create(os.path.join(policy.inside, ".canary"))
    yield "create a network socket", lambda: os.close(_opened(2))
    if not policy.gpu and not policy.watched:
        yield "create a Unix socket", lambda: os.close(_opened(1))
    elif not (policy.watched and layer is Layer.BUBBLEWRAP):
        # CUDA makes a local socket when it starts; it must reach nobody.
        yield "connect to a Unix socket", lambda: _connect("/nowhere")
    yield "create a user namespace", _unshare
    if layer is Layer.BUBBLEWRAP:
        yield "read the sandbox's own environment", lambda: _read("/proc/1/environ")
    if layer is Layer.LANDLOCK:
        yield "read its parent's environment", lambda: _read(f"/proc/{os.getppid()}/environ")
        yield "signal its parent", lambda: os.kill(os.getppid(), 0)
        yield "list the root folder", lambda: os.listdir("/")


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def _append(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)


def _opened(family: int) -> int:
    """Ask the kernel for a stream socket; without `socket`, whose import takes longer than all the rest."""
    number = int(kernel.libc().socket(family, 1, 0))
    if number < 0:
        raise _error()
    return number


def _connect(path: str) -> None:
    """Ask for a connection to a Unix socket; only the filter refuses, and whatever else it fails of was let through."""
    number = _opened(1)
    try:
        address = ctypes.create_string_buffer((1).to_bytes(2, sys.byteorder) + path.encode() + b"\0")
        if kernel.libc().connect(number, address, len(address)) != 0 and ctypes.get_errno() == errno.EPERM:
            raise _error()
    finally:
        os.close(number)


def _unshare() -> None:
    if kernel.libc().unshare(CLONE_NEWUSER) != 0:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _must_write(policy: Policy) -> None:
    """Write where the child's results go."""
    path = os.path.join(policy.temporary, ".canary")
    try:
        _create(path)
    except OSError as error:
        raise ConfinementFailed(f"it cannot write to its own folder ({error})") from error
