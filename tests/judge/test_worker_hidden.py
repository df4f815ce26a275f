"""How long the gate is that hides launching, and what is said where it does not."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as some

from stark_lsp.judge.timing import clock, gate, hidden, session, timer

LAUNCHES = some.floats(0.0, 50.0)


@given(LAUNCHES, LAUNCHES)
def test_a_gate_hides_a_launch_with_room_and_a_longer_one_for_longer(one: float, other: float) -> None:
    length = hidden.length_ms(one)
    assert gate.GATE_MS <= length <= timer.MOST_LEAD_MS
    assert length >= min(2.0 * one, timer.MOST_LEAD_MS)
    assert (length <= hidden.length_ms(other)) == (one <= other or length == hidden.length_ms(other))


@given(LAUNCHES, some.floats(0.0, 40.0))
def test_it_grows_until_it_hides_what_can_be_hidden(launch: float, needed: float) -> None:
    tried: list[float] = []

    def hides(length: float) -> bool:
        tried.append(length)
        return length >= needed

    found = hidden.needed_ms(launch, hides)
    assert (found is not None) == (needed <= timer.MOST_LEAD_MS)
    if found is not None:
        assert found >= needed
        assert found == tried[-1]
        assert found == tried[0] or found < 2.0 * needed, "no longer than it must be"
    assert len(tried) <= 8


def test_all_sides_get_the_longest_that_hides_something() -> None:
    assert hidden.cover({"eager": 0.2, "compile": 0.6}) == hidden.Cover(0.6, ("eager", "compile"))
    assert hidden.cover({"eager": None, "compile": 0.6}) == hidden.Cover(0.6, ("compile",))
    assert hidden.cover({"eager": None}) == hidden.Cover(gate.GATE_MS, ())


BOTH = ("eager", "compile")


def tally_of(cover: hidden.Cover, *rounds: tuple[str, int]) -> hidden.Tally:
    """Return what was counted in rounds of ten calls."""
    tally = hidden.Tally(cover)
    for name, late in rounds:
        tally.add(name, late, 10)
    return tally


def test_what_was_not_hidden_is_said_of_each_side() -> None:
    rounds = [("eager", 0), ("compile", 6), ("candidate", 10), ("eager", 1), ("compile", 0), ("candidate", 10)]
    tally = tally_of(hidden.Cover(0.8, BOTH), *rounds)
    assert tally.notes() == [
        "Launching what torch.compile made took longer than the 0.8 ms that are hidden in 30 % of its calls.",
        "Launching it took longer than the 0.8 ms that are hidden in 100 % of its calls.",
    ]
    assert tally.hid("eager")
    assert not tally.hid("compile")
    on_cpu = tally_of(hidden.Cover(None), *rounds)
    assert on_cpu.notes() == []
    assert not on_cpu.hid("eager")


def test_it_is_timed_again_with_a_longer_gate_where_launching_was_charged_to_an_original() -> None:
    short = hidden.Cover(0.2, BOTH)
    assert tally_of(short, ("eager", 0), ("compile", 3)).better == hidden.Cover(0.8, BOTH)
    assert tally_of(short, ("eager", 1), ("compile", 2), ("candidate", 10)).better is None, "of the originals"
    assert tally_of(short, ("candidate", 10)).better is None
    late = ("eager", 10)
    assert tally_of(hidden.Cover(9.0, BOTH), late).better == hidden.Cover(timer.MOST_LEAD_MS, BOTH)
    for useless in (hidden.Cover(timer.MOST_LEAD_MS, BOTH), hidden.Cover(0.4, ("compile",)), hidden.Cover(None)):
        assert tally_of(useless, late).better is None


class Bench:
    """Has a gate that seemed long enough."""

    def cover(self, names: list[str]) -> hidden.Cover:
        return hidden.Cover(0.2, BOTH)


class Session:
    """What counts of a session here."""

    def __init__(self, tally: hidden.Tally) -> None:
        self.tally = tally


@pytest.mark.parametrize(("late", "gates"), [((10, 0), [0.2, 0.8]), ((10, 10), [0.2, 0.8]), ((0,), [0.2])])
def test_the_second_session_counts_and_there_is_no_third(late: tuple[int, ...], gates: list[float]) -> None:
    made: list[Any] = []

    def make(tally: hidden.Tally) -> Any:
        tally.add("compile", late[len(made)], 10)
        made.append(tally.gate_ms)
        return Session(tally)

    found = session.covered(Bench(), ["eager", "compile"], make)  # type: ignore[arg-type]
    assert found.tally.gate_ms == gates[-1]
    assert made == gates


def test_that_waiting_counts_is_said_where_launching_takes_longer_than_the_work() -> None:
    assert hidden.waiting_counts(0.08, 0.01, 0.05) == []
    assert hidden.waiting_counts(0.4, 0.01, 0.5) == []
    (said,) = hidden.waiting_counts(1.234, 0.05, 0.5)
    assert said.startswith("Launching one call takes the processor 1.2 ms for the original; for the kernel 0.05 ms, by")


class Event:
    """An event of a device that is done with it once `now` is reached."""

    now = 0.0

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0


def test_calls_that_are_launched_after_the_gate_has_opened_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    opens = [0.0]

    class Gate:
        """Opens so many units of time after it was closed."""

        def close(self, milliseconds: float) -> None:
            opens[0] = Event.now + milliseconds

    def record(event: Any) -> None:
        event.at = opens[0]

    def call(number: Any) -> None:
        # Every third takes longer to launch than the gate is closed.
        Event.now += 3.0 if number % 3 == 0 else 1.0

    monkeypatch.setattr(clock.gate, "Gate", Gate)
    monkeypatch.setattr(clock, "_Event", Event)
    monkeypatch.setattr(clock, "_record", record)
    monkeypatch.setattr(clock, "_elapsed", lambda begin, end: end.at - begin.at)
    monkeypatch.setattr(clock, "_done", lambda event: Event.now >= event.at)
    monkeypatch.setattr(clock, "_synchronize", lambda: None)
    ticks = clock.Clock("cuda")
    ticks.measure(call, list(range(9)), lambda number: number, flush=False, gate_ms=2.0)
    assert ticks.late == 3
    ticks.measure(call, [1, 2], lambda number: number, flush=False, gate_ms=2.0)
    assert ticks.late == 0, "of the last measurement only"
    assert ticks.launch_ms(call, [1, 2, 3], lambda number: number) >= 0.0
