"""The gate before a timed call: launching is not charged to the call, and nothing of a call runs before its clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.timing import (
    clock,
    gate,
    hidden,
)

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

CALLS = list(range(20))


def median_ms(call: Callable[[Any], Any], gate_ms: float = gate.GATE_MS) -> float:
    """Return the median of some calls with empty caches."""
    ticks = clock.Clock("cuda")
    ticks.measure(call, CALLS[:3], lambda number: None)
    return statistics.median(ticks.measure(call, CALLS, lambda number: None, gate_ms=gate_ms))


def test_a_gate_holds_the_device_as_long_as_it_was_told_to() -> None:
    device = gate.Gate()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for milliseconds in (0.2, 2.0):
        device.close(0.01)
        begin.record()
        device.close(milliseconds)
        end.record()
        torch.cuda.synchronize()
        assert milliseconds <= begin.elapsed_time(end) < milliseconds + 0.1


def test_what_the_processor_does_before_a_launch_is_hidden() -> None:
    x = torch.randn(64, 1024, device="cuda")

    def slow_to_launch(arguments: object) -> Any:
        end = time.perf_counter() + 0.0001
        while time.perf_counter() < end:
            pass
        return torch.relu(x)

    assert median_ms(slow_to_launch) < 0.05
    assert median_ms(slow_to_launch, gate_ms=1e-6) > 0.06


def test_a_gate_as_long_as_it_is_chosen_hides_a_slow_launch_and_a_short_one_is_known_not_to() -> None:
    x = torch.randn(64, 1024, device="cuda")

    def slow_to_launch(arguments: object) -> Any:
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
        return torch.relu(x)

    ticks = clock.Clock("cuda")
    launch_ms = ticks.launch_ms(slow_to_launch, CALLS[:5], lambda number: None)
    assert 0.5 <= launch_ms < 2.0
    short = statistics.median(ticks.measure(slow_to_launch, CALLS, lambda number: None))
    assert ticks.late == len(CALLS)
    assert short > 0.25
    length = hidden.length_ms(launch_ms)
    long = statistics.median(ticks.measure(slow_to_launch, CALLS, lambda number: None, gate_ms=length))
    assert hidden.mostly(ticks.late, len(CALLS))
    assert long < 0.05


def test_work_on_another_stream_that_waits_for_nothing_does_not_begin_before_the_clock() -> None:
    side = torch.cuda.Stream()
    cycles = int(150e-6 * 1.5e9)

    def early(arguments: object) -> Any:
        with torch.cuda.stream(side):
            torch.cuda._sleep(cycles)
        torch.cuda.current_stream().wait_stream(side)

    def plain(arguments: object) -> Any:
        torch.cuda._sleep(cycles)

    assert median_ms(early) > 0.9 * median_ms(plain)
