"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import sys

from ...contract.prctl import prctl

LINUX = sys.platform.startswith("linux")
PR_GET_SECCOMP = 21
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
NOROOT = 0x2F
"""SECBIT_NOROOT, NO_SETUID_FIXUP, their locks, and KEEP_CAPS locked off (linux/securebits.h)."""


def libc() -> ctypes.CDLL:
    """Return the C library."""
    return ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """Call the kernel; returns what it returned, or minus errno.

    Parameters
    ----------
    arguments
        Whole numbers, None for a null pointer, or ctypes objects.
    """
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    function = libc().syscall
    function.restype = ctypes.c_long
    result = function(ctypes.c_long(number), *converted)
    return int(result) if result >= 0 else -ctypes.get_errno()


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def drop_capabilities() -> None:
    """Give up every capability for good; matters when the user is root.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    last = 63
    for capability in range(last + 1):
        if prctl(PR_CAPBSET_DROP, capability) < 0:
            # EINVAL past the last one the kernel knows; EPERM when there is none to drop, as for ordinary users.
            break
    prctl(PR_SET_SECUREBITS, NOROOT)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = _Header(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc().capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")


def release() -> tuple[int, int]:
    """Return the kernel's version, major and minor."""
    parts = os.uname().release.split("-")[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return 0, 0
