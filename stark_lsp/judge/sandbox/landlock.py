"""Landlock: the kernel refuses this process every file that it was not given (linux/landlock.h)."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from . import kernel
from .paths import PLAIN, gpu_nodes
from .policy import Policy

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System call numbers, the same on every architecture."""
VERSION = 1
"""Flag: return the ABI version instead of making a ruleset."""
PATH_BENEATH = 1
"""Rule type."""
NEEDED_ABI = 3
"""Linux 6.2: the first that also keeps a process from truncating files."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE = 1 << 13, 1 << 14
IOCTL_DEV = 1 << 15
"""From ABI 5."""
TCP = 0b11
"""Binding and connecting TCP sockets, from ABI 4."""
SCOPES = 0b11
"""Abstract Unix sockets and signals to processes outside, from ABI 6."""
SCOPES_ABI = 6

READING = EXECUTE | READ_FILE | READ_DIR
CHANGING = (
    READING | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE
)
USING = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV | READ_DIR
"""Of a device node, or a folder of them."""
OF_A_FILE = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
"""The rights that make sense on something other than a folder."""

SYSTEM = (
    "/sys",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/devices",
    "/proc/filesystems",
    "/proc/modules",
    "/proc/driver",
    "/proc/sys",
)
"""What libraries ask the kernel. Of processes, a child may look at itself only."""

_kept: list[int] = []
"""Descriptors that live as long as the process: a rule on a file in /proc counts while the file is held."""


def abi() -> int:
    """Return the kernel's Landlock ABI, 0 if it offers none."""
    return max(0, kernel.syscall(CREATE_RULESET, None, 0, VERSION)) if kernel.LINUX else 0


def handled(version: int) -> tuple[int, int, int]:
    """Return all rights on files, on the network, and all scopes, that an ABI from `NEEDED_ABI` on can hold back."""
    files = (1 << 15) - 1 | (IOCTL_DEV if version >= 5 else 0)
    return files, TCP if version >= 4 else 0, SCOPES if version >= SCOPES_ABI else 0


def restrict(policy: Policy) -> int:
    """Confine this process, and all it will start, to what a policy allows; needs no-new-privileges.

    Returns
    -------
    int
        The ABI that holds it.

    Raises
    ------
    OSError
        The kernel cannot, or its ABI covers too little.
    """
    version = abi()
    if version < NEEDED_ABI:
        raise OSError(f"Landlock ABI {NEEDED_ABI} is needed, the kernel has {version or 'none'}")
    files, network, scopes = handled(version)
    attributes = struct.pack("<QQQ", files, network, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = kernel.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(-ruleset, f"landlock_create_ruleset: {os.strerror(-ruleset)}")
    try:
        _allow(ruleset, (*policy.read, policy.inside, *SYSTEM), READING & files)
        _allow(ruleset, (policy.out,), CHANGING & files)
        _allow(ruleset, PLAIN, USING & files)
        if policy.gpu:
            _allow(ruleset, gpu_nodes(), USING & files)
        # CUDA names its threads through /proc/self/task, in files that it opens to be written anew.
        _allow(ruleset, ("/proc/self",), (READING | WRITE_FILE | TRUNCATE) & files, keep=True)
        result = kernel.syscall(RESTRICT_SELF, ruleset, 0)
        if result < 0:
            raise OSError(-result, f"landlock_restrict_self: {os.strerror(-result)}")
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, paths: Iterable[str], rights: int, *, keep: bool = False) -> None:
    """Add a rule for each path that exists."""
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            # Not on this machine, or not for this user: then it is not allowed either.
            continue
        try:
            wanted = rights if stat.S_ISDIR(os.fstat(place).st_mode) else rights & OF_A_FILE
            rule = ctypes.create_string_buffer(struct.pack("<Qi", wanted, place), 12)
            result = kernel.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0)
            if result < 0:
                raise OSError(-result, f"landlock_add_rule {path}: {os.strerror(-result)}")
        finally:
            if keep:
                _kept.append(place)
            else:
                os.close(place)
