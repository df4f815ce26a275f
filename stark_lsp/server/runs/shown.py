"""What is shown of runs, and how it follows the documents: their edits, renames, and changes on the disk.

A class has one view, that of its newest run. While that run goes on, the one before whose proposal is open hangs on it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from stark_lsp.core.editing import keep_ends
from stark_lsp.core.problem import Problem
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.runs.views import Phase, RunView, place_of
from stark_lsp.server.text.documents import Change, Document, read_file
from stark_lsp.server.text.positions import path_of, uri_of


class Shown:
    """The views of runs."""

    def __init__(self, server: StarkServer) -> None:
        self._server = server
        self._views: dict[str, RunView] = {}
        """The view of each class, by `RunView.place`."""
        self.touch: Callable[[str], None] = lambda uri: None
        """Told of a document whose diagnostics may have changed."""
        self.watch: Callable[[], None] = lambda: None
        """Told when there are more or fewer files to watch."""
        server.documents.on_change = self._edited
        server.on_open.append(self._opened)
        server.on_close.append(self._closed)

    # --- looking up ----------------------------------------------------------------------------------

    @property
    def views(self) -> tuple[RunView, ...]:
        """All views; where a class has two, the one whose proposal is kept comes first."""
        found = ((view.kept, view) for view in self._views.values())
        return tuple(view for pair in found for view in pair if view is not None)

    def at(self, uri: str) -> list[RunView]:
        """Return the newest view of each class of a document, in the order their runs were started."""
        if not self._views:
            return []
        document, path = self._server.documents.get(uri), path_of(uri)
        real = document.real if document is not None else os.path.realpath(path) if path is not None else None
        return [view for view in self._views.values() if view.real == real]

    def on(self, path: str, qualname: str) -> RunView | None:
        """Return the newest view of a class, None if there is none."""
        return self._views.get(place_of(path, qualname))

    def find(self, run: str, *, offered: bool = False) -> RunView | None:
        """Return the view of a run, None if it is not shown; `offered` prefers one with an open proposal."""
        found = [view for view in self.views if view.id == run or run in view.aliases]
        # A run that goes on after it had a proposal has two views.
        found.sort(key=lambda view: (view.phase is Phase.OFFERED) is not offered)
        return found[0] if found else None

    def active(self) -> list[RunView]:
        """Return the runs that are queued or under way."""
        return [view for view in self._views.values() if view.active]

    def text(self, view: RunView) -> str | None:
        """Return today's text of a run's document, from the editor if it is open there; None if it is gone."""
        return self._server.documents.text(view.uri, view.path)

    def lines(self, uri: str) -> list[str] | None:
        """Return today's lines of a document, None if it cannot be read."""
        document = self._server.documents.get(uri)
        if document is not None:
            return document.lines
        text = self._server.documents.text(uri)
        return keep_ends(text) if text is not None else None

    def refresh(self, *uris: str) -> None:
        """Have all that is shown of these documents' runs, and what is watched for them, follow the views."""
        for uri in uris:
            self.touch(uri)
        self._server.refresh_lenses()
        self.watch()

    # --- documents -----------------------------------------------------------------------------------

    def _edited(self, document: Document, change: Change) -> None:
        for view in self.at(document.uri):
            view.edit(change)

    def _opened(self, document: Document) -> None:
        for view in self.at(document.uri):
            view.uri, view.deleted = document.uri, not os.path.exists(view.path)
            if view.kept is not None:
                view.kept.uri = document.uri
            view.resync(document.text)

    def _closed(self, document: Document) -> None:
        if document.real is not None:
            self.changed_on_disk(document.real)  # what was not saved is gone

    def changed_on_disk(self, path: str) -> None:
        """Take note that a file changed outside the editor, or went away."""
        views = [view for view in self._views.values() if path in (view.path, view.real)]
        if not views:
            return
        exists = os.path.exists(path)
        for view in views:
            view.deleted = not exists
            if exists and self._server.documents.at(path) is None and (text := read_file(path)) is not None:
                view.resync(text)
            self.touch(view.uri)
            if view.active:
                self._server.spawn(self._compare(view), "comparing the class with what is searched for")
        self._server.refresh_lenses()

    async def _compare(self, view: RunView) -> None:
        """Have the lens say whether the class is still the one that its run searches for, as of its last save."""
        before, view.edited = view.edited, await asyncio.to_thread(edited, view.problem, self.text(view))
        if view.edited is not before:
            self._server.refresh_lenses()

    def renamed(self, old: str, new: str) -> None:
        """Take note that a file or a folder was renamed."""
        for view in list(self._views.values()):
            if view.path == old:
                self.follow(view, new)
            elif view.path.startswith(old.rstrip("/") + "/"):
                self.follow(view, str(Path(new) / Path(view.path).relative_to(old)))

    def follow(self, view: RunView, path: str) -> None:
        """Show a run with the name that its file has now."""
        if self.on(path, view.problem.qualname) is not None:
            return  # that class has a run of its own
        before = view.uri
        del self._views[view.place]
        document = self._server.documents.at(path)
        view.move(path, document.uri if document is not None else uri_of(path))
        view.deleted = False
        self._views[view.place] = view
        if (text := self.text(view)) is not None:
            view.resync(text)
        self.refresh(before, view.uri)


def edited(problem: Problem, text: str | None) -> bool:
    """Whether a class no longer is what it was when it was clicked; also where that cannot be told any more."""
    from stark_lsp.discovery.syntax import parse
    from stark_lsp.proposals.stale import StaleProposal, check_fresh

    if text is None or text == problem.text:
        return False
    try:
        check_fresh(problem, parse(text), text)
    except (StaleProposal, SyntaxError):
        return True
    return False
