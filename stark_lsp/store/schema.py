"""The tables, and how a file of an earlier version is brought up to date.

`PRAGMA user_version` holds the version of the file. `MIGRATIONS[n]` leads from version n to n + 1 and is
never changed once released; a new table or column is a new entry.

Words of `core` are kept whole in their wire form, in a column named `wire`; the other columns repeat
what one wants to look for. A run's state of the search has a table of its own, since it is written with
every attempt and the run's row, which holds the user's whole document, is not. The long texts of exchanges stand
in a table of their own, each once: most of a question is alike in all questions of its role.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stark_lsp.core.errors import Fault

APPLICATION_ID = 0x5354524B
"""`PRAGMA application_id` of our files ("STRK"), so that another program's database is not taken for ours."""

_FIRST = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,
        model TEXT NOT NULL,
        state TEXT NOT NULL,
        decision TEXT NOT NULL,
        best INTEGER,
        created TEXT NOT NULL,
        finished TEXT NOT NULL,
        owner_pid INTEGER,
        owner_started TEXT,
        owner_place TEXT,
        wire TEXT NOT NULL
    )
    """,
    "CREATE INDEX runs_by_key ON runs (key, created)",
    "CREATE INDEX runs_by_state ON runs (state)",
    """
    CREATE TABLE states (
        run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
        rng_state TEXT NOT NULL DEFAULT '',
        touched REAL NOT NULL
    )
    """,
    """
    CREATE TABLE nodes (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        id INTEGER NOT NULL,
        parent INTEGER,
        role TEXT NOT NULL,
        dialect TEXT NOT NULL,
        title TEXT NOT NULL,
        wire TEXT NOT NULL,
        PRIMARY KEY (run_id, id)
    )
    """,
    """
    CREATE TABLE verdicts (
        run_id TEXT NOT NULL,
        node INTEGER NOT NULL,
        status TEXT NOT NULL,
        runtime_ms REAL,
        wire TEXT NOT NULL,
        PRIMARY KEY (run_id, node),
        FOREIGN KEY (run_id, node) REFERENCES nodes (run_id, id) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE rejections (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        wire TEXT NOT NULL
    )
    """,
    "CREATE INDEX rejections_by_key ON rejections (key)",
)

_SECOND = (
    """
    CREATE TABLE exchanges (
        number INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        attempt INTEGER NOT NULL,
        role TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        model TEXT NOT NULL,
        stop TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        dollars REAL,
        latency_s REAL,
        answered TEXT NOT NULL,
        wire TEXT NOT NULL,
        UNIQUE (run_id, attempt, role, ordinal)
    )
    """,
    """
    CREATE TABLE texts (
        digest TEXT PRIMARY KEY,
        body BLOB NOT NULL
    )
    """,
    """
    CREATE TABLE exchange_texts (
        exchange INTEGER NOT NULL REFERENCES exchanges (number) ON DELETE CASCADE,
        part TEXT NOT NULL,
        digest TEXT NOT NULL REFERENCES texts (digest),
        PRIMARY KEY (exchange, part)
    )
    """,
    "CREATE INDEX exchange_texts_by_digest ON exchange_texts (digest)",
    # Numbers are never given out again: who follows a run asks for what came after a number.
    """
    CREATE TABLE steerings (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        node INTEGER,
        said TEXT NOT NULL,
        wire TEXT NOT NULL
    )
    """,
    "CREATE INDEX steerings_by_run ON steerings (run_id, number)",
)

_THIRD = (
    """
    CREATE TABLE losses (
        number INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        attempt INTEGER NOT NULL,
        role TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        model TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        cache_read_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        dollars REAL,
        ended TEXT NOT NULL,
        wire TEXT NOT NULL
    )
    """,
    "CREATE INDEX losses_by_run ON losses (run_id, attempt)",
)

_FOURTH = (
    # Notes follow from runs; here is what the user wrote in the place of one, NULL for one to forget.
    """
    CREATE TABLE note_changes (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        node INTEGER NOT NULL,
        text TEXT,
        PRIMARY KEY (run_id, node)
    )
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD, _FOURTH)
"""Statements from version 0 (an empty file) to 1, and so on."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the file up to date, all at once or not at all.

    Raises
    ------
    Fault
        The file belongs to another program, or a newer version of this one wrote it.
    sqlite3.Error
        The file cannot be read or written.
    """
    # Whoever looks does so in one snapshot: otherwise half of what another process makes meanwhile is seen.
    with _transaction(connection, "BEGIN"):
        current = _is_current(connection, path)
    if current:
        return
    with _transaction(connection, "BEGIN IMMEDIATE"):
        if not _is_current(connection, path):  # another process may have been first
            for statements in MIGRATIONS[_version(connection) :]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    version = _version(connection)
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != APPLICATION_ID and (version or tables or owner):
        raise Fault(
            "The file is another program's database, not a store of runs.",
            cure="Move it away, or set STARK_STATE_DIR to another directory.",
            path=str(path),
        )
    if version > len(MIGRATIONS):
        raise Fault(
            f"The store of runs was written by a newer stark-lsp (format {version}, this one knows {len(MIGRATIONS)}).",
            cure="Update stark-lsp, or set STARK_STATE_DIR to another directory.",
            path=str(path),
        )
    return version == len(MIGRATIONS)
