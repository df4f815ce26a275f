"""The SQLite file: opened at first use, private to the user, one transaction at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stark_lsp.core.errors import Fault
from stark_lsp.store import faults
from stark_lsp.store.paths import make_private_dir
from stark_lsp.store.schema import migrate

BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process that writes."""


class Database:
    """A connection shared by all threads of this process under a lock.

    Write-ahead logging lets other processes read while one writes. With `synchronous=NORMAL` a killed
    process loses nothing; a power cut may lose the last transactions, never the file, and nothing that was
    written as durable (https://www.sqlite.org/pragma.html#pragma_synchronous).

    Parameters
    ----------
    path
        The file; it and its directory are made when first used, for the user alone (0600, 0700).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Give the connection for reading, in one snapshot.

        Raises
        ------
        Fault
            The file cannot be opened or read; names the path and the cure.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Give the connection for writing; all of the block is stored, or nothing.

        Parameters
        ----------
        durable
            Wait until it is on the disk, so that a power cut does not take it either.

        Raises
        ------
        Fault
            The file cannot be opened or written; names the path and the cure.
        """
        with self._transaction("BEGIN IMMEDIATE", durable=durable) as connection:
            yield connection

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self, begin: str, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._open()
            try:
                # Stays as it is until the next transaction: a log that is emptied meanwhile is emptied with this care.
                connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise faults.from_sqlite(error, self.path) from error
            finally:
                if connection.in_transaction:  # after a commit there is none
                    connection.rollback()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                _make_private(self.path)
            except OSError as error:
                raise faults.from_os(error, self.path) from error
            self._connection = _retry_while_busy(lambda: _connect(self.path), self.path)
        return self._connection


def _make_private(path: Path) -> None:
    """Make the directory and the file for the user alone; SQLite gives its side files the same mode."""
    make_private_dir(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        status = os.fstat(descriptor)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # Where write-ahead logging is impossible (some network drives) SQLite keeps its own default.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _retry_while_busy(connect: Callable[[], sqlite3.Connection], path: Path) -> sqlite3.Connection:
    """Open, and wait while another process opens the same new file.

    Switching to write-ahead logging reports a lock at once instead of waiting for it.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return connect()
        except sqlite3.Error as error:
            fault: Fault = faults.from_sqlite(error, path)
            if faults.error_name(error) not in ("BUSY", "LOCKED") or time.monotonic() > deadline:
                raise fault from error
        time.sleep(0.02)
