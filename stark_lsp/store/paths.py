"""Where the store lives: the user's state directory, or what `STARK_STATE_DIR` says."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_state_path

STATE_DIR_VARIABLE = "STARK_STATE_DIR"
"""Environment variable that names another state directory."""


def state_dir() -> Path:
    """Return the state directory as an absolute path; it need not exist."""
    chosen = os.environ.get(STATE_DIR_VARIABLE, "").strip()
    if chosen:
        return Path(chosen).expanduser().absolute()
    return user_state_path("stark-lsp", appauthor=False)


def cache_dir() -> Path:
    """Return where builds are kept between runs."""
    return state_dir() / "builds"


def default_store_path() -> Path:
    """Return the path of the user's store."""
    return state_dir() / "runs.sqlite3"


def make_private_dir(path: Path) -> None:
    """Make a directory that only the user may enter (0700), and those above it; one that exists stays as it is.

    Raises
    ------
    OSError
        It cannot be made.
    """
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
