"""Folders: where relative paths in settings start.

The server's own working folder means nothing to a user: the editor chooses it, and VS Code's extension has its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stark_lsp.server.text.positions import path_of

if TYPE_CHECKING:
    from stark_lsp.server.client.configuration import Configuration
    from stark_lsp.server.language_server import StarkServer


_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
_BYTES = 1 << 20
"""Longer files are left alone."""


def python_files(folders: Iterable[str], most: int) -> Iterator[Path]:
    """Yield at most so many Python files below folders that people write; those of environments are left out."""
    for folder in folders:
        for place, inside, names in os.walk(folder):
            inside[:] = sorted(
                one
                for one in inside
                if not one.startswith(".")
                and one not in _SKIPPED
                and not os.path.exists(os.path.join(place, one, "pyvenv.cfg"))
            )
            for path in (Path(place, name) for name in sorted(names) if name.endswith(".py")):
                if path.is_file() and path.stat().st_size <= _BYTES:
                    most -= 1
                    if most < 0:
                        return
                    yield path


def folder_of(path: str, folders: Sequence[str]) -> str:
    """Return the innermost of the open `folders` that holds a document, else the first; without any, its own folder."""
    if (holding := innermost(path, folders)) is not None:
        return holding
    return folders[0] if folders else os.path.dirname(path)


def innermost(path: str, folders: Iterable[str]) -> str | None:
    """Return the innermost of the folders that hold a document, None if none does."""
    holding = [folder for folder in folders if path.startswith(folder.rstrip(os.sep) + os.sep)]
    return max(holding, key=len, default=None)


def configuration_of(server: StarkServer, path: str) -> Configuration:
    """Return the settings for a document: its folder's, where several are open, else those of the window."""
    return server.of_folders.get(innermost(path, server.of_folders) or "", server.configuration)


def open_folders(server: StarkServer) -> tuple[str, ...]:
    """Return the folders that are open in the editor; those that are not on this machine are left out."""
    workspace = server.workspace
    uris = [folder.uri for folder in workspace.folders.values()] or [workspace.root_uri]
    paths = [path_of(uri) for uri in uris if uri]
    return tuple(path for path in paths if path)


def settings_folder(server: StarkServer, path: str) -> str:
    """Return the folder that relative paths in settings start from, for a run on the document at `path`."""
    return folder_of(path, open_folders(server))


def resolved(path: str, folder: str | None) -> str:
    """Return a path of the settings as an absolute one; `folder` is where it starts, None for the working folder."""
    return os.path.abspath(os.path.join(folder or "", os.path.expanduser(path)))
