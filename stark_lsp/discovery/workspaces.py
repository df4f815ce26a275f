"""Which project a file belongs to, by the files around it."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORIES = (".git", ".hg", ".jj", ".svn")
_MARKS = (*REPOSITORIES, "stark.toml", "pyproject.toml")
_ROOT = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


def workspace(path: str) -> str:
    """Return the folder of the project that a file belongs to.

    That is the nearest one above the file that holds a repository, a `stark.toml` or a `pyproject.toml`, but not the
    home directory or one above it; without any, the file's own folder.
    """
    home = Path(os.path.realpath(os.path.expanduser("~")))
    own = Path(os.path.realpath(path)).parent
    for folder in (own, *own.parents):
        if folder == home or folder in home.parents:
            break
        if any((folder / mark).exists() for mark in _MARKS):
            return str(folder)
    return str(own)


def project_root(path: Path) -> Path:
    """Return the nearest folder above a file that is the root of a Python project, else the nearest that is there."""
    there = [folder for folder in path.absolute().parents if folder.is_dir()]
    return next((folder for folder in there if any((folder / mark).exists() for mark in _ROOT)), there[0])
