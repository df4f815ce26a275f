"""Reading and writing the user's file: bytes that are not part of an edit stay as they are.

Encoding (PEP 263), byte-order mark, line endings and permissions are kept. A file is written to a
neighbour first and then moved into place, so that it is never seen half-written, and not at all if it
changed since it was read.
"""

from __future__ import annotations

import dataclasses
import io
import os
import stat
import tempfile
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.editing import LINE_END, Replacement, apply_edits, newline_of
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import DeviceChoice, Mode


@dataclass(frozen=True)
class Document:
    """A file as it was read."""

    path: Path
    raw: bytes
    """Its bytes."""
    encoding: str
    """As Python would read it, for instance `utf-8` or `utf-8-sig`."""
    text: str
    """Its text with `\\n` line ends."""

    @property
    def newline(self) -> str:
        """The line end that most lines have."""
        return newline_of(self.raw.decode(self.encoding))

    def edited(self, edits: Iterable[Replacement]) -> bytes:
        """Return the file's bytes with `edits` applied.

        Parameters
        ----------
        edits
            0-based lines and columns of `text`; they do not overlap.

        Raises
        ------
        BadInput
            The new text cannot be written in the file's encoding.
        """
        ours = [dataclasses.replace(e, new_text=LINE_END.sub(self.newline, e.new_text)) for e in edits]
        try:
            return apply_edits(self.raw.decode(self.encoding), ours).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise BadInput(
                f"The proposal does not fit the file's encoding, {self.encoding}.",
                path=str(self.path),
                cure="Save the file as UTF-8, or use --write module.",
            ) from error


def read(path: Path) -> Document:
    """Read a Python file.

    Raises
    ------
    BadInput
        It is not there, not a file, or not text in the encoding it declares.
    """
    shown = str(path)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BadInput("There is no such file.", path=shown, cure=_did_you_mean(path)) from None
    except IsADirectoryError:
        raise BadInput("This is a folder.", path=shown, cure="Name a Python file in it.") from None
    except OSError as error:
        raise BadInput(f"The file cannot be read: {error.strerror}.", path=shown) from error
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        text = raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(
            "The file is not text in the encoding it declares.", path=shown, cure="Save it as UTF-8."
        ) from error
    if "\0" in text:
        raise BadInput("This is not a Python file: it holds null bytes.", path=shown)
    return Document(path, raw, encoding, LINE_END.sub("\n", text))


def of_text(path: Path, text: str) -> Document:
    """Return the document that `path` was when it held `text`."""
    return Document(path, text.encode(), "utf-8", text)


def target(text: str, option: str | None = None, flag: str = "") -> tuple[str, str | None]:
    """Return file and class of `file.py::Class`; the class may come from an option instead.

    Raises
    ------
    BadInput
        No file is named, or two different classes are.
    """
    file, _, name = text.partition("::")
    if not file:
        raise BadInput("No file is named.", cure="Write it before the class: model.py::Model.")
    if name and option and name != option:
        raise BadInput(f"{text} names one class and {flag} {option} another.", cure="Name it once.")
    return file, name or option or None


def problem(file: str, qualname: str | None, *, mode: Mode, device: DeviceChoice) -> tuple[Document, Problem]:
    """Read a file and return it with the problem of one of its classes.

    Raises
    ------
    BadInput
        As `read` and `make_problem` do.
    """
    from stark_lsp.discovery.problems import make_problem

    document = read(Path(file).absolute())
    return document, make_problem(str(document.path), document.text, qualname, mode=mode, device=device)


def candidate(file: str, name: str | None) -> tuple[Document, Candidate]:
    """Read a file and return it with the candidate in it.

    Raises
    ------
    BadInput
        It cannot be read, or has no such class at module level: a class that the user named and that is not there is
        the user's mistake, and not the candidate's.
    """
    from stark_lsp.discovery.syntax import class_names, parse

    document = read(Path(file).absolute())
    if name:
        try:
            found = class_names(parse(document.text))
        except SyntaxError:
            found = [name]  # that is the candidate's: its verdict tells the line
        if name not in found:
            cure = f"Classes in this file: {', '.join(found)}." if found else "There is no class at its module level."
            raise BadInput(f"there is no class {name} to judge.", cure=cure, path=str(document.path))
    return document, Candidate(document.text, class_name=name or "ModelNew")


def replace(document: Document, new: bytes) -> None:
    """Put `new` in the place of the document's bytes.

    Raises
    ------
    BadInput
        The file changed since it was read; it is left alone.
    Fault
        It cannot be written.
    """
    check_unchanged(document)
    target = Path(os.path.realpath(document.path))  # keep a symbolic link a link
    write(target, new, mode=stat.S_IMODE(target.stat().st_mode))


def check_unchanged(document: Document) -> None:
    """Raise `BadInput` if the file no longer holds what was read from it."""
    try:
        same = document.path.read_bytes() == document.raw
    except OSError:
        same = False
    if not same:
        raise BadInput(
            "The file changed while the search was going on, so nothing was written.",
            path=str(document.path),
            cure="Run the same command again to optimize the class as it is now.",
        )


def create(path: Path, text: str, like: Document) -> None:
    """Write a new file, with the line ends and permissions of `like`.

    Raises
    ------
    BadInput
        There is a file of that name already.
    Fault
        It cannot be written.
    """
    if path.exists():
        raise BadInput("This file exists already and is left alone.", path=str(path), cure="Move it away first.")
    mode = stat.S_IMODE(like.path.stat().st_mode) if like.path.exists() else 0o644
    write(path, text.replace("\n", like.newline).encode(), mode=mode)


def write(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a file atomically.

    Raises
    ------
    Fault
        It cannot be written; what was there before is still there.
    """
    name = ""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is None:
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
        os.chmod(name, mode)
        os.replace(name, path)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise Fault(
            f"The file cannot be written: {error.strerror}.",
            path=str(path),
            cure="Check its folder and the free space.",
        ) from error


def check_writable(path: Path) -> None:
    """Say before a long search, not after it, that a result could not be written to `path`.

    Raises
    ------
    BadInput
        The folder is not there or closed to us, or `path` is itself a folder.
    """
    if path.is_dir():
        raise BadInput("This is a folder.", path=str(path), cure="Name a file in it.")
    if not path.parent.is_dir():
        raise BadInput("There is no such folder.", path=str(path.parent), cure="Create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadInput("This folder cannot be written to.", path=str(path.parent), cure="Choose another one.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _did_you_mean(path: Path) -> str:
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".py"]
    except OSError:
        return f"There is no folder {path.parent} either."
    near = get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else "Check the path."
