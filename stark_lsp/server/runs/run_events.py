"""What a run tells, turned into what the editor shows: status, plans, progress, spend."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stark_lsp.cli.terminal import figures
from stark_lsp.core.errors import StarkError
from stark_lsp.core.events import Ended, Event, Judged, Notice, Outlook, Planned, Prepared, Progress, Spent
from stark_lsp.core.steering import Course, Steering, course
from stark_lsp.server.text import spending, wording

if TYPE_CHECKING:
    from stark_lsp.runs.session import RunSession
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.runs.progress import RunProgress
    from stark_lsp.server.runs.views import RunView


class RunEvents:
    """Keeps the view of one run up to date."""

    def __init__(self, server: StarkServer, desk: Desk, view: RunView, progress: RunProgress) -> None:
        self._server = server
        self._desk = desk
        self._view = view
        self._progress = progress
        self._course = Course()
        """What the run has heard of the user."""
        self._looked_up: set[int] = set()
        """Attempts whose exchanges were read, or are being read."""

    def heard(self, session: RunSession, event: Event) -> None:
        """Take an event of the run."""
        view = self._view
        first_sight = session.id != view.id
        self.take_over(session)
        if first_sight:
            self._resumed()
        if isinstance(event, Progress):
            if event.attempt > view.judged:
                view.pace.begin()
            view.attempts = max(view.attempts, event.attempt)
            # A stage is over in a moment; how far the run is and what it has found stays in sight.
            so_far = f"{attempts_so_far(view)}: " if view.attempts else ""
            view.status = so_far + (event.text[:1].lower() + event.text[1:] if so_far else event.text)
        elif isinstance(event, Notice):
            view.status = event.text.rstrip(".")
            if isinstance(event, Outlook):
                # The progress goes on to "Planning" at once; a message stays until it is read.
                self._server.say(f"STARK: {view.problem.class_name}: {event.text}")
            self._server.log(f"run {view.id}: {event.text}")
        elif isinstance(event, Prepared):
            view.status = "the class was loaded and timed"
            self._server.refresh_hints()
        elif isinstance(event, Planned):
            view.attempts = max(view.attempts, event.node)
            view.pace.begin()
            view.parents[event.node] = event.parent
            view.add_plan(event.node, event.plan, self._desk.text(view))
            view.status = attempts_so_far(view)
            self._desk.touch(view.uri)
        elif isinstance(event, Judged):
            view.attempts = max(view.attempts, event.node.id)
            view.judged += 1
            view.pace.judged()
            if event.node.plan is not None and event.node.id not in view.plans:
                view.add_plan(event.node.id, event.node.plan, self._desk.text(view))
            view.status = attempts_so_far(view)
            self._look_up([event.node.id])
            self._desk.touch(view.uri)
        elif isinstance(event, Spent):
            view.spend = event.spend
            if view.attempts:
                view.status = attempts_so_far(view)
        elif isinstance(event, Ended):
            return
        self.show()

    def show(self) -> None:
        """Show the progress as it is now."""
        view = self._view
        budget = max(view.budget.attempts, 1)
        text = view.status[:1].upper() + view.status[1:]
        if view.paused and not text.startswith("Paused"):
            text = f"Paused. {text}"
        if view.run.model != spending.UNSETTLED:
            text = f"{text} · {spending.who(view.run.model, view.asked)}"
        self._progress.report(text, view.judged / (budget + 1))

    def take_over(self, session: RunSession) -> None:
        """Take the run over as it stands now; its id changes when an older run is taken up."""
        view = self._view
        if session.id != view.id:
            view.aliases.add(view.id)
            view.id = session.id
        view.run = session.run
        view.nodes = session.nodes
        view.best = session.best
        if session.course != self._course:
            # What was told here is shown at once; the run hears of it a moment later, or once its search begins.
            self._course = session.course
            self._steered(session.course)

    def told(self, steering: Steering) -> None:
        """Show what the user just told the run, and have it look at once."""
        view = self._view
        self._steered(course([steering], view.course))
        if view.session is not None:
            view.session.steer()
        if view.attempts:
            view.status = attempts_so_far(view)
        self.show()

    def _steered(self, now: Course) -> None:
        view = self._view
        paused = view.paused
        view.course = now
        view.pace.pause(view.paused)
        if view.paused != paused:
            self._server.refresh_lenses()
        self._desk.touch(view.uri)

    def _resumed(self) -> None:
        """Show what an earlier run on the same text had found."""
        view = self._view
        text = self._desk.text(view)
        for node in view.nodes.values():
            if node.plan is not None and node.id not in view.plans:
                view.add_plan(node.id, node.plan, text)
        judged = sum(1 for node in view.nodes.values() if node.parent is not None and node.verdict is not None)
        view.judged = judged
        done = figures.count(judged, "attempt")
        name = view.problem.class_name
        self._server.say(f"STARK goes on with the earlier run {view.id} on {name}: {done} kept.")
        self._look_up(sorted(view.nodes))
        self._desk.touch(view.uri)

    def _look_up(self, attempts: list[int]) -> None:
        fresh = [number for number in attempts if number > 0 and number not in self._looked_up]
        if fresh and self._view.run.model != "playbook":
            self._looked_up.update(fresh)
            self._server.spawn(look_up(self._server, self._desk, self._view, fresh), "reading what attempts cost")


async def look_up(server: StarkServer, desk: Desk, view: RunView, attempts: list[int]) -> None:
    """Read from the store what attempts asked of models; what cannot be read is left out, and the log says so."""
    try:
        exchanges = desk.store().exchanges
        for attempt in attempts:
            found = spending.asked(await asyncio.to_thread(exchanges.list, view.id, attempt))
            if found is not None:
                view.asked[attempt] = found
    except StarkError as error:
        server.log(f"what attempts of run {view.id} cost cannot be read: {error}")


def attempts_so_far(view: RunView) -> str:
    """Return how far a run is, with the time and the money that are left.

    For instance `attempt 4 of 30, best 1.31x (1.29 to 1.33) vs eager, about 5 min left, $0.42 of $2`.
    """
    best = wording.best_of(node for node in view.nodes.values() if node.parent is not None)
    interval = wording.gain(best.verdict) if best is not None else None
    parts = [f"attempt {view.attempts} of {max(view.budget.attempts, 1)}"]
    if interval is not None:
        parts.append(f"best {wording.times(interval)} vs eager")
    if left := time_left(view):
        parts.append(left)
    if cost := spending.spent(view.spend, view.budget):
        parts.append(cost)
    return ", ".join(parts)


def time_left(view: RunView) -> str:
    """Return how long the attempts that are left may take: `about 5 min left`; empty where nothing tells."""
    attempts = view.budget.attempts - view.judged
    seconds = view.pace.left(attempts, view.budget.seconds) if attempts > 0 else None
    return "" if seconds is None else f"{wording.roughly(seconds)} left"


def closing(view: RunView) -> str:
    """Return who answered and what it cost, for the end of a message: ` (claude-sonnet-5, $0.42 of $2)`."""
    who = spending.who(view.run.model, view.asked) if view.run.model != spending.UNSETTLED else ""
    parts = [part for part in (who, spending.spent(view.spend, view.budget)) if part]
    return f" ({', '.join(parts)})" if parts else ""
