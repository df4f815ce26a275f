"""Programs of the CUDA toolkit and of compilers: where they are, and what they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

_RELEASE = re.compile(r"release (\d+\.\d+)")


def homes() -> list[str]:
    """Return the folders that the toolkit may be in."""
    return [*filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"))), "/usr/local/cuda"]


def find(name: str, *folders: str) -> str | None:
    """Return the path of a program of the toolkit that torch would use, None if it is not installed.

    Parameters
    ----------
    folders
        Where it may lie, besides `bin` below the toolkit's folder and the path: below that folder, or absolute.
    """
    for home in homes():
        for folder in ("bin", *folders):
            path = os.path.join(home, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return shutil.which(name)


def printed(command: list[str]) -> str:
    """Return what a program prints, nothing if it fails or cannot be run."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def release(nvcc: str) -> str:
    """Return the release of nvcc, for instance `13.0`; nothing if it does not tell."""
    found = _RELEASE.search(printed([nvcc, "--version"]))
    return found[1] if found else ""
