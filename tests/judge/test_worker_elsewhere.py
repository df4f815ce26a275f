"""What is told of a candidate that was timed in several processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.timing import timing
from stark_lsp.judge.timing.rounds import RoundTimes
from stark_lsp.judge.timing.several import PROCESSES
from stark_lsp.judge.timing.timing import Measured

WAITING = "Launching one call takes the processor {} ms for the original."


def measured(notes: list[str], apart_ms: float = 0.0002) -> Measured:
    """Return what timing a call of 4 us in one process gave."""
    times = RoundTimes({"eager": [[0.008]] * 8, "candidate": [[0.004]] * 8}, early=False)
    times.apart_ms = {"eager": apart_ms, "candidate": apart_ms}
    return Measured(times, [], notes)


def test_what_each_process_says_with_other_figures_is_said_once() -> None:
    launches = iter([0.17, 0.165, 1.2e-1, 0.2, 1.0, 0.3])
    first = measured([WAITING.format(0.16), "The GPU was throttled."])
    found = timing.elsewhere(first, lambda: measured([WAITING.format(next(launches)), "Others used the GPU."]))
    waiting, throttled, others, several = found.notes
    assert waiting == WAITING.format(0.16)
    assert throttled == "The GPU was throttled."
    assert others == "Others used the GPU."
    assert f"in {PROCESSES} processes" in several


def test_one_process_is_enough_where_it_does_not_matter_which() -> None:
    first = measured([], apart_ms=0.0)

    def again() -> Measured:
        raise AssertionError

    assert timing.elsewhere(first, again) is first
