"""Every question of a run with its answer: what was paid for is asked once.

An exchange is one row with what one wants to look for or add up, its wire form without the long texts, and a
reference to each of these.
"""

from __future__ import annotations

import builtins
import json
import logging
import sqlite3
from dataclasses import replace
from typing import Any

from stark_lsp.core.conversation import Answer, Exchange, Spend, Tool, Turn, Usage
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import ModelRole
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.store import rows, texts
from stark_lsp.store.database import Database
from stark_lsp.store.nesting import too_deep

_log = logging.getLogger(__name__)

TOO_DEEP = "What was handed in is nested too deeply to be kept."
"""Message of an answer whose tool input was left out for this reason."""

_UNREADABLE = (WireError, ValueError, KeyError, TypeError, RecursionError)
"""What reading a row raises if something else than this program wrote it."""

_PAID = "SELECT run_id, attempt, input_tokens, cache_write_tokens, cache_read_tokens, output_tokens, dollars"
"""What adds up, of exchanges and of losses."""


class Exchanges:
    """The exchanges of all runs; `RunStore.exchanges`. Every method may raise `Fault`, as those of `RunStore` do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, run_id: str, exchange: Exchange) -> None:
        """Keep an exchange; once this returns, neither a kill nor a power cut takes it.

        Keeping the same one again changes nothing. A tool's input that is nested too deeply (`nesting`) is left
        out, and the answer's message says so.

        Raises
        ------
        BadInput
            The run is not in the store (any more).
        ValueError
            There is another exchange in this place of the run.
        """
        with self._database.write(durable=True) as connection:
            rows.require(connection, run_id)
            write(connection, run_id, exchange)
            rows.touch(connection, run_id, None)

    def find(self, run_id: str, attempt: int, role: ModelRole, ordinal: int) -> Answer | None:
        """Return the answer that arrived in this place of a run, None if there is none."""
        kept = self.get(run_id, attempt, role, ordinal)
        return None if kept is None else kept.answer

    def get(self, run_id: str, attempt: int, role: ModelRole, ordinal: int) -> Exchange | None:
        """Return the exchange in this place of a run, None if there is none."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT number, wire FROM exchanges WHERE run_id = ? AND attempt = ? AND role = ? AND ordinal = ?",
                (rows.plain(run_id), attempt, role.value, ordinal),
            ).fetchone()
            if row is None:
                return None
            number, wire = row
            try:
                return _read(wire, _texts_of(connection, number))
            except _UNREADABLE as error:
                # Asking again would be paid again, so that is for the user to decide.
                raise Fault(
                    f"The answer of the {role.value} agent in attempt {attempt} of run {run_id} cannot be read.",
                    cure=f"Delete the run with `stark-lsp runs delete {run_id}`, or use the stark-lsp that wrote it.",
                    path=str(self._database.path),
                    details=str(error),
                ) from error

    def list(self, run_id: str, attempt: int | None = None) -> tuple[Exchange, ...]:
        """Return the exchanges of a run in the order in which the answers came.

        Parameters
        ----------
        attempt
            Only those of this attempt.
        """
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT number, wire FROM exchanges WHERE run_id = ?1 AND (?2 IS NULL OR attempt = ?2) ORDER BY number",
                (rows.plain(run_id), attempt),
            ).fetchall()
            exchanges: builtins.list[Exchange] = []
            known: dict[str, str] = {}  # what is kept once in the file is kept once in memory too
            for number, wire in found:
                try:
                    exchanges.append(_read(wire, _texts_of(connection, number, known)))
                except _UNREADABLE as error:
                    _log.warning("an exchange of run %s cannot be read and is left out: %s", run_id, error)
        return tuple(exchanges)

    def spend(self, run_id: str, attempt: int | None = None) -> Spend:
        """Return what the calls of a run, or of one attempt of it, cost so far, those without an answer too."""
        with self._database.read() as connection:
            calls, read, written, cached, out, dollars, priced = connection.execute(
                "SELECT count(*), total(input_tokens), total(cache_write_tokens), total(cache_read_tokens),"
                f" total(output_tokens), total(dollars), count(dollars) FROM ({_PAID} FROM exchanges"
                f" UNION ALL {_PAID} FROM losses) WHERE run_id = ?1 AND (?2 IS NULL OR attempt = ?2)",
                (rows.plain(run_id), attempt),
            ).fetchone()
        return Spend(calls, Usage(int(read), int(written), int(cached), int(out)), dollars, calls - priced)


def write(connection: sqlite3.Connection, run_id: str, exchange: Exchange) -> None:
    """Insert an exchange.

    Raises
    ------
    ValueError
        There is another one in its place.
    """
    question, answer = exchange.question, exchange.answer
    answer, handed_in = _handed_in(answer)
    parts = {"system": question.system, "shared": question.shared, "body": question.body, "text": answer.text}
    if question.tool is not None:
        parts["tool"] = rows.to_json(to_wire(question.tool))
    if handed_in is not None:
        parts["tool_input"] = handed_in
    if question.tools:
        parts["tools"] = rows.to_json(to_wire(question.tools))
    # Each by itself: the next question of the conversation has all of them again.
    parts |= {f"turn {number}": rows.to_json(to_wire(turn)) for number, turn in enumerate(question.turns)}
    rest = replace(
        exchange,
        question=replace(question, system="", shared="", body="", tool=None, tools=(), turns=()),
        answer=replace(answer, text="", tool_input=None),
    )
    place = (run_id, question.attempt, question.role.value, question.ordinal)
    values = {
        **dict(zip(("run_id", "attempt", "role", "ordinal"), place, strict=True)),
        "model": rows.plain(answer.model),
        "stop": answer.stop.value,
        **rows.tokens(answer.usage),
        "dollars": exchange.dollars,
        "latency_s": answer.latency_s,
        "answered": rows.plain(exchange.when),
        "wire": rows.to_json(to_wire(rest)),
    }
    references = {part: texts.put(connection, text) for part, text in parts.items()}
    before = connection.execute(
        "SELECT number, wire FROM exchanges WHERE run_id = ? AND attempt = ? AND role = ? AND ordinal = ?", place
    ).fetchone()
    if before is not None:
        number, wire = before
        same = dict(connection.execute("SELECT part, digest FROM exchange_texts WHERE exchange = ?", (number,)))
        if (wire, same) != (values["wire"], references):
            raise ValueError(f"run {run_id} has another exchange in the place {place[1:]}")
        return
    number = rows.insert(connection, "exchanges", values)
    connection.executemany(
        "INSERT INTO exchange_texts (exchange, part, digest) VALUES (?, ?, ?)",
        [(number, part, digest) for part, digest in references.items()],
    )


def _texts_of(connection: sqlite3.Connection, number: int, known: dict[str, str] | None = None) -> dict[str, str]:
    """Return the long texts of an exchange by what they are; `known` holds texts read before, by digest."""
    known = {} if known is None else known
    found: dict[str, str] = {}
    for part, digest in connection.execute(
        "SELECT part, digest FROM exchange_texts WHERE exchange = ?", (number,)
    ).fetchall():
        if digest not in known:
            (body,) = connection.execute("SELECT body FROM texts WHERE digest = ?", (digest,)).fetchone()
            known[digest] = texts.to_text(body)
        found[part] = known[digest]
    return found


def _read(wire: str, parts: dict[str, str]) -> Exchange:
    rest = from_wire(json.loads(wire), Exchange)
    tool = from_wire(json.loads(parts["tool"]), Tool) if "tool" in parts else None
    tools = from_wire(json.loads(parts["tools"]), tuple[Tool, ...]) if "tools" in parts else ()
    count = sum(part.startswith("turn ") for part in parts)
    turns = tuple(from_wire(json.loads(parts[f"turn {number}"]), Turn) for number in range(count))
    handed_in: dict[str, Any] | None = json.loads(parts["tool_input"]) if "tool_input" in parts else None
    return replace(
        rest,
        question=replace(
            rest.question,
            system=parts["system"],
            shared=parts["shared"],
            body=parts["body"],
            tool=tool,
            tools=tools,
            turns=turns,
        ),
        answer=replace(rest.answer, text=parts["text"], tool_input=handed_in),
    )


def _handed_in(answer: Answer) -> tuple[Answer, str | None]:
    """Return the answer as it will be kept, and the tool's input as JSON."""
    if answer.tool_input is None:
        return answer, None
    if too_deep(answer.tool_input):
        return replace(answer, tool_input=None, message=answer.message or TOO_DEEP), None
    return answer, json.dumps(answer.tool_input)
