"""A proposal on its way into the document: the edit for the client, and whether it arrived."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.core.editing import split_lines
from stark_lsp.server.text.documents import Document
from stark_lsp.server.text.workspace_edits import Shape, by_the_editor, workspace_edit

if TYPE_CHECKING:
    from stark_lsp.proposals.edit import ProposalEdit
    from stark_lsp.server.client.abilities import ClientFacts
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.views import RunView

SETTLE_S = 2.0
"""Seconds in which most editors tell the server of an edit they have applied; some wait for the user to be idle."""

ANSWER_S = 600.0
"""Seconds in which a client must say whether it applied an edit; some ask the user first, who reads it."""


@dataclass(frozen=True)
class Prepared:
    """A proposal as an edit of today's text."""

    edit: ProposalEdit
    document: Document | None
    """The open document, None if the file is not open."""
    before: str
    shared: Document | None = None
    """The open document of the file that kernels share, None if it is not open."""

    @property
    def path(self) -> str | None:
        """The new file, None if the document itself is edited."""
        return self.edit.new_file.path if self.edit.new_file is not None else None


def edit_of(server: StarkServer, view: RunView, prepared: Prepared, gain: str) -> types.WorkspaceEdit | None:
    """Return a proposal's edit for the client, its gain as the label; None if nothing of it is left to the client.

    Raises
    ------
    BadInput
        In a notebook it reaches from one cell into another.
    """
    document = prepared.document
    shape = Shape(
        uri=document.uri if document is not None else view.uri,
        version=document.version if document is not None else None,
        before=prepared.before,
        label=f"STARK: {gain}",
        shared=prepared.shared,
    )
    edit = workspace_edit(prepared.edit, shape, server.facts, server.documents.units)
    return server.notebooks.placed(edit) if edit is not None else None


def by_itself(facts: ClientFacts, prepared: Prepared) -> bool:
    """Whether a client can make the whole edit, with no file that is written for it before."""
    shared = prepared.edit.shared
    if shared is not None and shared.changes and not by_the_editor(shared, facts):
        return False
    return prepared.path is None or (facts.create_files and not os.path.exists(prepared.path))


async def arrived(server: StarkServer, view: RunView, prepared: Prepared, *, believed: bool) -> bool:
    """Wait until the document is what was proposed; False if it became something else.

    Parameters
    ----------
    believed
        Whether the client said that it made the edit. Then a document that is still what it was says nothing against
        its word: some tell of edits only when the user is idle.
    """
    if prepared.path is not None and not prepared.edit.edits:
        return True
    deadline = asyncio.get_running_loop().time() + SETTLE_S
    while True:
        document, text = server.documents.find(view.uri, view.path), server.documents.text(view.uri, view.path)
        if text is not None and _same_text(text, prepared.edit.preview):
            return True
        if document is None and prepared.document is None:
            # An editor may hold the edit in a buffer that it has not told us of; then there is nothing to see.
            return True
        if asyncio.get_running_loop().time() > deadline:
            return believed and text is not None and _same_text(text, prepared.before)
        await asyncio.sleep(0.02)


def is_there(prepared: Prepared, text: str | None) -> bool:
    """Whether anything of what was proposed is in a text."""
    new = {*split_lines(prepared.edit.preview)} - {*split_lines(prepared.before)}
    return not new.isdisjoint(split_lines(text or ""))


def _same_text(left: str, right: str) -> bool:
    """Whether two texts are equal but for their line ends and a final one, which editors keep in their own way."""
    return _unified(left) == _unified(right)


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
