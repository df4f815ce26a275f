"""Which layer works on this machine: found by starting it, not by looking versions up."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading

from . import bubblewrap, kernel, landlock, paths, seccomp
from .confine import instructions
from .layers import Choice, Layer, Refused
from .policy import Policy, run_policy

MAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
TRIAL_S = 60.0
"""A trial takes a tenth of a second, with a GPU a few; a driver that just woke up takes longer."""

INSTALL = "Install bubblewrap, for instance: sudo apt install bubblewrap."
APPARMOR = (
    "Let bubblewrap make its sandbox: on Ubuntu 24.04 load the AppArmor profile bwrap-userns-restrict "
    "(sudo apt install apparmor-profiles, then sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict "
    "/etc/apparmor.d/ and sudo systemctl reload apparmor)."
)
CONTAINER = (
    "In a container, allow user namespaces (for Docker: a seccomp profile that permits them), or use a host with "
    "Linux 6.2 or newer, whose Landlock needs none."
)
NEWER = "A kernel with Landlock ABI 3 (Linux 6.2 or newer) would do as well."

_lock = threading.Lock()
_tried: dict[tuple[Layer, bool], tuple[str, str]] = {}


def wrap(layer: Layer, policy: Policy, argv: list[str]) -> list[str]:
    """Return the command that starts `argv` in a layer.

    The started process must confine itself first (`confine`), with the same layer and policy. Start it with an
    environment that holds no secret and with `F/out` as the working directory.

    Raises
    ------
    Refused
        bubblewrap is wanted and not installed.
    """
    if layer is not Layer.BUBBLEWRAP:
        return list(argv)
    bwrap = bubblewrap.program()
    if bwrap is None:
        raise Refused("bubblewrap is not installed.", INSTALL)
    return bubblewrap.command(bwrap, policy, argv)


def choose(wanted: str, *, gpu: bool) -> Choice:
    """Return the layer that candidates run in. Layers are tried once in a process; safe to call from any thread.

    Parameters
    ----------
    wanted
        `auto`: bubblewrap, else Landlock; `strict`: bubblewrap only; `off`: none.

    Raises
    ------
    Refused
        What is wanted does not work here.
    ValueError
        `wanted` is something else.
    """
    if wanted == "off":
        return Choice(Layer.PROCESS, "Isolation is off: candidates run as plain processes with your rights.")
    if wanted not in ("auto", "strict"):
        raise ValueError(f"isolation is auto, strict or off, not {wanted!r}")
    problem, cure = attempt(Layer.BUBBLEWRAP, gpu=gpu)
    if not problem:
        return Choice(Layer.BUBBLEWRAP, "bubblewrap works here.")
    if wanted == "strict":
        raise Refused(f"Strict isolation needs bubblewrap: {problem}", cure)
    other, other_cure = attempt(Layer.LANDLOCK, gpu=gpu)
    if not other:
        return Choice(Layer.LANDLOCK, "bubblewrap does not work here, Landlock does.", cure)
    both = f"No sandbox works here. bubblewrap: {problem} Landlock: {other}"
    raise Refused(both, cure if not other_cure else f"{cure} {other_cure}")


def attempt(layer: Layer, *, gpu: bool) -> tuple[str, str]:
    """Try a layer with a child of its own; the outcome is remembered.

    Returns
    -------
    tuple[str, str]
        What does not work, empty if it works; and what mends it.
    """
    with _lock:
        if (layer, gpu) not in _tried:
            _tried[(layer, gpu)] = _attempt(layer, gpu=gpu)
        return _tried[(layer, gpu)]


def _attempt(layer: Layer, *, gpu: bool) -> tuple[str, str]:
    if not kernel.LINUX:
        return "it exists on Linux only.", "Use Linux, for instance in a virtual machine or a container."
    if not seccomp.supported():
        return f"there is no system call filter for {os.uname().machine}.", "Use a 64-bit x86 or ARM machine."
    if layer is Layer.BUBBLEWRAP and bubblewrap.program() is None:
        return "it is not installed.", INSTALL
    if layer is Layer.LANDLOCK and landlock.abi() < landlock.NEEDED_ABI:
        has = landlock.abi()
        return f"the kernel offers {f'ABI {has} only' if has else 'none'}.", NEWER
    if gpu:
        _wake_gpu()
    try:
        return _try_child(layer, gpu=gpu), _cure(layer)
    except (OSError, subprocess.SubprocessError, Refused) as error:
        return f"it cannot be started ({error}).", _cure(layer)


def _cure(layer: Layer) -> str:
    if layer is Layer.LANDLOCK:
        return NEWER
    restricted = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
    with contextlib.suppress(OSError), open(restricted) as file:
        if file.read().strip() == "1" and os.getuid() != 0:
            return APPARMOR
    contained = any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))) or "container" in os.environ
    return CONTAINER if contained else APPARMOR


def _try_child(layer: Layer, *, gpu: bool) -> str:
    """Start the trial in a layer and return what was wrong, empty for nothing."""
    # Every child imports this module; none but the judge comes here.
    import tempfile

    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++", "cc"))), "") or ""
    with tempfile.TemporaryDirectory(prefix="stark-trial-") as folder:
        policy = run_policy(os.path.join(folder, "child"), gpu=gpu)
        told = [instructions(layer, policy), compiler, "cuda" if gpu else ""]
        argv = [sys.executable, "-I", "-S", MAIN, "trial", *told]
        done = subprocess.run(
            wrap(layer, policy, argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_environment(),
            cwd=policy.out,
            timeout=TRIAL_S,
            check=False,
        )
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    try:
        problems = json.loads(done.stdout)["problems"] if done.returncode == 0 else None
    except (ValueError, KeyError, TypeError):
        problems = None
    if problems is None:
        return f"it does not start ({said[-1] if said else f'exit status {done.returncode}'})."
    return "".join(f"{problem}. " for problem in problems).strip()


def _environment() -> dict[str, str]:
    names = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES")
    return {name: os.environ[name] for name in names if name in os.environ}


def _wake_gpu() -> None:
    """Have the driver make its nodes, which it may not be able to do from inside a sandbox."""
    ready = all(map(os.path.exists, paths.NVIDIA[:2])) or os.path.exists(paths.WSL)
    if paths.gpu_present() and not ready:
        line = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)"
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run([sys.executable, "-I", "-S", "-c", line], capture_output=True, timeout=TRIAL_S, check=False)
