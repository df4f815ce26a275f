"""Follows what the user tells a run while it goes on, wherever it was said: in the editor, or in another terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from stark_lsp.core.errors import Fault
from stark_lsp.core.steering import Course, Steering, SteeringKind, course
from stark_lsp.runs.time_limit import event_or
from stark_lsp.store import RunStore

SIGN_S = 10.0
"""Seconds between two signs of life; one small write each. Another host cannot see whether this process runs."""
LOOK_S = 0.5
"""Seconds between two looks into the store; one small query each."""


class SteeringFollower:
    """Reads the run's steering from the store and adds it up.

    Parameters
    ----------
    store
        Where steering is written, by whichever process.
    run_id
        The run.
    heed
        Told the new course, and what was new, each time something was added; also at the start, if there is anything.
    log
        Told when the store cannot be read for a while.
    heard
        Number of the last steering that an earlier sitting of the run followed. A budget up to there is not heeded:
        the run was started anew since, and with that the user gave it another one.
    """

    def __init__(
        self,
        store: RunStore,
        run_id: str,
        heed: Callable[[Course, tuple[Steering, ...]], None],
        log: Callable[[str], None],
        heard: int = 0,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._heed = heed
        self._log = log
        self._heard_before = heard
        self._last = 0
        self._look = asyncio.Event()
        self.course = Course()
        """What all steering so far adds up to."""

    @property
    def heard(self) -> int:
        """Number of the last steering that was followed."""
        return max(self._last, self._heard_before)

    def look(self) -> None:
        """Look at once."""
        self._look.set()

    async def catch_up(self) -> None:
        """Take what is there now.

        Raises
        ------
        Fault
            The store cannot be read.
        """
        found = await asyncio.to_thread(self._store.steerings.since, self._run_id, self._last)
        if not found:
            return
        self._last = found[-1][0]
        fresh = tuple(
            steering
            for number, steering in found
            if steering.kind is not SteeringKind.BUDGET or number > self._heard_before
        )
        self.course = course(fresh, self.course)
        self._heed(self.course, fresh)

    async def follow(self) -> None:
        """Take what comes, until cancelled."""
        trouble, signed = "", -SIGN_S
        while True:
            try:
                await self.catch_up()
                if time.monotonic() - signed >= SIGN_S:
                    await asyncio.to_thread(self._store.touch, self._run_id)
                    signed = time.monotonic()
                trouble = ""
            except Fault as fault:
                if str(fault) != trouble:
                    trouble = str(fault)
                    self._log(f"run {self._run_id}: what the user says to it cannot be read now: {fault}")
            await event_or(self._look, LOOK_S)
            self._look.clear()
