"""Where in the project a base class stands that a file imports, found without running anything."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from stark_lsp.discovery.pieces import Piece, cut, read
from stark_lsp.discovery.workspaces import workspace

LARGEST = 200_000
"""Most bytes of a file that is looked into: an editor waits for it."""


def imported_from(path: str, importer: str) -> tuple[str, str] | None:
    """Return the file of the project that holds an imported name, and the name there; None if there is no such file.

    Parameters
    ----------
    path
        What the name stands for: `.base.Base`, `package.base.Base`.
    importer
        Absolute path of the file that imports it.
    """
    names = path.lstrip(".").split(".")
    level = len(path) - len(path.lstrip("."))
    folders = _folders(importer)
    for folder in folders[level - 1 : level] if level else [*folders, folders[-1] / "src"]:
        for count in range(len(names) - 1, -1 if level else 0, -1):
            place = folder.joinpath(*names[:count])
            for file in ([place.with_suffix(".py")] if count else []) + [place / "__init__.py"]:
                if file.is_file():
                    return str(file), ".".join(names[count:])
    return None


def _folders(file: str) -> list[Path]:
    """Return the folders of the project from which a file's imports may come, its own first."""
    top = Path(workspace(file))
    found: list[Path] = []
    for folder in Path(file).resolve().parents:
        found.append(folder)
        if top not in folder.parents and not (folder / "__init__.py").is_file():
            break
    return found


def pieces_of(file: str) -> tuple[Piece, ...]:
    """Return what a file says, nothing if it cannot be read; it is read once until it is written to."""
    try:
        stamp = Path(file).stat()
        return _read(file, stamp.st_mtime_ns, stamp.st_size) if stamp.st_size <= LARGEST else ()
    except (OSError, UnicodeDecodeError):
        return ()


@lru_cache(maxsize=64)
def _read(file: str, mtime_ns: int, size: int) -> tuple[Piece, ...]:
    return tuple(map(read, cut(Path(file).read_text(encoding="utf-8"))))
