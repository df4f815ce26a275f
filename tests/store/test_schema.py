"""The store's file is made once, whoever else looks at it in that moment."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from stark_lsp.core.errors import Fault
from stark_lsp.store.schema import MIGRATIONS, migrate


def connect(path: Path) -> sqlite3.Connection:
    """Open a file as `Database` does, but never wait for a lock."""
    connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def statements_of_opening(folder: Path) -> int:
    """Return how many statements bring a new file up to date."""
    seen: list[str] = []
    connection = connect(folder / "counted.sqlite3")
    connection.set_trace_callback(seen.append)
    migrate(connection, folder / "counted.sqlite3")
    return len(seen)


def test_a_file_that_another_process_makes_between_any_two_looks_is_ours(tmp_path: Path) -> None:
    made = 0
    for moment in range(statements_of_opening(tmp_path)):
        path = tmp_path / f"{moment}.sqlite3"
        first, second = connect(path), connect(path)
        seen: list[str] = []

        def other_makes_it(statement: str) -> None:
            nonlocal made
            seen.append(statement)  # noqa: B023 - called within this turn of the loop
            if len(seen) == moment + 1:  # noqa: B023
                # Once the first one writes, the second has to wait.
                with contextlib.suppress(sqlite3.OperationalError):
                    migrate(second, path)  # noqa: B023
                    made += 1

        first.set_trace_callback(other_makes_it)
        migrate(first, path)
        assert first.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        first.close()
        second.close()
    assert made >= 3


def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite3"
    connection = connect(path)
    connection.execute("CREATE TABLE theirs (name TEXT)")
    with pytest.raises(Fault, match="another program"):
        migrate(connection, path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
