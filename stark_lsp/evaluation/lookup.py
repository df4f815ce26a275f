"""Which Python a file is judged under: the first of these that is there and may be run.

1. The one that the user named.
2. An environment in the file's folder or one above it: `.venv`, `venv`, `.conda`, what `UV_PROJECT_ENVIRONMENT` names,
   what poetry made for a project. The way up ends at the workspace's root, the repository's or the home directory,
   whichever comes first; without any of them, before the first folder that others may write.
3. The activated environment: `VIRTUAL_ENV`, else `CONDA_PREFIX`.
4. What a `.python-version` on the same way up names, if pyenv has it.
5. The interpreter this program runs under; if that has no torch, the `python3` or `python` of the path.

Nobody named what is found by 2 and 4, so it must belong to the user or root, and nobody else may be able to write it
(`ownership`). What was passed over is told.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stark_lsp.core.errors import BadInput
from stark_lsp.discovery.workspaces import REPOSITORIES
from stark_lsp.evaluation.ownership import objection, writable_by_others

ENVIRONMENTS = (".venv", "venv", ".conda")
"""Names of the folders that environments are kept in."""


@dataclass(frozen=True)
class Interpreter:
    """The interpreter for a file."""

    path: str
    why: str
    """What led to it, to be read after the path: `the environment /project/.venv`."""
    passed_over: tuple[str, ...] = ()
    """What would have come first and may not be run or does not work; a sentence each."""

    def __str__(self) -> str:
        """Return one line for a log."""
        return " ".join([f"{self.path} ({self.why}).", *self.passed_over])


@dataclass(frozen=True)
class _Found:
    """Something that may be an environment."""

    folder: Path
    why: str
    trusted: bool = False
    """Whether the user named it."""


def find_interpreter(explicit: str | None, path: str, roots: Iterable[str] = ()) -> Interpreter:
    """Return the interpreter for a file.

    Parameters
    ----------
    explicit
        What the user set: a path of an interpreter or of an environment, `~` allowed, or None.
    path
        The user's file.
    roots
        The folders that are open in the editor; in a terminal, the working folder.

    Raises
    ------
    BadInput
        The explicit one does not exist or cannot be run.
    """
    if explicit:
        return Interpreter(_explicit(explicit), "as set or chosen in the editor, or by --python")
    passed_over: list[str] = []
    folders = tuple(way_up(path, roots))
    named = [(name, os.environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)]
    activated = [_Found(Path(folder), f"{name} names {folder}", trusted=True) for name, folder in named]
    for found in (*_in_project(folders, os.environ), *activated, *_versions(folders, os.environ)):
        python = _python_in(found.folder)
        if python is None:
            if (found.folder / "pyvenv.cfg").is_file():
                passed_over.append(f"Passed over {found.folder}: its Python cannot be run.")
            continue
        why = "" if found.trusted else objection(str(found.folder), python)
        if not why:
            return Interpreter(python, found.why, tuple(passed_over))
        passed_over.append(f"Passed over {found.folder}: {why}. To use it all the same, set stark.interpreter to it.")
    return Interpreter(*_last_resort(), tuple(passed_over))


def way_up(path: str, roots: Iterable[str] = (), home: str | None = None) -> Iterator[Path]:
    """Yield the folders in which an environment for a file is looked for, the nearest first.

    Parameters
    ----------
    path
        The file.
    roots
        As for `find_interpreter`.
    home
        The home directory; None takes the user's.
    """
    ends = {os.path.realpath(root) for root in (*roots, home or os.path.expanduser("~"))}
    start = Path(os.path.abspath(path)).parent
    chain = (start, *start.parents)
    last = next(
        (
            index
            for index, folder in enumerate(chain)
            if os.path.realpath(folder) in ends or any((folder / name).exists() for name in REPOSITORIES)
        ),
        None,
    )
    if last is not None:
        yield from chain[: last + 1]
        return
    yield start
    for folder in start.parents:
        if writable_by_others(str(folder)):
            return
        yield folder


def _explicit(named: str) -> str:
    found = os.path.abspath(os.path.expanduser(named))
    if os.path.isdir(found):
        found = _python_in(Path(found)) or found
    if not (os.path.isfile(found) and os.access(found, os.X_OK)):
        raise BadInput(
            f"There is no Python interpreter at {named}.",
            cure="Check the setting stark.interpreter or the option --python.",
        )
    return found


def _in_project(folders: Iterable[Path], environ: Mapping[str, str]) -> Iterator[_Found]:
    from stark_lsp.evaluation import poetry

    uv = environ.get("UV_PROJECT_ENVIRONMENT", "")
    for folder in folders:
        project = (folder / "pyproject.toml").is_file()
        if uv and project:
            named = folder / os.path.expanduser(uv)
            yield _Found(named, f"UV_PROJECT_ENVIRONMENT names {named}", trusted=os.path.isabs(uv))
        for name in ENVIRONMENTS:
            yield _Found(folder / name, f"the environment {folder / name}")
        if project:
            for made in poetry.environments(folder, environ):
                yield _Found(made, f"the environment that poetry made for {folder}")


def _versions(folders: Iterable[Path], environ: Mapping[str, str]) -> Iterator[_Found]:
    """Yield what the nearest `.python-version` names; pyenv's own rule, environments of pyenv-virtualenv included."""
    versions = Path(environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"), "versions")
    for folder in folders:
        file = folder / ".python-version"
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError):
            continue
        for name in (line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")):
            if "/" in name or name.startswith("."):
                continue
            exact = versions / name
            begun = sorted(versions.glob(f"{name}.*"), key=_number) if versions.is_dir() and not exact.exists() else []
            yield _Found(begun[-1] if begun else exact, f"{file} names {name}")
        return


def _number(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in folder.name.split("."))


def _last_resort() -> tuple[str, str]:
    own = sys.executable, "the Python stark-lsp runs under, since there is no environment of your project"
    if importlib.util.find_spec("torch") is not None:
        return own
    for name in ("python3", "python"):
        found = shutil.which(name)
        if found is not None and os.path.realpath(found) != os.path.realpath(sys.executable):
            return found, f"the {name} of the path, since there is no environment of your project"
    return own


def _python_in(folder: Path) -> str | None:
    """Return the interpreter of an environment, None if the folder is none."""
    for name in ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe"):
        found = folder / name
        if found.is_file() and os.access(found, os.X_OK):
            return str(found)
    return None
