"""SQLite's and the file system's errors as faults that name the path and the cure."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from stark_lsp.core.errors import Fault
from stark_lsp.store.paths import STATE_DIR_VARIABLE

_OTHER_PLACE = f"or set {STATE_DIR_VARIABLE} to a directory that can be written"

_KNOWN: dict[str, tuple[str, str]] = {
    "FULL": (
        "The disk is full, so the store of runs could not be written. What was stored before is kept.",
        f"Free some space, {_OTHER_PLACE}.",
    ),
    "READONLY": (
        "The store of runs may not be written.",
        f"Give yourself write permission on the file and its directory, {_OTHER_PLACE}.",
    ),
    "CANTOPEN": (
        "The store of runs cannot be opened.",
        f"Check that its directory exists and that you may read and write in it, {_OTHER_PLACE}.",
    ),
    "BUSY": (
        "The store of runs is in use by another process and did not become free in time.",
        "End other stark-lsp processes that hang, then try again.",
    ),
    "CORRUPT": (
        "The store of runs is damaged.",
        "Move the file away to start with an empty store; `sqlite3 FILE .recover` may get its runs back.",
    ),
    "NOTADB": (
        "The file is not a store of runs.",
        "Move it away to start with an empty store.",
    ),
    "IOERR": (
        "The store of runs could not be read or written. What was stored before is kept.",
        f"Check the free space, file size limits and the disk, {_OTHER_PLACE}.",
    ),
}
_KNOWN["LOCKED"] = _KNOWN["PROTOCOL"] = _KNOWN["BUSY"]
_KNOWN["PERM"] = _KNOWN["AUTH"] = _KNOWN["READONLY"]

# `sqlite3_errstr` texts, for Python 3.10, whose exceptions carry no error code.
_TEXTS = {
    "database or disk is full": "FULL",
    "attempt to write a readonly database": "READONLY",
    "unable to open database file": "CANTOPEN",
    "database is locked": "BUSY",
    "database table is locked": "LOCKED",
    "locking protocol": "PROTOCOL",
    "database disk image is malformed": "CORRUPT",
    "file is not a database": "NOTADB",
    "disk I/O error": "IOERR",
    "access permission denied": "PERM",
}

_ERRNO = {
    errno.ENOSPC: "FULL",
    errno.EDQUOT: "FULL",
    errno.EROFS: "READONLY",
    errno.EACCES: "READONLY",
    errno.EPERM: "READONLY",
}


def error_name(error: sqlite3.Error) -> str:
    """Return SQLite's primary result code without its prefix, such as `FULL`; empty if there is none."""
    name = str(getattr(error, "sqlite_errorname", "") or "")
    if not name:
        return _TEXTS.get(str(error), "")
    return name.removeprefix("SQLITE_").split("_")[0]


def from_sqlite(error: sqlite3.Error, path: Path) -> Fault:
    """Return the fault to raise for an error of SQLite."""
    message, cure = _KNOWN.get(
        error_name(error), (f"The store of runs failed: {error}.", "Report this if it happens again.")
    )
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return Fault(message, cure=cure, path=str(path), details=f"{name}: {error}")


def from_os(error: OSError, path: Path) -> Fault:
    """Return the fault to raise when the file or its directory cannot be made."""
    message, cure = _KNOWN[_ERRNO.get(error.errno or 0, "CANTOPEN")]
    return Fault(message, cure=cure, path=str(path), details=str(error))
