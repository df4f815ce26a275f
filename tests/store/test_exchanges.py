"""What was asked and answered is kept whole, once, and for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import PROBLEM, exchange, run, tree
from store_strategies import anything, exchanges

from stark_lsp.core.conversation import Exchange, Question, Spend, Usage
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.run import Rejection
from stark_lsp.core.status import ModelRole, RunState
from stark_lsp.store import RunStore, rows
from stark_lsp.store import exchanges as module
from stark_lsp.store.nesting import DEEPEST, too_deep


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "state" / "runs.sqlite3")
    made.create(run())
    yield made
    made.close()


def raw(store: RunStore, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(store.path) as connection:
        return connection.execute(query).fetchall()


def kept(store: RunStore, one: Exchange) -> Exchange:
    """Keep an exchange and return what another process would find."""
    store.exchanges.keep("r1", one)
    question = one.question
    again = RunStore(store.path)
    (listed,) = again.exchanges.list("r1", question.attempt)
    assert again.exchanges.find("r1", question.attempt, question.role, question.ordinal) == listed.answer
    again.close()
    return listed


# --- what is kept comes back -----------------------------------------------------------------------


def test_an_exchange_comes_back_as_it_was(store: RunStore) -> None:
    one = exchange()
    assert kept(store, one) == one
    bare = replace(one, question=replace(one.question, attempt=2, tool=None, temperature=None), dollars=None)
    bare = replace(bare, answer=replace(bare.answer, tool_input=None, text=""))
    assert kept(store, bare) == bare


@settings(max_examples=60, deadline=None)
@given(st.lists(exchanges, max_size=4, unique_by=lambda e: (e.question.attempt, e.question.role, e.question.ordinal)))
def test_whatever_is_kept_comes_back(made: list[Exchange]) -> None:
    store = RunStore(":memory:")
    store._database._open = _in_memory(store)  # type: ignore[method-assign]
    store.create(run())
    for one in made:
        store.exchanges.keep("r1", one)
    assert store.exchanges.list("r1") == tuple(made)
    for one in made:
        question = one.question
        assert store.exchanges.find("r1", question.attempt, question.role, question.ordinal) == one.answer
        assert store.exchanges.list("r1", question.attempt) == tuple(
            other for other in made if other.question.attempt == question.attempt
        )
    store.close()


def _in_memory(store: RunStore):  # type: ignore[no-untyped-def]
    """Return an opener of a file in memory: hypothesis makes many."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    from stark_lsp.store.schema import migrate

    migrate(connection, store.path)
    return lambda: connection


def test_what_did_not_arrive_is_not_found(store: RunStore) -> None:
    store.create(run("r2"))
    store.exchanges.keep("r1", exchange(1, ModelRole.PLAN))
    for place in (("r1", 1, ModelRole.CODE, 0), ("r1", 1, ModelRole.PLAN, 1), ("r1", 2, ModelRole.PLAN, 0)):
        assert store.exchanges.find(*place) is None
    assert store.exchanges.find("r2", 1, ModelRole.PLAN, 0) is None
    assert store.exchanges.list("r2") == ()
    assert store.exchanges.spend("r2") == Spend()


def test_exchanges_are_listed_in_the_order_in_which_the_answers_came(store: RunStore) -> None:
    made = [exchange(2), exchange(1), exchange(1, ModelRole.CODE), exchange(2, ModelRole.CODE)]
    for one in made:
        store.exchanges.keep("r1", one)
    assert list(store.exchanges.list("r1")) == made
    assert list(store.exchanges.list("r1", 1)) == made[1:3]


def test_texts_that_no_encoding_has_and_huge_ones_come_back(store: RunStore) -> None:
    odd = exchange(1, body="half \ud800 \udc80 \0 é", text="\udfff\0", tool_input={"\ud800": "\0"}, message="\udcff")
    assert kept(store, odd) == odd
    # Two halves side by side are two halves, not the character that they would stand for.
    halves = exchange(2, body="\ud83d\ude00")
    assert kept(store, halves).question.body == "\ud83d\ude00"
    huge = exchange(3, body="x" * 20_000_000, tool_input={"code": "y" * 5_000_000})
    assert kept(store, huge) == huge


@given(st.text(st.characters(exclude_categories=())) | anything)
def test_every_text_has_bytes_of_its_own(text: str) -> None:
    from stark_lsp.store.texts import to_bytes, to_text

    assert to_text(to_bytes(text)) == text


# --- what was paid for is kept ---------------------------------------------------------------------


def test_keeping_the_same_again_changes_nothing_and_another_one_is_refused(store: RunStore) -> None:
    first = exchange()
    store.exchanges.keep("r1", first)
    store.exchanges.keep("r1", first)
    assert store.exchanges.spend("r1").calls == 1
    for other in (replace(first, dollars=0.5), exchange(text="another answer")):
        with pytest.raises(ValueError, match="another exchange"):
            store.exchanges.keep("r1", other)
    assert store.exchanges.list("r1") == (first,)
    assert len(raw(store, "SELECT 1 FROM texts")) == 6, "a refused exchange leaves no text behind"


def test_an_exchange_is_on_the_disk_before_keep_returns(store: RunStore) -> None:
    def synchronous() -> int:
        with store._database.read() as connection:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    seen: list[str] = []
    with store._database.read() as connection:
        connection.set_trace_callback(seen.append)
    store.exchanges.keep("r1", exchange())
    begun = seen.index("BEGIN IMMEDIATE")
    assert seen[begun - 1] == "PRAGMA synchronous = FULL"
    assert "COMMIT" in seen[begun:]
    assert not any("synchronous" in statement for statement in seen[begun:])
    assert synchronous() == 1, "other writes need not wait for the disk"


def test_a_full_disk_costs_no_exchange_that_was_kept(store: RunStore) -> None:
    with store._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 300")
    made: list[Exchange] = []

    def fill() -> None:
        for attempt in range(1000):
            one = exchange(attempt, body=f"{attempt} " + "x" * 40_000)
            store.exchanges.keep("r1", one)
            made.append(one)

    with pytest.raises(Fault, match=r"disk is full.*What was stored before is kept\."):
        fill()
    assert made
    assert list(RunStore(store.path).exchanges.list("r1")) == made
    assert raw(store, "PRAGMA integrity_check") == [("ok",)]
    with store._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    store.exchanges.keep("r1", exchange(5000))  # room again: it goes on
    assert len(store.exchanges.list("r1")) == len(made) + 1


def test_an_exchange_of_an_unknown_run_is_bad_input(store: RunStore) -> None:
    with pytest.raises(BadInput, match="no run r9 in the store"):
        store.exchanges.keep("r9", exchange())
    with pytest.raises(BadInput, match="no run r9 in the store"):
        store.put_state("r9", "state")


def test_an_answer_that_cannot_be_read_is_not_paid_again_in_silence(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.exchanges.keep("r1", exchange(1))
    store.exchanges.keep("r1", exchange(2))
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE exchanges SET wire = '{}' WHERE attempt = 1")
    with pytest.raises(Fault, match=r"answer of the plan agent in attempt 1 of run r1.*runs delete r1"):
        store.exchanges.find("r1", 1, ModelRole.PLAN, 0)
    assert [one.question.attempt for one in store.exchanges.list("r1")] == [2]
    assert "an exchange of run r1" in caplog.text


# --- texts are kept once ---------------------------------------------------------------------------


def test_what_is_alike_in_all_questions_is_kept_once(store: RunStore) -> None:
    for attempt in range(20):
        store.exchanges.keep("r1", exchange(attempt))
    # System message, shared part and tool once; body, answer and tool's input for each.
    assert len(raw(store, "SELECT 1 FROM texts")) == 3 + 3 * 20


def test_deleting_a_run_deletes_its_exchanges_and_the_texts_nobody_else_uses(store: RunStore) -> None:
    store.create(run("r2"))
    store.exchanges.keep("r1", exchange(1))
    store.exchanges.keep("r2", exchange(2))
    store.add_rejection(PROBLEM.key, Rejection("r1", 1, "too long"))
    store.update(run("r1", RunState.CANCELLED))
    store.delete("r1")
    assert store.exchanges.list("r1") == ()
    assert store.exchanges.list("r2") == (exchange(2),)
    assert len(raw(store, "SELECT 1 FROM texts")) == 6
    store.update(run("r2", RunState.CANCELLED))
    store.delete("r2")
    counts = [raw(store, f"SELECT count(*) FROM {t}")[0][0] for t in ("exchanges", "exchange_texts", "texts")]
    assert counts == [0, 0, 0]
    assert len(store.rejections(PROBLEM.key)) == 1


# --- spend -----------------------------------------------------------------------------------------


def test_spend_adds_up_and_says_what_has_no_price(store: RunStore) -> None:
    store.exchanges.keep("r1", exchange(1, usage=Usage(100, 20, 300, 50), dollars=0.25))
    store.exchanges.keep("r1", exchange(1, ModelRole.CODE, usage=Usage(1, 2, 3, 4), dollars=0.5))
    store.exchanges.keep("r1", exchange(2, usage=Usage(1000, 0, 0, 1), dollars=None))
    assert store.exchanges.spend("r1") == Spend(3, Usage(1101, 22, 303, 55), 0.75, unpriced=1)
    assert store.exchanges.spend("r1", 1) == Spend(2, Usage(101, 22, 303, 54), 0.75)


def test_figures_no_service_should_send_do_not_break_the_sum(store: RunStore) -> None:
    absurd = Usage(10**30, -5, 2**63, 7)
    for attempt in range(5):
        one = exchange(attempt, usage=absurd, dollars=float("nan"))
        store.exchanges.keep("r1", replace(one, answer=replace(one.answer, latency_s=float("nan"))))
    spend = store.exchanges.spend("r1")
    assert spend == Spend(5, Usage(5 * rows.MOST_TOKENS, 0, 5 * rows.MOST_TOKENS, 35), 0.0, unpriced=5)
    answer = store.exchanges.find("r1", 0, ModelRole.PLAN, 0)
    assert answer is not None
    assert answer.usage == absurd, "the record itself has what was claimed"


def test_input_that_is_nested_without_end_is_left_out_and_said(store: RunStore) -> None:
    def nested(levels: int) -> dict[str, object]:
        value: dict[str, object] = {}
        for _ in range(levels - 1):
            value = {"a": [value]} if _ % 2 else {"a": value}
        return value

    deep = kept(store, exchange(1, tool_input=nested(100_000)))
    assert deep.answer.tool_input is None
    assert deep.answer.message == module.TOO_DEEP
    flat = exchange(2, tool_input=nested(20))
    assert kept(store, flat) == flat


@given(st.integers(0, 2 * DEEPEST))
def test_depth_is_counted_in_levels_of_lists_and_objects(levels: int) -> None:
    value: object = "inside"
    for level in range(levels):
        value = [1, value, "b"] if level % 2 else {"a": value, "b": 2}
    assert too_deep(value) == (levels > DEEPEST)


# --- beside exchanges ------------------------------------------------------------------------------


def test_the_engines_state_is_stored_without_a_node(store: RunStore) -> None:
    store.put_node("r1", tree()[0], "first")
    store.put_state("r1", "second")
    assert store.load("r1").rng_state == "second"
    store.exchanges.keep("r1", exchange())
    assert store.load("r1").rng_state == "second", "an exchange leaves the state as it is"


def test_a_run_is_created_with_all_it_has_or_not_at_all(store: RunStore) -> None:
    one = exchange()
    with pytest.raises(ValueError, match="another exchange"):
        store.create(run("r2"), tree(), [one, replace(one, dollars=1.0)])
    assert [each.id for each in store.list()] == ["r1"]
    store.create(run("r2"), tree(), [one])
    assert tuple(store.load("r2").nodes.values()) == tree()
    assert store.exchanges.list("r2") == (one,)


def test_a_question_has_the_same_digest_after_it_was_kept(store: RunStore) -> None:
    question: Question = kept(store, exchange()).question
    assert question.digest == exchange().question.digest
