"""The time limit counts work, not pauses, and can be changed."""

from __future__ import annotations

import asyncio

from stark_lsp.runs.time_limit import TimeLimit


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_seconds_of_a_pause_are_not_counted() -> None:
    clock = Clock()
    limit = TimeLimit(10.0, clock)
    clock.now += 4
    limit.pause(True)
    clock.now += 1000
    assert limit.left is None
    limit.pause(False)
    clock.now += 3
    assert limit.left == 3.0


def test_a_pause_that_is_said_twice_counts_once() -> None:
    clock = Clock()
    limit = TimeLimit(10.0, clock)
    limit.pause(False)
    clock.now += 4
    limit.pause(True)
    limit.pause(True)
    clock.now += 50
    limit.pause(False)
    assert limit.left == 6.0


def test_a_limit_can_be_set_raised_and_lifted() -> None:
    clock = Clock()
    limit = TimeLimit(None, clock)
    assert limit.left is None
    clock.now += 5
    limit.change(8.0)
    assert limit.left == 3.0
    limit.change(20.0)
    assert limit.left == 15.0
    limit.change(None)
    assert limit.left is None


async def test_it_is_reached_once_a_lower_limit_is_set() -> None:
    clock = Clock()
    limit = TimeLimit(1000.0, clock)
    clock.now += 30
    reached = asyncio.create_task(limit.reached())
    await asyncio.sleep(0)
    assert not reached.done()
    limit.change(20.0)
    await asyncio.wait_for(reached, 5)
    assert limit.seconds == 20.0


async def test_it_is_not_reached_during_a_pause() -> None:
    clock = Clock()
    limit = TimeLimit(10.0, clock)
    limit.pause(True)
    clock.now += 100
    reached = asyncio.create_task(limit.reached())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not reached.done()
    clock.now += 100
    limit.pause(False)
    limit.change(0.0)
    await asyncio.wait_for(reached, 5)
