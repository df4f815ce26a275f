"""Checks of what can keep a candidate apart from the rest of the machine. Each is tried, not looked up."""

from __future__ import annotations

import ctypes
import platform
import shutil
import sys

from stark_lsp.cli.health import Check, Health, first_line, output, version

LANDLOCK_CREATE_RULESET = 444
"""System call number, the same on x86-64 and arm64 (linux/landlock.h, Linux 5.13)."""
LANDLOCK_CREATE_RULESET_VERSION = 1
"""Flag: return the ABI version instead of making a ruleset."""

UNSHARE_USER = "import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 1)"
"""A program that enters a new user namespace (CLONE_NEWUSER), for a process of its own."""

APPARMOR_CURE = "On Ubuntu 24.04 load the AppArmor profile bwrap-userns-restrict (package apparmor-profiles)."


def checks() -> tuple[Check, ...]:
    """Return what is there of bubblewrap, user namespaces and Landlock."""
    return (bubblewrap(), user_namespaces(), landlock())


def bubblewrap() -> Check:
    """Start an empty sandbox."""
    found = shutil.which("bwrap")
    if found is None:
        return Check("bubblewrap", Health.ABSENT, "not found", "Install it, for instance: sudo apt install bubblewrap.")
    number = version(output([found, "--version"])[1])
    true = shutil.which("true") or "/bin/true"
    options = ["--unshare-user", "--unshare-pid", "--unshare-net", "--die-with-parent", "--ro-bind", "/", "/"]
    status, text = output([found, *options, true])
    if status != 0:
        detail = f"{number}, but it cannot make a sandbox here: {first_line(text) or f'exit status {status}'}"
        return Check("bubblewrap", Health.ABSENT, detail, APPARMOR_CURE)
    return Check("bubblewrap", Health.GOOD, f"{number}, makes a sandbox")


def user_namespaces() -> Check:
    """Enter a user namespace in a child process."""
    status, _ = output([sys.executable, "-I", "-S", "-c", UNSHARE_USER])
    if status != 0:
        return Check("user namespaces", Health.ABSENT, "not allowed here", APPARMOR_CURE)
    return Check("user namespaces", Health.GOOD, "allowed")


def landlock() -> Check:
    """Ask the kernel for its Landlock ABI; /sys/kernel/security does not tell on every machine."""
    abi = -1
    if platform.system() == "Linux":
        libc = ctypes.CDLL(None, use_errno=True)
        abi = libc.syscall(
            ctypes.c_long(LANDLOCK_CREATE_RULESET),
            None,
            ctypes.c_size_t(0),
            ctypes.c_uint32(LANDLOCK_CREATE_RULESET_VERSION),
        )
    if abi < 1:
        return Check("Landlock", Health.ABSENT, "the kernel does not offer it", "It needs Linux 5.13 or newer.")
    return Check("Landlock", Health.GOOD, f"ABI {abi}")
