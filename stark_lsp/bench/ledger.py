"""The ledger: every row of a benchmark, one line each, appended and never changed.

A row is on the disk before the next cell begins. A line that was cut off by a kill or a full disk is taken away when
the ledger is opened again; its cell is then run again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from stark_lsp.bench.files import CURE, writing
from stark_lsp.bench.rows import SCHEMA, Row
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.wire import WireError, from_wire, to_wire

NAME = "rows.jsonl"


class Ledger:
    """The rows of one folder, open for appending by this process alone.

    Parameters
    ----------
    folder
        Made if it is not there.

    Raises
    ------
    BadInput
        Another process appends to it.
    Fault
        It cannot be written, or a line cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        with writing("The results", self.path, CURE):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab+")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._end_with_a_line()
            except BlockingIOError as error:
                self.close()
                raise BadInput(
                    "Another benchmark writes to this folder.",
                    path=str(folder),
                    cure="Wait for it, or use another --out.",
                ) from error
            except OSError:
                self.close()
                raise

    def rows(self) -> tuple[Row, ...]:
        """Return the rows so far, of each key the last."""
        return read(self.path)

    def append(self, row: Row) -> None:
        """Add a row; once this returns, no kill and no power cut takes it.

        Raises
        ------
        Fault
            It cannot be written.
        """
        # JSON in ASCII: text of a model may hold what UTF-8 cannot encode.
        line = json.dumps(to_wire(row), allow_nan=False) + "\n"
        with writing("The results", self.path, CURE):
            self._file.write(line.encode("ascii"))
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let others append; safe to call twice."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_with_a_line(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        if data and not data.endswith(b"\n"):
            self._file.truncate(data.rfind(b"\n") + 1)


def read(path: Path) -> tuple[Row, ...]:
    """Return the rows of a ledger in order, of each key the last; a last line that was cut off is left out.

    Raises
    ------
    BadInput
        There is no such file, or a later stark-lsp wrote it.
    Fault
        A line cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"There are no results here: {error.strerror}.", path=str(path)) from error
    found = [_row(line, path, number) for number, line in enumerate(lines[:-1], 1) if line.strip()]
    return latest(found)


def latest(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return of each key the last row, in the order in which the keys came."""
    return tuple({row.key: row for row in rows}.values())


def _row(line: bytes, path: Path, number: int) -> Row:
    try:
        data = json.loads(line)
        if isinstance(data, dict) and isinstance(data.get("schema"), int) and data["schema"] > SCHEMA:
            raise BadInput(
                f"These results have form {data['schema']}, which this stark-lsp does not know.",
                path=str(path),
                line=number,
                cure="Use the stark-lsp that wrote them, or a later one.",
            )
        return from_wire(data, Row)
    except (WireError, ValueError) as error:
        raise Fault(
            "A row cannot be read.",
            path=str(path),
            line=number,
            cure="Take the line out; --resume runs its cell again.",
            details=str(error),
        ) from error
