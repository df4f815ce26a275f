"""The runs: at most one under way, the others queued, each with its view.

1. `optimize` turns a class into a problem and starts a task that waits for its turn.
2. The task drives a `RunSession`; its events move the view, the diagnostics and the progress (`run_events`).
3. At the end the proposal is offered (`proposals`), or the user is told why there is none.

Timings must not disturb each other, so only one run has its turn at a time.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.status import Decision
from stark_lsp.server import spending, wording
from stark_lsp.server.documents import Change, Document, read_file
from stark_lsp.server.folders import settings_folder
from stark_lsp.server.keys import KeyHolder
from stark_lsp.server.progress import RunProgress
from stark_lsp.server.text import key_of, path_of, split_lines, uri_of
from stark_lsp.server.views import Phase, RunView

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stark_lsp.core.events import Event
    from stark_lsp.core.problem import Problem
    from stark_lsp.core.steering import Steering
    from stark_lsp.runs.session import RunSession
    from stark_lsp.server.configuration import Configuration
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.run_events import RunEvents
    from stark_lsp.store import RunStore

CLOSE_S = 0.8
"""Seconds that runs are given to record themselves as cancelled when the server leaves."""


class Desk:
    """Starts, shows and ends runs.

    Parameters
    ----------
    server
        Who speaks to the client.
    """

    def __init__(self, server: StarkServer) -> None:
        self._server = server
        self._views: dict[str, RunView] = {}
        """The view of each class, by `Problem.key`."""
        self._turn = asyncio.Lock()
        self._store: RunStore | None = None
        self.keys = KeyHolder(server)
        self.touch: Callable[[str], None] = lambda uri: None
        """Told of a document whose diagnostics may have changed."""
        self.watch: Callable[[], None] = lambda: None
        """Told when there are more or fewer files to watch."""
        self.offer: Callable[[RunView], Awaitable[None]] | None = None
        """Called at the end of a run that has a proposal."""
        server.documents.on_change = self._edited
        server.on_open.append(self._opened)
        server.closers.append(self.close)

    # --- looking up ----------------------------------------------------------------------------------

    @property
    def views(self) -> tuple[RunView, ...]:
        """All views."""
        return tuple(self._views.values())

    def at(self, uri: str) -> list[RunView]:
        """Return the views of a document, in the order their runs were started."""
        if not self._views:
            return []
        key, path = key_of(uri), path_of(uri)
        return [view for view in self._views.values() if key_of(view.uri) == key or view.path == path]

    def find(self, run: str) -> RunView | None:
        """Return the view of a run, None if it is not shown."""
        return next((view for view in self._views.values() if view.id == run or run in view.aliases), None)

    def active(self) -> list[RunView]:
        """Return the runs that are queued or under way."""
        return [view for view in self._views.values() if view.active]

    def text(self, view: RunView) -> str | None:
        """Return today's text of a run's document, from the editor if it is open there; None if it is gone."""
        document = self._server.documents.get(view.uri) or self._server.documents.at(view.path)
        return document.text if document is not None else read_file(view.path)

    def lines(self, uri: str) -> tuple[str, ...] | None:
        """Return today's lines of a document, None if it cannot be read."""
        document = self._server.documents.get(uri)
        if document is not None:
            return document.lines
        path = path_of(uri)
        text = read_file(path) if path is not None else None
        return split_lines(text) if text is not None else None

    def store(self) -> RunStore:
        """Return the store; opened at its first use, when the runs of processes that died are noted.

        Raises
        ------
        Fault
            The store cannot be opened.
        """
        if self._store is None:
            from stark_lsp.store import RunStore
            from stark_lsp.store.paths import default_store_path

            store = RunStore(default_store_path())
            store.mark_interrupted()
            self._store = store
        return self._store

    # --- starting and ending -------------------------------------------------------------------------

    async def optimize(self, uri: str, qualname: str) -> tuple[RunView, bool]:
        """Start a run on a class, or say that there is one.

        Returns
        -------
        What is shown of the run, and whether it is a new one.

        Raises
        ------
        BadInput
            The document or the class cannot be used.
        """
        document = self._server.documents.get(uri)
        path = path_of(uri)
        if path is None:
            raise BadInput(
                "Only files on this machine can be optimized.", cure="Save the document to a folder of your project."
            )
        text = document.text if document is not None else read_file(path)
        if text is None:
            raise BadInput("The file cannot be read.", cure="Save it first, as UTF-8.", path=path)
        configuration = self._server.configuration
        # Long files take a while to read, and the first import of what drives runs too: what the user types meanwhile
        # must not wait for it.
        problem = await asyncio.to_thread(_problem, path, text, qualname, configuration)
        running = self._views.get(problem.key)
        if running is not None and running.active:
            self._server.say(f"STARK is already optimizing {problem.class_name}: {running.status}")
            return running, False
        from stark_lsp.server.providers import lend

        options = configuration.run_options(settings_folder(self._server, path))
        options = replace(options, providers=await lend(self._server, self.keys, options.model))
        running = self._views.get(problem.key)
        if running is not None and running.active:
            # The client was asked what it lends, and somebody clicked again meanwhile.
            return running, False

        from stark_lsp.runs.session import RunSession
        from stark_lsp.server.run_events import RunEvents

        def heard(event: Event) -> None:
            events.heard(session, event)

        session = RunSession(problem, options, store=self.store(), emit=heard, log=self._server.log)
        view = RunView(session.id, document.uri if document is not None else uri, problem, session.run)
        view.session = session
        if (now := self.text(view)) is not None and now != text:
            view.resync(now)
        # A new run takes the place of what was shown of the one before, which may be the same that now goes on.
        before = self._views.pop(problem.key, None)
        if before is not None:
            before.phase = Phase.OVER
            if before.question is not None:
                self._server.withdraw(before.question)
        self._views[problem.key] = view

        def stop() -> None:
            self.cancel(view)

        progress = RunProgress(self._server, f"STARK: optimizing {problem.class_name}", stop)
        events = RunEvents(self._server, self, view, progress)
        view.events = events
        view.task = self._server.spawn(self._work(view, session, events, progress), f"the run on {problem.class_name}")
        self._server.refresh_lenses()
        self.touch(view.uri)
        self.watch()
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
        """Show nothing of a run any more; one under way is stopped first."""
        self.cancel(view)
        if self._views.get(view.problem.key) is view:
            del self._views[view.problem.key]
        view.phase = Phase.OVER
        if view.question is not None:
            self._server.withdraw(view.question)
            view.question = None
        self.touch(view.uri)
        self._server.refresh_lenses()
        self.watch()

    async def close(self) -> None:
        """Stop all runs and wait, not for long, until they are recorded."""
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
        if stored is None or stored.run.decision is not Decision.OPEN or stored.run.best not in stored.nodes:
            return None
        problem = stored.run.problem
        showing = self._views.get(problem.key)
        if showing is not None and showing.active:
            return None
        view = RunView(stored.run.id, uri_of(problem.path), problem, stored.run, Phase.OFFERED)
        view.nodes, view.best, view.status = dict(stored.nodes), stored.nodes[stored.run.best], stored.run.message
        self._views[problem.key] = view
        text = self.text(view)
        for node in view.nodes.values():
            if node.plan is not None:
                view.add_plan(node.id, node.plan, None)
        if text is not None:
            view.resync(text)
        if view.run.model != "playbook":
            from stark_lsp.server.run_events import look_up

            attempts = sorted(number for number in view.nodes if number > 0)
            self._server.spawn(look_up(self._server, self, view, attempts), "reading what attempts cost")
        self.touch(view.uri)
        self._server.refresh_lenses()
        self.watch()
        return view

    # --- one run -------------------------------------------------------------------------------------

    async def _work(self, view: RunView, session: RunSession, events: RunEvents, progress: RunProgress) -> None:
        name = view.problem.class_name
        begun = False
        try:
            ahead = [other.problem.class_name for other in self.active() if other is not view]
            view.status = f"queued behind {', '.join(ahead)}" if ahead else "starting"
            await progress.begin(f"{view.status.capitalize()}, {spending.begins(view.run.model)}")
            async with self._turn:
                view.phase = Phase.RUNNING
                begun = True
                await session.execute()
        except asyncio.CancelledError:
            view.phase = Phase.OVER
            view.status = "cancelled"
            progress.end("Cancelled")
            if not self._server.leaving.is_set():
                kept = f"Optimize {name} again to go on with it." if begun else "It had not begun."
                self._server.say(f"STARK: the run on {name} was cancelled. {kept}")
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
            progress.end("Ended")
            view.session = None
            events.take_over(session)
            self.touch(view.uri)
            self._server.refresh_lenses()
            self.watch()

    async def _ended(self, view: RunView, session: RunSession, events: RunEvents, progress: RunProgress) -> None:
        events.take_over(session)
        view.status = session.run.message
        progress.end(session.run.message)
        if view.best is None or self.offer is None:
            from stark_lsp.server.run_events import closing

            view.phase = Phase.OVER
            self._server.say(f"STARK: {view.problem.class_name}: {session.run.message}{closing(view)}")
            return
        view.phase = Phase.OFFERED
        self.touch(view.uri)
        self._server.refresh_lenses()
        # Not awaited: the question may stay open for hours, and the next run must have its turn.
        self._server.spawn(_finish(self.offer(view)), "the proposal")

    # --- documents -----------------------------------------------------------------------------------

    def _edited(self, document: Document, change: Change) -> None:
        for view in self.at(document.uri):
            view.edit(change)

    def _opened(self, document: Document) -> None:
        for view in self.at(document.uri):
            view.uri = document.uri
            view.resync(document.text)

    def changed_on_disk(self, path: str) -> None:
        """Take note that a file changed outside the editor, or went away."""
        views = [view for view in self._views.values() if view.path == path]
        if not views:
            return
        exists = os.path.exists(path)
        for view in views:
            view.deleted = not exists and view.moved_to is None
            if exists and self._server.documents.at(path) is None and (text := read_file(path)) is not None:
                view.resync(text)
            self.touch(view.uri)
        self._server.refresh_lenses()

    def renamed(self, old: str, new: str) -> None:
        """Take note that a file was renamed."""
        for view in self._views.values():
            if view.path == old:
                view.moved_to = new
            elif view.path.startswith(old.rstrip("/") + "/"):
                view.moved_to = str(Path(new) / Path(view.path).relative_to(old))


def _problem(path: str, text: str, qualname: str, configuration: Configuration) -> Problem:
    """Return the class as a problem; what drives its run is imported here too, in the thread that this runs in."""
    import stark_lsp.runs.session  # noqa: F401 - imported for later
    from stark_lsp.discovery.problems import make_problem

    return make_problem(path, text, qualname, mode=configuration.mode, device=configuration.device)


async def _finish(work: Awaitable[None]) -> None:
    await work
