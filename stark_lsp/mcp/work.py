"""What takes longer than a moment: calls that are followed while they last, and the run that goes on behind them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mcp.server.mcpserver import Context

from stark_lsp.core.errors import BadInput
from stark_lsp.core.events import Ended, Event, Notice, Prepared, Progress
from stark_lsp.core.problem import Problem
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

T = TypeVar("T")
Tell = Callable[[str], None]

BEAT_S = 1.0
"""How often a client that waits is told what goes on: many give up on a call they hear nothing of."""
CLOSE_S = 1.5
"""Seconds until everything has to have ended when the client leaves; clients kill what takes longer than two."""


class Work:
    """Calls and the run under way; at most one run, since timings must not disturb each other."""

    def __init__(self, store: RunStore, log: Tell) -> None:
        self._store = store
        self._log = log
        self._tasks: set[asyncio.Task[Any]] = set()
        self._run: asyncio.Task[Any] | None = None
        self.session: RunSession | None = None
        """The run under way."""
        self.doing = ""
        """What it does now, in a few words."""

    async def follow(self, context: Context[Any, Any], work: Callable[[Tell], Coroutine[Any, Any, T]]) -> T:
        """Do some work and tell the client of each step; what is cancelled with the call frees all it uses.

        Parameters
        ----------
        context
            The call.
        work
            Given what to tell steps to. It runs as a task of its own: the SDK cancels a call again at every await, so
            that nothing could be closed in it.
        """
        step = ""

        def tell(text: str) -> None:
            nonlocal step
            step = text

        task = self._spawn(work(tell))
        begin = time.monotonic()
        try:
            while not (await asyncio.wait({task}, timeout=BEAT_S))[0]:
                await context.report_progress(time.monotonic() - begin, message=step or self.doing)
            return task.result()
        finally:
            task.cancel()

    async def begin(self, problem: Problem, options: RunOptions, tell: Tell) -> RunSession:
        """Start a run and wait until its reference was loaded, checked and timed, which is where most runs fail.

        Raises
        ------
        BadInput
            There is a run under way, or the class cannot be used.
        Fault
            Something outside of the user's code broke.
        """
        if self.session is not None:
            raise BadInput(
                f"Run {self.session.id} goes on, and timings must not disturb each other.",
                cure="Wait for it with the tool runs, or end it with the tool cancel.",
            )
        begun = asyncio.Event()

        def heard(event: Event) -> None:
            if isinstance(event, Progress | Notice):
                self.doing = event.text
                tell(event.text)
            elif isinstance(event, Prepared | Ended):
                begun.set()

        def over(task: asyncio.Task[Any]) -> None:
            self.session = self._run = None
            begun.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._log(f"run {session.id}: {error}")

        session = self.session = RunSession(problem, options, store=self._store, emit=heard, log=self._log)
        run = self._run = self._spawn(session.execute())
        run.add_done_callback(over)
        try:
            await begun.wait()
        except asyncio.CancelledError:
            run.cancel()
            raise
        if run.done() or session.run.state.over:
            await asyncio.wait({run})
            if run.cancelled():
                raise BadInput(f"Run {session.id} was cancelled before it had begun.")
            run.result()
        return session

    async def wait(self, run: str, seconds: float) -> None:
        """Wait until a run has ended, but not longer; at once if it is not under way here."""
        if self._run is not None and self.session is not None and self.session.id == run:
            await asyncio.wait({self._run}, timeout=seconds)

    async def cancel(self, run: str) -> None:
        """End a run, and wait until that is recorded.

        Raises
        ------
        BadInput
            It is not under way here.
        """
        if self._run is None or self.session is None or self.session.id != run or self.session.run.state.over:
            raise BadInput(f"Run {run} is not under way in this server.", cure="The tool runs tells where it stands.")
        self._run.cancel()
        await asyncio.wait({self._run})

    async def close(self) -> None:
        """End all of it; the run is recorded as interrupted, to be gone on with."""
        if self.session is not None:
            self.session.leave()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S)

    def leave(self, code: int) -> None:
        """End all of it, and then the process: the SDK would wait for its client, whom it reads in a thread."""

        async def end() -> None:
            await self.close()
            os._exit(code)

        self._leaving = asyncio.get_running_loop().create_task(end())

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
