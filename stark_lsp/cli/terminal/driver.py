"""Runs work to its end, and stops it cleanly on Ctrl-C or when the terminal goes away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How work ended."""

    value: T | None = None
    """What it returned, None if it was stopped."""
    signal: int | None = None
    """The signal that stopped it, None if it came to its own end."""


def until_stopped(work: Coroutine[Any, Any, T]) -> Outcome[T]:
    """Run `work`; the first signal cancels it, a second one of the same kind kills this process.

    Raises
    ------
    StarkError
        What `work` raises.
    """
    return asyncio.run(_watch(work))


async def _watch(work: Coroutine[Any, Any, T]) -> Outcome[T]:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        loop.remove_signal_handler(number)
        task.cancel()

    # `nohup` has a hang-up ignored. What a shell runs in the background has Ctrl-C ignored, and is to stop by it.
    minded = [one for one in SIGNALS if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]
    for number in minded:
        loop.add_signal_handler(number, stop, number)
    try:
        return Outcome(await task)
    except asyncio.CancelledError:
        if not received:
            raise
        return Outcome(None, received[0])
    finally:
        for number in minded:
            loop.remove_signal_handler(number)
