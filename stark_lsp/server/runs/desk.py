"""The runs: at most one under way, the others queued, each with its view.

1. `optimize` turns a class into a problem and starts a task that waits for its turn.
2. The task drives a `RunSession`; its events move the view, the diagnostics and the progress (`run_events`).
3. At the end the proposal is offered (`proposals`), or the user is told why there is none.

Timings must not disturb each other, so only one run has its turn at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.status import Decision
from stark_lsp.server.client.keys import KeyHolder
from stark_lsp.server.runs.progress import RunProgress
from stark_lsp.server.runs.shown import Shown, edited
from stark_lsp.server.runs.views import Phase, RunView
from stark_lsp.server.text import spending, wording
from stark_lsp.server.text.folders import configuration_of, settings_folder
from stark_lsp.server.text.positions import path_of, uri_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from stark_lsp.core.events import Event
    from stark_lsp.core.problem import Problem
    from stark_lsp.core.run import Run
    from stark_lsp.core.status import DeviceChoice
    from stark_lsp.core.steering import Steering
    from stark_lsp.runs.options import RunOptions
    from stark_lsp.runs.session import RunSession
    from stark_lsp.server.client.configuration import Configuration
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.run_events import RunEvents
    from stark_lsp.store import RunStore, StoredRun

CLOSE_S = 0.8
"""Seconds that runs are given to record themselves as cancelled when the server leaves."""


class Desk(Shown):
    """Starts, shows and ends runs."""

    def __init__(self, server: StarkServer) -> None:
        super().__init__(server)
        self._turn = asyncio.Lock()
        self._store: RunStore | None = None
        self._opening = threading.Lock()
        self.keys = KeyHolder(server)
        self.offer: Callable[[RunView, str], Coroutine[Any, Any, None]] | None = None
        """Called with a proposal at the end of its run, and what else there is to say of it."""
        self.choose: Callable[[RunView, RunView], Awaitable[tuple[RunView, str]]] | None = None
        """Called with the proposal of a run and the one that stood open before; returns which is better, and why."""
        self.started: Callable[[RunView], None] = lambda view: None
        """Told of a run that begins."""
        self.ready: Callable[[str, RunOptions, DeviceChoice], Awaitable[RunOptions]] | None = None
        """Looks, before a run is made, whether it can come to anything."""
        server.closers.append(self.close)

    def store(self) -> RunStore:
        """Return the store; opened at its first use, when the runs of processes that died are noted.

        Raises
        ------
        Fault
            The store cannot be opened.
        """
        with self._opening:
            if self._store is None:
                from stark_lsp.store import RunStore
                from stark_lsp.store.paths import default_store_path

                store = RunStore(default_store_path())
                store.mark_interrupted()
                self._store = store
            return self._store

    # --- starting and ending -------------------------------------------------------------------------

    async def optimize(self, uri: str, qualname: str, earlier: Run | None = None) -> tuple[RunView, bool]:
        """Start a run on a class, or say that there is one. A proposal that is open on it stays so meanwhile.

        Parameters
        ----------
        earlier
            The run to go on with, with who answered it; without one, the newest that can be gone on with.

        Returns
        -------
        What is shown of the run, and whether it is a new one.

        Raises
        ------
        BadInput
            The document or the class cannot be used.
        """
        await self._server.settled()
        document = self._server.documents.get(uri)
        path = path_of(uri)
        if path is None:
            raise BadInput(
                "Only files on this machine can be optimized.", cure="Save the document to a folder of your project."
            )
        text = self._server.documents.text(uri)
        if text is None:
            raise BadInput("The file cannot be read.", cure="Save it first, as UTF-8.", path=path)
        configuration = configuration_of(self._server, path)
        # Long files take a while to read, and the first import of what drives runs too: what the user types meanwhile
        # must not wait for it.
        options = await asyncio.to_thread(configuration.run_options, settings_folder(self._server, path))
        if earlier is not None:
            options = replace(options, run=earlier.id, model=earlier.model)
        reading = asyncio.ensure_future(asyncio.to_thread(_problem, path, text, qualname, configuration))
        if self.ready is not None:
            # What is wrong with the machine is told first; then nobody asks what became of the other.
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            options = await self.ready(path, options, configuration.device)
        problem = await reading
        running = self.on(path, problem.qualname)
        if running is not None and running.active:
            self._server.say(f"STARK is already optimizing {problem.class_name}: {running.status}")
            return running, False
        from stark_lsp.server.client.providers import lend

        options = replace(options, providers=await lend(self._server, self.keys, options.model))
        running = self.on(path, problem.qualname)
        if running is not None and running.active:
            # The client was asked what it lends, and somebody clicked again meanwhile.
            return running, False

        from stark_lsp.runs.session import RunSession
        from stark_lsp.server.runs.run_events import RunEvents

        def heard(event: Event) -> None:
            events.heard(session, event)

        def now_text() -> str | None:
            # All of a notebook is not to be run: it trains and plots as it goes.
            return self.text(view) if not path.endswith(".ipynb") else None

        session = RunSession(problem, options, store=self.store(), emit=heard, log=self._server.log, document=now_text)
        view = RunView(session.id, document.uri if document is not None else uri, problem, session.run)
        view.session = session
        if (now := self.text(view)) is not None and now != text:
            view.resync(now)
        # A new run takes the place of what was shown of the one before, but for an open proposal.
        view.kept = running.offer if running is not None else None
        self._views.pop(view.place, None)
        self._views[view.place] = view
        self.started(view)

        def stop() -> None:
            self.cancel(view)

        progress = RunProgress(self._server, f"STARK: optimizing {problem.class_name}", stop)
        events = RunEvents(self._server, self, view, progress)
        view.events = events
        view.task = self._server.spawn(self._work(view, session, events, progress), f"the run on {problem.class_name}")
        self.refresh(view.uri)
        return view, True

    def cancel(self, view: RunView) -> bool:
        """Stop a run; False if it has ended."""
        if view.task is None or not view.active:
            return False
        if not view.cancelling:
            view.cancelling = True
            view.task.cancel()
        return True

    def told(self, view: RunView, steering: Steering) -> None:
        """Show at once what the user told a run, and have the run look into the store."""
        if view.events is not None:
            view.events.told(steering)

    def dismiss(self, view: RunView) -> None:
        """Show nothing of a run any more; one under way is stopped first, a proposal nobody decided on is put aside."""
        self.cancel(view)
        if view.phase is Phase.OFFERED and not any(other.id == view.id for other in self.active()):
            self._server.spawn(self._put_aside(view), "putting the proposal aside")
        self.put_away(view)
        shown = self._views.get(view.place)
        if shown is view:
            del self._views[view.place]
            if view.kept is not None:
                self._views[view.place] = view.kept
        elif shown is not None and shown.kept is view:
            shown.kept = None
        self.refresh(view.uri)

    def put_away(self, view: RunView) -> None:
        """Offer a proposal no longer, and take the question about it back."""
        view.phase = Phase.OVER
        if view.question is not None:
            self._server.withdraw(view.question)
            view.question = None

    async def stop(self, view: RunView) -> None:
        """Stop the run that goes on while a view's proposal is kept, and wait until that is recorded."""
        running = self._views.get(view.place)
        if running is None or running.kept is not view or running.task is None:
            return
        running.kept = None
        self._views[view.place] = view
        self.cancel(running)
        await asyncio.wait([running.task])

    async def close(self) -> None:
        """Stop all runs and wait, not for long, until they are recorded."""
        for view in self.active():
            if view.session is not None:
                view.session.leave()
        tasks = [view.task for view in self._views.values() if view.task is not None and self.cancel(view)]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)

    def restore(self, run: str) -> RunView | None:
        """Show the open proposal of an earlier run again, None if that run has none.

        Raises
        ------
        BadInput
            There is no such run.
        Fault
            The store cannot be read.
        """
        stored = self.store().load(run)
        if stored.run.decision not in (Decision.OPEN, Decision.KEPT) or stored.run.best not in stored.nodes:
            return None
        path = self.path_now(stored.run)
        view = self.on(path, stored.run.problem.qualname)
        if view is not None and view.phase is Phase.OFFERED:
            self._views.pop(view.place)  # the user names another one
            self.put_away(view)
        return self.show(stored, path)

    def path_now(self, run: Run) -> str:
        """Return the file of a run: where it was, or the open document that it became when it was moved."""
        problem = run.problem
        for document in self._server.documents.all() if not os.path.exists(problem.path) else ():
            if document.path is None or document.find(problem.qualname) is None:
                continue
            from stark_lsp.discovery.problems import make_problem

            path, text = document.path, document.text
            with contextlib.suppress(BadInput):
                today = make_problem(path, text, problem.qualname, mode=problem.mode, device=problem.device)
                if self.store().is_on(run.id, today):
                    return path
        return problem.path

    def show(self, stored: StoredRun, path: str, uri: str | None = None) -> RunView | None:
        """Show the proposal of a stored run, None if it has none or its class has a run or a proposal that is shown.

        Parameters
        ----------
        path
            The file that its class is in now.
        uri
            What the client calls that file.
        """
        if stored.run.best not in stored.nodes:
            return None
        problem = replace(stored.run.problem, path=path)
        showing = self.on(path, problem.qualname)
        if showing is not None and (showing.active or showing.offer is not None):
            return None
        view = RunView(stored.run.id, uri or uri_of(path), problem, stored.run, Phase.OFFERED)
        view.nodes, view.best, view.status = dict(stored.nodes), stored.nodes[stored.run.best], stored.run.message
        self._views[view.place] = view
        text = self.text(view)
        for node in view.nodes.values():
            if node.plan is not None:
                view.add_plan(node.id, node.plan, None)
        if text is not None:
            view.resync(text)
        if view.run.model != "playbook":
            from stark_lsp.server.runs.run_events import look_up

            attempts = sorted(number for number in view.nodes if number > 0)
            self._server.spawn(look_up(self._server, self, view, attempts), "reading what attempts cost")
        self.refresh(view.uri)
        return view

    # --- one run -------------------------------------------------------------------------------------

    async def _work(self, view: RunView, session: RunSession, events: RunEvents, progress: RunProgress) -> None:
        name = view.problem.class_name
        begun = False
        try:
            ahead = [other.problem.class_name for other in self.active() if other is not view]
            view.status = f"queued behind {', '.join(ahead)}" if ahead else "starting"
            await progress.begin(f"{view.status[:1].upper()}{view.status[1:]}, {spending.begins(view.run.model)}")
            async with self._turn:
                if len(ahead) > 0 and await asyncio.to_thread(edited, view.problem, self.text(view)):
                    # What a search for it as it was came to could not be accepted.
                    view.phase, view.status = Phase.OVER, "edited while it waited"
                    again = self.optimize(view.uri, view.problem.qualname)
                    self._server.spawn(again, f"the run on {name}, edited while it waited,")
                    return
                view.phase = Phase.RUNNING
                self._server.refresh_lenses()
                begun = True
                await session.execute()
        except asyncio.CancelledError:
            view.phase = Phase.OVER
            view.status = "cancelled"
            progress.end("Cancelled")
            if not self._server.leaving.is_set():
                kept = f"Optimize {name} again to go on with it." if begun else "It had not begun."
                self._server.say(f"STARK: the run on {name} was cancelled. {kept}{_still_open(view)}")
        except StarkError as error:
            view.phase = Phase.OVER
            view.status = error.message
            progress.end("Stopped")
            if error.details:
                self._server.log(error.details)
            self._server.say(
                wording.trouble(error), error=isinstance(error, Fault), warning=isinstance(error, BadInput)
            )
        else:
            await self._ended(view, session, events, progress)
        finally:
            if view.active:
                view.phase = Phase.OVER
            if view.phase is Phase.OVER and view.kept is not None and self._views.get(view.place) is view:
                self._views[view.place] = view.kept
            progress.end("Ended")
            view.session = None
            events.take_over(session)
            self.refresh(view.uri)

    async def _ended(self, view: RunView, session: RunSession, events: RunEvents, progress: RunProgress) -> None:
        events.take_over(session)
        view.status = session.run.message
        progress.end(session.run.message)
        from stark_lsp.server.runs.run_events import closing

        if view.best is None or self.offer is None:
            view.phase = Phase.OVER
            if view.kept is not None and view.kept.id == view.id:
                self.put_away(view.kept)  # timed again, it did not hold
                view.kept = None
            text = f"STARK: {view.problem.class_name}: {session.run.message}{closing(view)}{_still_open(view)}"
            self._server.say(text)
            return
        standing = view.kept.offer if view.kept is not None else None
        view.phase, why = Phase.OFFERED, ""
        if standing is not None and standing.id == view.id:
            self.put_away(standing)
        elif standing is not None and self.choose is not None:
            better, why = await self.choose(view, standing)
            worse = view if better is standing else standing
            await self._put_aside(worse)
            self.put_away(worse)
            if better is standing:
                self._server.say(f"STARK: {view.problem.class_name} is {view.run.message}{closing(view)} {why}")
                return
        view.kept = None
        self.refresh(view.uri)
        # Not awaited: the question may stay open for hours, and the next run must have its turn.
        self._server.spawn(self.offer(view, why), "the proposal")

    async def _put_aside(self, view: RunView) -> None:
        """Record that a proposal is kept without being offered."""
        await asyncio.to_thread(self.store().decide, view.id, Decision.KEPT)


def _problem(path: str, text: str, qualname: str, configuration: Configuration) -> Problem:
    """Return the class as a problem; what drives its run is imported here too, in the thread that this runs in."""
    import stark_lsp.runs.session  # noqa: F401 - imported for later
    from stark_lsp.discovery.problems import make_problem

    return make_problem(path, text, qualname, mode=configuration.mode, device=configuration.device)


def _still_open(view: RunView) -> str:
    """Return that the proposal from before is still there, if it is."""
    offer = view.kept.offer if view.kept is not None else None
    return f" The proposal from before stays open: {offer.run.message}" if offer is not None else ""
