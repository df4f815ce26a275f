"""The command that starts a child in namespaces of its own, with nothing in sight but what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache

from .paths import gpu_nodes, inside, resolve
from .policy import Policy

NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")

NO_MORE = "--disable-userns"
"""Option that forbids further user namespaces inside."""


def program() -> str | None:
    """Return the path of bubblewrap, None if it is not installed."""
    return shutil.which("bwrap")


@lru_cache(maxsize=4)
def options(bwrap: str) -> frozenset[str]:
    """Return the options that this bubblewrap knows and can carry out here; old ones lack some.

    Raises
    ------
    OSError, subprocess.SubprocessError
        It cannot be run.
    """
    done = subprocess.run(
        [bwrap, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10
    )
    known = {word for word in done.stdout.decode("utf-8", "replace").split() if word.startswith("--")}
    if NO_MORE in known:
        # Where it is setuid or /proc/sys is read-only it cannot; the system call filter refuses them as well.
        line = [bwrap, "--unshare-user", NO_MORE, "--ro-bind", "/", "/", shutil.which("true") or "/bin/true"]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
        if done.returncode != 0:
            known.discard(NO_MORE)
    return frozenset(known)


def command(bwrap: str, policy: Policy, argv: list[str]) -> list[str]:
    """Return the command line that runs `argv` under a policy.

    Standard streams pass through. The child's root holds what `policy.read` names, at the same paths; `F/in`
    and `F/out`; a `/tmp` and a `/dev/shm` of its own; its own processes in `/proc`, but not bubblewrap's; `/sys`
    read-only; the GPU's nodes if the policy says so. The environment passes through as well.

    Parameters
    ----------
    bwrap
        Path of bubblewrap, 0.4 or newer.
    """
    known = options(bwrap)
    line = [bwrap, *NAMESPACES, "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if NO_MORE in known:
        line.append(NO_MORE)
    line += ["--hostname", "stark", "--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1", "--dev", "/dev"]
    for place, name in (("/dev/shm", "shm"), ("/tmp", "tmp")):
        if "--size" in known:
            line += ["--size", str(policy.tmp_bytes), "--tmpfs", place]
        else:
            # Unsized, it could take the machine's memory; below F/out it counts as what the child wrote.
            folder = os.path.join(policy.out, "." + name)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            line += ["--bind", folder, place]
    line += ["--ro-bind", "/sys", "/sys"]
    places = resolve(policy.read)
    for path in places.real:
        line += ["--ro-bind", path, path]
    for path, target in places.links:
        # These it fills itself.
        if not any(inside(path, place) for place in ("/proc", "/dev", "/sys")):
            line += ["--symlink", target, path]
    line += ["--ro-bind", policy.inside, policy.inside, "--bind", policy.out, policy.out]
    if policy.gpu:
        for node in gpu_nodes():
            line += ["--dev-bind-try", node, node]
    # Last: a root that was built from nothing is otherwise a writable tmpfs without a bound.
    line += ["--chdir", policy.out, "--remount-ro", "/", "--", *argv]
    return line
