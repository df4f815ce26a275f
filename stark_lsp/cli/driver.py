"""Runs a session to its end, and stops it cleanly on Ctrl-C or when the terminal goes away."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

from stark_lsp.core.run import Run
from stark_lsp.runs.session import RunSession

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ending:
    """How a session ended."""

    run: Run
    signal: int | None = None
    """The signal that stopped it, None if it came to its own end."""


def drive(session: RunSession) -> Ending:
    """Run `session`; the first signal cancels it, a second one of the same kind kills this process.

    Raises
    ------
    StarkError
        What `RunSession.execute` raises.
    """
    return asyncio.run(_drive(session))


async def _drive(session: RunSession) -> Ending:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(session.execute())
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        loop.remove_signal_handler(number)
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        run = await task
    except asyncio.CancelledError:
        if not received:
            raise
        return Ending(session.run, received[0])
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return Ending(run)
