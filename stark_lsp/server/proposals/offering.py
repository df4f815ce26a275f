"""The proposal of a run: offered, reviewed, accepted or rejected.

1. `offer` asks at the end of a run, with buttons where the client has them.
2. `review` shows it: the extension's diff, or a written diff with the evidence.
3. `accept` makes the edit for today's text (refusing if the class changed), has the client apply it,
   and checks that the document became what was proposed. `edit_for` gives it to a client that shows and applies
   it by itself, from a code action.
4. `reject` keeps the reason for the next run.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.core.status import Decision
from stark_lsp.server.features import lenses
from stark_lsp.server.proposals import review
from stark_lsp.server.proposals.applying import ANSWER_S, Prepared, arrived, by_itself, edit_of, is_there
from stark_lsp.server.proposals.chosen import next_after
from stark_lsp.server.runs.views import Phase, RunView
from stark_lsp.server.text import wording
from stark_lsp.server.text.documents import read_file
from stark_lsp.server.text.folders import configuration_of
from stark_lsp.server.text.markup import plain
from stark_lsp.server.text.positions import uri_of
from stark_lsp.server.text.workspace_edits import by_the_editor

if TYPE_CHECKING:
    from stark_lsp.core.run import Node
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk

EXECUTE = "stark/execute"
"""Notification to a client with `diffView`: run this command, whose answer or question is the client's own."""

REVIEW, ACCEPT, REJECT = "Review", "Accept", "Reject"


class Proposals:
    """Offers proposals and carries out what the user decides."""

    def __init__(self, server: StarkServer, desk: Desk) -> None:
        self._server = server
        self._desk = desk
        self._applying: set[str] = set()
        self._applied: dict[str, RunView] = {}
        """Proposals that the client says it has applied, until the decision is recorded."""
        self._resolved: dict[str, Prepared] = {}
        """What `edit_for` gave to the client last, by run."""
        desk.offer = self.offer
        server.closers.append(self.close)

    async def close(self) -> None:
        """Record what was accepted while the server still looked whether the edit arrived."""
        for view in list(self._applied.values()):
            await self._record(view, Decision.ACCEPTED)

    # --- the four steps ------------------------------------------------------------------------------

    async def offer(self, view: RunView, note: str = "") -> None:
        """Tell the user of the proposal and ask what to do with it; `note` is what else there is to say."""
        name = view.problem.class_name
        trouble = await self.obstacle(view)
        if trouble is not None:
            self._server.refresh_lenses()
            self._server.say(f"STARK: {view.run.message} {trouble}", warning=True)
            return
        from stark_lsp.server.runs.run_events import closing

        text = f"STARK: {name} is {view.run.message}{closing(view)}{f' {note}' if note else ''}"
        if view.phase is not Phase.OFFERED:
            return
        otherwise = f"{text} Review, accept or reject it with the code actions on the class."
        view.question = str(uuid.uuid4())
        title = await self._server.choose(text, (REVIEW, ACCEPT, REJECT), otherwise, number=view.question)
        view.question = None
        if view.phase is not Phase.OFFERED:
            # Decided otherwise while the question stood open, and the client went on showing it.
            if title is not None:
                self._server.say(f"STARK: the proposal for {name} {_DECIDED[view.run.decision]}. Nothing was changed.")
            return
        if self._server.diff_view and title in (REVIEW, REJECT):
            # The extension shows the diff and asks for the reason; it is told to run the command itself.
            command = lenses.REVIEW if title == REVIEW else lenses.REJECT
            self._server.protocol.notify(EXECUTE, {"command": command, "arguments": [{"run": view.id}]})
        elif title == REVIEW:
            await self.review(view)
        elif title == ACCEPT:
            await self.accept(view, caret=False)  # the user may be in another file by now
        elif title == REJECT:
            await self.reject(view, "")

    async def obstacle(self, view: RunView) -> str | None:
        """Return why the proposal cannot be applied to the file as it is now, None if it can."""
        keep = f"The result is kept as run {view.id}."
        if not os.path.exists(view.path):
            view.deleted = True
            return (
                f"The file {view.path} was deleted or renamed meanwhile. {keep} It is offered once the file is there."
            )
        view.deleted = False
        try:
            # A file that is opened, and nothing clicked, has no program of its project run.
            await self.prepare(view, tidied=False)
        except StarkError as error:
            return f"{error} {keep}"
        return None

    async def compare(self, view: RunView) -> dict[str, Any]:
        """Return both texts, for a client that shows the difference itself.

        Raises
        ------
        StarkError
            There is no proposal, or it no longer fits the text.
        """
        prepared = await self.prepare(view)
        best = self._open_proposal(view)
        about = {
            "title": f"{view.problem.class_name} attempt {best.id}: {self._gain(view)}",
            "run": view.id,
            "node": best.id,
            "next": next_after(view),
        }
        if (new := prepared.edit.new_file) is not None:
            return {**about, "uri": uri_of(new.path), "original": read_file(new.path) or "", "proposed": new.text}
        return {**about, "uri": view.uri, "original": prepared.before, "proposed": prepared.edit.preview}

    async def review(self, view: RunView) -> str | None:
        """Write the difference and its evidence to a file and have it shown; return its path if it was written."""
        try:
            path = await self.write_review(view)
        except StarkError as error:
            self._server.say(wording.trouble(error), warning=True)
            return None
        except OSError as error:
            self._server.say(f"STARK: the review cannot be written: {error}. Free some disk space.", error=True)
            return None
        if not await self._server.show(path):
            # The path comes first: an echo area shows one line.
            self._server.say(f"STARK: {path} has the review of {view.problem.class_name}")
        return str(path)

    async def edit_for(self, run: str) -> types.WorkspaceEdit | None:
        """Return the edit of a proposal for a client that makes it by itself, and then has `accept` take note of it.

        None if the client cannot make it, or there is something to tell: then `accept` does, as without it.
        """
        view = self._desk.find(run, offered=True)
        self._resolved.pop(run, None)
        try:
            if view is None:
                return None
            await self._check_open(view)
            prepared = await self.prepare(view)
            edit = edit_of(self._server, view, prepared, self._gain(view))
        except StarkError:
            return None
        if not by_itself(self._server.facts, prepared):
            return None
        self._resolved[view.id] = prepared
        return edit

    async def accept(self, view: RunView, *, caret: bool = True, made: bool = False) -> None:
        """Apply the proposal to today's text.

        Parameters
        ----------
        caret
            Whether the caret is put at the new class if the document is open. A new file is opened for that: its editor
            is where one undo takes it back.
        made
            Whether the client was to make the edit by itself, if `edit_for` gave it one.
        """
        if self._is_applying(view):
            return
        self._applying.add(view.id)
        try:
            prepared = self._resolved.pop(view.id, None)
            if made and prepared is not None:
                await self._accept_made(view, prepared, caret)
            else:
                await self._accept(view, caret)
        finally:
            self._applying.discard(view.id)

    async def reject(self, view: RunView, reason: str) -> None:
        """Turn the proposal down and keep the reason."""
        best = view.best
        if view.phase is not Phase.OFFERED or best is None:
            self._server.say(f"STARK: run {view.id} has no open proposal.")
            return
        if self._is_applying(view):
            return
        from stark_lsp.core.run import Rejection

        rejection = Rejection(
            run_id=view.id,
            node=best.id,
            reason=reason,
            title=best.plan.title if best.plan is not None else "",
            strategy=best.plan.strategy if best.plan is not None else "",
            when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        view.phase = Phase.OVER
        try:
            if (decided := await self._record(view, Decision.REJECTED)) is not Decision.REJECTED:
                self._desk.dismiss(view)
                self._server.say(f"STARK: the proposal for {view.problem.class_name} {_DECIDED[decided]} elsewhere.")
                return
            await asyncio.to_thread(self._desk.store().add_rejection, view.problem.key, rejection)
        except StarkError as error:
            self._server.say(wording.trouble(error), error=True)
        self._desk.dismiss(view)
        why = f" Noted: {plain(reason, 120)}" if reason else ""
        self._server.say(f"STARK: the proposal for {view.problem.class_name} was rejected.{why}")

    # --- making the edit -----------------------------------------------------------------------------

    async def prepare(self, view: RunView, *, tidied: bool = True) -> Prepared:
        """Make the edit for today's text, formatted if `tidied`; made again if that text changes meanwhile.

        Raises
        ------
        BadInput
            There is no open proposal, or the file is gone.
        StaleProposal
            The class is no longer what the proposal was made for.
        """
        while True:
            prepared = await self._prepare(view, tidied)
            self._open_proposal(view)
            shared = prepared.edit.shared
            same = shared is None or prepared.shared is None or prepared.shared.text == shared.before
            if same and self._desk.text(view) in (prepared.before, None):
                return prepared

    async def _prepare(self, view: RunView, tidied: bool) -> Prepared:
        best = self._open_proposal(view)
        from stark_lsp.proposals.package_kernels import shared_path
        from stark_lsp.runs.formatting import proposed

        if not os.path.exists(view.path):
            raise BadInput(
                "The file was deleted or renamed since the run began.",
                cure="Open it where it is now and accept again.",
                path=view.path,
            )
        document = self._server.documents.find(view.uri, view.path)
        if document is None and view.path.endswith(".ipynb"):
            raise BadInput("The notebook is not open.", cure="Open it first.", path=view.path)
        before = self._desk.text(view)
        if before is None:
            raise BadInput("The file cannot be read.", path=view.path)
        # Long files take a while to take apart; what the user types meanwhile must not wait for it.
        # The run names the file it was recorded with, which may have been moved since.
        run, configuration = replace(view.run, problem=view.problem), configuration_of(self._server, view.path)
        mode, kernels = configuration.write_mode, configuration.kernels
        shared = self._server.documents.at(shared_path(view.path))
        opened = shared.text if shared is not None else None
        edit = await asyncio.to_thread(proposed, run, best, before, mode, kernels, opened, tidied=tidied)
        return Prepared(edit, document, before, shared)

    async def write_review(self, view: RunView) -> Path:
        """Write a diff with the evidence above it; return its path."""
        prepared = await self.prepare(view)
        return review.write(view, self._open_proposal(view), prepared)

    # --- helpers -------------------------------------------------------------------------------------

    async def _accept(self, view: RunView, caret: bool) -> None:
        name = view.problem.class_name
        try:
            await self._check_open(view)
            if self._desk.on(view.path, view.problem.qualname) is not view:
                # A search for something better goes on; it ends here, if this proposal can be applied at all.
                await self.prepare(view)
                await self._desk.stop(view)
            prepared = await self.prepare(view)
            edit = edit_of(self._server, view, prepared, self._gain(view))
        except StarkError as error:
            self._server.say(f"{wording.trouble(error)} Nothing was changed.", warning=True)
            return
        if prepared.path is not None and os.path.exists(prepared.path):
            self._server.say(
                f"STARK: {prepared.path} is already there. Nothing was changed. Move it away, or set stark.writeMode.",
                warning=True,
            )
            return
        if not self._server.facts.apply_edit:
            path = await self.write_review(view)
            self._server.say(f"STARK: this editor applies no edits from a server. The change is written to {path}")
            return
        new, shared = prepared.edit.new_file, prepared.edit.shared
        # What the editor cannot create or change in an edit; the user has just asked for it.
        ours = [(new.path, new.text, "x")] if new is not None and not self._server.facts.create_files else []
        if shared is not None and shared.changes and not by_the_editor(shared, self._server.facts):
            if prepared.shared is not None and read_file(shared.path) != shared.before:
                self._server.say(
                    f"STARK: {os.path.basename(shared.path)} has changes that are not saved, which this editor would "
                    "lose. Nothing was changed. Save it and accept again.",
                    warning=True,
                )
                return
            ours.append((shared.path, shared.text, "w"))
        for place, text, how in ours:
            try:
                with open(place, how, encoding="utf-8", newline="") as file:
                    file.write(text)
            except OSError as error:
                self._server.say(f"STARK: {place} cannot be written: {error.strerror}.", error=True)
                return
        if edit is not None:
            reason = await self._server.apply(edit, f"Accept the STARK proposal for {name}", ANSWER_S)
            if reason is not None and not is_there(prepared, self._desk.text(view)):
                self._refused(view, reason)
                return
            if not await self._has_arrived(view, prepared, believed=True):
                return
        await self._accepted(view, prepared, caret)

    async def _accept_made(self, view: RunView, prepared: Prepared, caret: bool) -> None:
        """Take note of an edit that the client made by itself, from a code action that was resolved."""
        try:
            await self._check_open(view)
        except StarkError as error:
            made = await arrived(self._server, view, prepared, believed=False)
            made = made or is_there(prepared, self._desk.text(view))
            cure = "Undo the edit in the editor." if made else "Nothing was changed."
            self._server.say(f"{wording.trouble(error)} {cure}", warning=True)
            return
        if not await self._has_arrived(view, prepared, believed=False):
            return
        await self._desk.stop(view)
        await self._accepted(view, prepared, caret)

    async def _has_arrived(self, view: RunView, prepared: Prepared, *, believed: bool) -> bool:
        """Wait until the document is what was proposed, and say so if it became something else."""
        self._applied[view.id] = view
        there = await arrived(self._server, view, prepared, believed=believed)
        del self._applied[view.id]
        if not there and not believed and not is_there(prepared, self._desk.text(view)):
            self._refused(view, "", " Accept it again.")
        elif not there:
            self._server.say(
                f"STARK: the document of {view.problem.class_name} changed while the proposal was applied, and is not "
                "what was proposed. Undo the edit in the editor and accept again. The proposal stays open.",
                warning=True,
            )
        return there

    async def _accepted(self, view: RunView, prepared: Prepared, caret: bool) -> None:
        """Record that the proposal is in the document, and show it there."""
        name = view.problem.class_name
        view.phase = Phase.OVER
        try:
            await self._record(view, Decision.ACCEPTED)
        except StarkError as error:
            self._server.say(wording.trouble(error), error=True)
        self._desk.dismiss(view)
        where = f" in {os.path.basename(prepared.path)}" if prepared.path is not None else ""
        self._server.say(" ".join([f"STARK: the proposal for {name} was accepted{where}.", *prepared.edit.notes]))
        if caret and prepared.document is not None and not view.path.endswith(".ipynb"):
            from stark_lsp.server.proposals.afterwards import show_class

            new = prepared.edit.new_file
            uri = uri_of(new.path) if new is not None else prepared.document.uri
            text = new.text if new is not None else prepared.edit.preview
            await show_class(self._server, uri, text, prepared.edit.qualname)

    def _is_applying(self, view: RunView) -> bool:
        """Whether a proposal is being accepted already, which is said then."""
        if view.id in self._applying:
            self._server.say(f"STARK: the proposal for {view.problem.class_name} is being accepted.")
        return view.id in self._applying

    def _refused(self, view: RunView, reason: str, cure: str = "") -> None:
        why = f": {plain(reason, 200)}" if reason else ""
        self._server.say(
            f"STARK: the editor did not apply the proposal for {view.problem.class_name}{why}. "
            f"Nothing was changed, and the proposal stays open.{cure}",
            warning=True,
        )

    async def _check_open(self, view: RunView) -> None:
        """Raise unless the proposal is still open, whatever other windows and terminals did meanwhile."""
        run = await asyncio.to_thread(self._desk.store().get, view.id)
        if run.decision in (Decision.ACCEPTED, Decision.REJECTED) and not view.chosen:
            self._desk.put_away(view)
            self._desk.dismiss(view)
            raise BadInput(f"The proposal for {view.problem.class_name} {_DECIDED[run.decision]} elsewhere.")
        running = self._desk.on(view.path, view.problem.qualname)
        here = running is not None and running.active and running.id == view.id
        if not run.state.over and not here:
            raise BadInput(
                f"Run {view.id} goes on in another window or terminal.", cure="Accept its proposal once it has ended."
            )

    async def _record(self, view: RunView, decision: Decision) -> Decision:
        """Record a decision; return what holds, which is another one if it was decided elsewhere."""
        named = view.run if view.chosen and decision is Decision.ACCEPTED else None
        held = await asyncio.to_thread(self._desk.store().decide, view.id, decision, named)
        view.run = replace(view.run, decision=held)
        return held

    def _open_proposal(self, view: RunView) -> Node:
        if view.phase is not Phase.OFFERED or view.best is None:
            raise BadInput(f"Run {view.id} has no open proposal.")
        return view.best

    def _gain(self, view: RunView) -> str:
        interval = wording.gain(view.best.verdict) if view.best is not None else None
        return f"{wording.times(interval)} vs eager" if interval is not None else "proposal"


_DECIDED = {
    Decision.OPEN: "is no longer shown",
    Decision.ACCEPTED: "was already accepted",
    Decision.REJECTED: "was already rejected",
    Decision.KEPT: "is no longer shown",
}
