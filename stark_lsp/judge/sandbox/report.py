"""What keeps candidates apart on this machine, as JSON for `stark-lsp doctor`."""

from __future__ import annotations

import json
import sys
from typing import Any

from . import bubblewrap, kernel, landlock, paths
from .layers import Layer, Refused
from .probe import attempt, choose

CLONE_NEWUSER = "import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).unshare(0x10000000) == 0 else 1)"


def main(*, quick: bool = False) -> None:
    """Print the report; a quick one tries no GPU, and only what `auto` and `strict` lead to."""
    found = {wanted: _outcome(wanted, gpu=False) for wanted in ("auto", "strict")} if quick else report()
    sys.stdout.write(json.dumps(found) + "\n")


def report() -> dict[str, Any]:
    """Try every layer.

    Returns
    -------
    dict
        `layers`: for `bubblewrap` and `landlock` whether it `works`, the `problem` and the `cure`; `auto` and
        `strict`: the `layer` that the setting leads to (None: refused), `reason` and `cure`; `gpu`: whether a GPU
        was tried as well; `abi`: Landlock's; `bubblewrap`: its path; `user_namespaces`: whether a process may make one.
    """
    gpu = paths.gpu_present()
    layers = {}
    for layer in (Layer.BUBBLEWRAP, Layer.LANDLOCK):
        problem, cure = attempt(layer, gpu=gpu)
        layers[layer.value] = {"works": not problem, "problem": problem, "cure": cure if problem else ""}
    return {
        "layers": layers,
        "auto": _outcome("auto", gpu=gpu),
        "strict": _outcome("strict", gpu=gpu),
        "gpu": gpu,
        "abi": landlock.abi(),
        "bubblewrap": bubblewrap.program(),
        "user_namespaces": _user_namespaces(),
    }


def _outcome(wanted: str, *, gpu: bool) -> dict[str, Any]:
    try:
        choice = choose(wanted, gpu=gpu)
    except Refused as refused:
        return {"layer": None, "reason": refused.reason, "cure": refused.cure}
    return {"layer": choice.layer.value, "reason": choice.reason, "cure": choice.cure}


def _user_namespaces() -> bool:
    """Return whether a process of this user may make a user namespace."""
    import subprocess

    if not kernel.LINUX:
        return False
    line = [sys.executable, "-I", "-S", "-c", CLONE_NEWUSER]
    return subprocess.run(line, capture_output=True, timeout=20, check=False).returncode == 0
