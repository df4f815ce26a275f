"""What earlier sittings left: open proposals and interrupted runs of the documents that are opened.

1. A moment after a document is opened, the store is asked in a thread what waits in it (`find`).
2. A proposal that can be applied to the text as it is now is shown again as it was: lenses, plans, and its question.
3. For a run that was interrupted, and is on the class as it stands now, the user is asked whether it is to go on.
4. What does not fit the text now (another branch is checked out, say) is looked for again when the text changes.

Nothing is asked twice in one window.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stark_lsp.cli.terminal import figures
from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.server.runs.views import Phase, RunView, place_of
from stark_lsp.server.text import wording
from stark_lsp.server.text.folders import configuration_of
from stark_lsp.server.text.positions import key_of, path_of

if TYPE_CHECKING:
    from stark_lsp.core.problem import Problem
    from stark_lsp.core.run import Run
    from stark_lsp.server.client.configuration import Configuration
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.proposals.offering import Proposals
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.text.documents import Document
    from stark_lsp.store import RunStore, StoredRun

OPENED_S = 0.3
"""How long after it was opened a document is looked at: its lenses come first."""
QUIET_S = 1.0
"""How long nothing must have changed in a document before it is looked at again."""
AGAIN_S = (1.0, 3.0, 8.0)
"""When a document is looked at again that has a run in another process: the window that is closing, mostly."""
NEWEST = 5
"""Proposals of one class that are tried."""

GO_ON, NOT_NOW = "Go on", "Not now"
KEEP, ANEW = "Keep it", "Search anew"

_CLASS = re.compile(r"^\s*class\s+(\w+)", re.MULTILINE)


@dataclass
class Found:
    """What waits in a document."""

    offers: list[StoredRun] = field(default_factory=list)
    """Of each class the best proposal that fits the text."""
    interrupted: list[StoredRun] = field(default_factory=list)
    """Of each class the newest run that can go on."""
    moved: list[str] = field(default_factory=list)
    """Runs that are shown with a file which is gone, and are on a class of this one."""
    misfits: bool = False
    """Whether something waits that does not fit the text as it is now."""
    elsewhere: bool = False
    """Whether a run on one of its classes goes on in another process."""


@dataclass
class Interrupted:
    """A run that can go on."""

    run: Run
    uri: str
    """The document that its class is in."""
    done: int
    """Attempts that have their verdict."""
    question: str | None = None
    """Id of the request that asks whether to go on, while it stands open."""

    @property
    def text(self) -> str:
        """What happened, as a sentence."""
        attempts = figures.count(self.done, "attempt")
        name = self.run.problem.class_name
        return f"the run on {name} was interrupted; {attempts} of {self.run.budget.attempts} kept"


class Kept:
    """Finds what earlier sittings left, shows it, and asks about it."""

    def __init__(self, server: StarkServer, desk: Desk, proposals: Proposals) -> None:
        self._server = server
        self._desk = desk
        self._proposals = proposals
        self._asked: set[str] = set()
        """Runs that the user was told of in this window."""
        self._left: dict[str, Interrupted] = {}
        """Interrupted runs by `RunView.place`."""
        self._misfits: set[str] = set()
        """Documents in which something waits that does not fit their text."""
        self._unfit: dict[str, str] = {}
        """Proposals that did not fit, each with the digest of its class then: not tried again while it has that."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.refuse: Callable[[str, str, StarkError], None] = lambda uri, qualname, error: None
        """Told why a run could not begin."""
        desk.choose = self.choose
        desk.started = self._begun
        server.on_open.append(lambda document: self.look_soon(document.uri))
        server.on_changed.append(self._changed)
        server.on_close.append(self._closed)
        server.on_configured.append(self._configured)
        server.closers.append(self.close)

    async def close(self) -> None:
        """Look at nothing any more."""
        for timer in self._timers.values():
            timer.cancel()

    # --- looking -------------------------------------------------------------------------------------

    async def look(self, document: Document, turn: int = 0, *, ask: bool = True) -> None:
        """Show what waits in a document.

        Parameters
        ----------
        turn
            How often it was looked at already because of a run in another process.
        ask
            Whether to ask about what is found; else it is only shown.
        """
        path, uri, text = document.path, document.uri, document.text
        if path is None:
            return
        shown = {view.id for view in self._desk.views} | {name for view in self._desk.views for name in view.aliases}
        away = [view for view in self._desk.views if not os.path.exists(view.path)]
        problems = {view.id: view.problem for view in away}
        store, configuration = self._desk.store, configuration_of(self._server, path)
        try:
            found = await asyncio.to_thread(
                find, store, path, text, configuration, frozenset(shown), problems, self._unfit
            )
        except StarkError as error:
            self._server.log(wording.trouble(error))  # whoever starts a run is told aloud
            return
        for view in away:
            if view.id in found.moved and self._desk.at(view.uri):
                self._desk.follow(view, path)
        (self._misfits.add if found.misfits else self._misfits.discard)(key_of(uri))
        if document.text != text:
            self._changed(document)  # while it was looked at
        for stored in found.offers:
            showed = self._desk.show(stored, path, uri)
            if showed is not None and self._new(showed.id) and ask:
                note = "It was found earlier and is still open."
                self._server.spawn(self._proposals.offer(showed, note), "the proposal")
        for stored in found.interrupted:
            self._keep(stored, path, uri, ask)
        self._forget(uri, {stored.run.id for stored in found.interrupted})
        if found.elsewhere and turn < len(AGAIN_S):
            self.look_soon(uri, AGAIN_S[turn], turn + 1)

    def interrupted(self, uri: str, qualname: str) -> Run | None:
        """Return the run on a class that was interrupted and can go on, None if there is none."""
        path = path_of(uri)
        left = self._left.get(place_of(path, qualname)) if path is not None else None
        return left.run if left is not None else None

    async def lines(self) -> list[str]:
        """Return what was interrupted and can go on now, for the status."""
        for uri in {left.uri for left in self._left.values()}:
            if (document := self._server.documents.get(uri)) is not None:
                await self.look(document, ask=False)
        return [f"STARK: {left.text} (run {left.run.id})" for left in self._left.values()]

    # --- what a user asks for ------------------------------------------------------------------------

    async def standing(self, uri: str, qualname: str) -> RunView | None:
        """Return the proposal that is open on a class and fits its text, None if there is none or a run goes on."""
        document, path = self._server.documents.get(uri), path_of(uri)
        if document is not None:
            await self.look(document, ask=False)
        view = self._desk.on(path, qualname) if path is not None else None
        if view is None or view.phase is not Phase.OFFERED:
            return None
        return view if await self._proposals.obstacle(view) is None else None

    async def ask_again(self, view: RunView) -> None:
        """Ask whether to search anew although a proposal is open."""
        name = view.problem.class_name
        text = f"STARK: a proposal for {name} is open: {view.run.message} It stays until a better one is found."
        otherwise = f"{text} Accept it, or search anew, with the code actions on the class."
        if await self._server.choose(f"{text} Search anew?", (KEEP, ANEW), otherwise) == ANEW:
            await self._start(view.uri, view.problem.qualname)

    async def choose(self, new: RunView, standing: RunView) -> tuple[RunView, str]:
        """Return which of two proposals on a class is the better one, and a sentence on why."""
        from stark_lsp.runs.finalists import beats

        if await self._proposals.obstacle(standing) is not None:
            return new, "The proposal from before does not fit the file any more."
        if await self._proposals.obstacle(new) is not None:
            return standing, "It does not fit the file any more, so the proposal from before stays."
        now, then = new.best, standing.best
        if now is None or then is None or now.verdict is None or then.verdict is None:
            return new, ""
        places = {verdict.environment.device for verdict in (now.verdict, then.verdict) if verdict.environment}
        before = wording.gain(then.verdict)
        figures = wording.times(before) if before is not None else "not timed"
        if len(places) > 1:
            return new, f"The proposal from before was timed elsewhere ({figures}) and is kept as run {standing.id}."
        if beats(now.verdict, then.verdict):
            return new, f"It beats the proposal from before ({figures}), which is kept as run {standing.id}."
        return standing, (
            f"That does not beat the proposal that is open ({figures}) beyond doubt, so that one stays; "
            f"the new one is kept as run {new.id}."
        )

    # --- helpers -------------------------------------------------------------------------------------

    def look_soon(self, uri: str, delay: float = OPENED_S, turn: int = 0) -> None:
        """Look at a document a little later, if it is open then."""
        key = key_of(uri)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

        def now() -> None:
            self._timers.pop(key, None)
            document = self._server.documents.get(uri)
            if document is not None:
                self._server.spawn(self.look(document, turn), "looking for what is left of earlier runs")

        self._timers[key] = asyncio.get_running_loop().call_later(delay, now)

    def _changed(self, document: Document) -> None:
        if key_of(document.uri) in self._misfits or any(left.uri == document.uri for left in self._left.values()):
            self.look_soon(document.uri, QUIET_S)

    def _configured(self) -> None:
        for document in self._server.documents.all():
            self.look_soon(document.uri)

    def _closed(self, document: Document) -> None:
        self._misfits.discard(key_of(document.uri))
        self._forget(document.uri)
        if (timer := self._timers.pop(key_of(document.uri), None)) is not None:
            timer.cancel()

    def _new(self, run: str) -> bool:
        """Whether the user is told of a run for the first time in this window."""
        first = run not in self._asked
        self._asked.add(run)
        return first

    def _keep(self, stored: StoredRun, path: str, uri: str, ask: bool) -> None:
        place = place_of(path, stored.run.problem.qualname)
        view = self._desk.on(path, stored.run.problem.qualname)
        if view is not None and view.active:
            return
        done = sum(1 for node in stored.nodes.values() if node.parent is not None and node.verdict is not None)
        known = self._left.get(place)
        if known is None or known.run.id != stored.run.id:
            self._left[place] = Interrupted(stored.run, uri, done)
        if ask and self._new(stored.run.id):
            self._server.spawn(self._ask_to_go_on(self._left[place], uri), "asking whether to go on")

    async def _ask_to_go_on(self, left: Interrupted, uri: str) -> None:
        text = f"STARK: {left.text}."
        qualname = left.run.problem.qualname
        otherwise = f"{text} Go on with it by the code action on the class, or with Optimize."
        left.question = str(uuid.uuid4())
        answer = await self._server.choose(f"{text} Go on?", (GO_ON, NOT_NOW), otherwise, number=left.question)
        asked, left.question = left.question is not None, None
        if answer != GO_ON or not asked:
            return
        await self._start(uri, qualname, left.run)

    async def _start(self, uri: str, qualname: str, earlier: Run | None = None) -> None:
        try:
            await self._desk.optimize(uri, qualname, earlier)
        except StarkError as error:
            self.refuse(uri, qualname, error)

    def _begun(self, view: RunView) -> None:
        """A run began on a class: whether to go on with an earlier one is decided."""
        left = self._left.pop(view.place, None)
        if left is not None and left.question is not None:
            self._server.withdraw(left.question)
            left.question = None

    def _forget(self, uri: str, but: Collection[str] = ()) -> None:
        """Offer no run of a document any more, but for some and those that a question stands open about."""
        for place, left in list(self._left.items()):
            if left.uri == uri and left.run.id not in but and left.question is None:
                del self._left[place]


def find(
    store_of: Callable[[], RunStore],
    path: str,
    text: str,
    configuration: Configuration,
    shown: frozenset[str],
    away: dict[str, Problem],
    unfit: dict[str, str],
) -> Found:
    """Find what waits in a document; runs in a thread of its own.

    Parameters
    ----------
    shown
        Runs that are shown already.
    away
        Problems of runs that are shown with a file which is gone, by run.
    unfit
        Proposals that were tried in vain, each with the digest of its class then; those found here are added.
    """
    from stark_lsp.store.paths import default_store_path

    found = Found()
    if not default_store_path().exists():
        return found  # without having read or imported anything
    from stark_lsp.discovery.meaning import meaning
    from stark_lsp.discovery.problems import make_problem

    names = set(_CLASS.findall(text))
    today: dict[str, Problem | None] = {}

    def problem_of(qualname: str) -> Problem | None:
        if qualname not in today:
            try:
                today[qualname] = make_problem(
                    path, text, qualname, mode=configuration.mode, device=configuration.device
                )
            except BadInput:
                today[qualname] = None
        return today[qualname]

    for run, problem in away.items():
        now = problem_of(problem.qualname) if problem.class_name in names else None
        if now is not None and meaning(replace(now, mode=problem.mode, device=problem.device)) == meaning(problem):
            found.moved.append(run)
    store = store_of()
    store.mark_interrupted()
    tried: dict[str, list[StoredRun]] = {}
    digests: dict[str, str] = {}
    going: set[str] = set()
    for one in store.waiting(path):
        if one.id in shown or one.qualname.rpartition(".")[2] not in names:
            continue
        found.elsewhere |= one.elsewhere and one.here
        if one.elsewhere:
            continue
        now = problem_of(one.qualname)
        digest = digests[one.qualname] = meaning(now) if now is not None else ""
        same = now is not None and store.is_on(one.id, now)
        if one.here and not same:
            found.misfits = True
        vain = bool(digest) and unfit.get(one.id) == digest
        if one.offers and not vain and (one.here or same) and len(tried.setdefault(one.qualname, [])) < NEWEST:
            tried[one.qualname].append(store.load(one.id))
        if one.interrupted and same and one.qualname not in going:
            going.add(one.qualname)
            found.interrupted.append(store.load(one.id))
    for qualname, stored in tried.items():
        fitting = [each for each in stored if _fits(each, path, text, configuration)]
        if fitting:
            found.offers.append(_best(fitting))
        if len(fitting) < len(stored):
            found.misfits = True
            unfit.update((each.run.id, digests[qualname]) for each in stored if each not in fitting)
    return found


def _fits(stored: StoredRun, path: str, text: str, configuration: Configuration) -> bool:
    """Whether a proposal can be applied to the text as it is now."""
    from stark_lsp.proposals.edit import build_edit
    from stark_lsp.proposals.provenance import provenance_comment

    best = stored.nodes.get(stored.run.best) if stored.run.best is not None else None
    if best is None:
        return False
    problem = replace(stored.run.problem, path=path)
    try:
        build_edit(problem, text, best.candidate, provenance_comment(stored.run, best), configuration.write_mode)
    except StarkError:
        return False
    return True


def _best(stored: Sequence[StoredRun]) -> StoredRun:
    """Return the run whose proposal no later one beats; `stored` has the newest first."""
    from stark_lsp.runs.finalists import beats

    chosen, *later = reversed(stored)
    for each in later:
        then, now = (one.nodes[one.run.best or 0].verdict for one in (chosen, each))
        if then is None or (now is not None and beats(now, then)):
            chosen = each
    return chosen
