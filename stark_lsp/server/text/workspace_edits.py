"""A proposal's edit in the protocol's words, as rich as the client takes it. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.core.editing import Replacement, keep_ends
from stark_lsp.server.text.positions import Units, uri_of

if TYPE_CHECKING:
    from stark_lsp.proposals.edit import ProposalEdit
    from stark_lsp.proposals.package_kernels import SharedFile
    from stark_lsp.server.client.abilities import ClientFacts
    from stark_lsp.server.text.documents import Document

Ranges = list[tuple[types.Range, str]]
"""Places in a document, each with what comes there."""
ANNOTATION = "stark-proposal"
NEW_FILE = types.Range(types.Position(0, 0), types.Position(1, 0))
"""All of a file that was just created. With an end on its one line Neovim would leave an empty line after the text."""


@dataclass(frozen=True)
class Shape:
    """The document an edit is for."""

    uri: str
    version: int | None
    """None if the document is not open."""
    before: str
    """Its text."""
    label: str
    """What the edit is, for clients that show it."""
    shared: Document | None = None
    """The file that kernels share, None if it is not open."""


def replacement(
    uri: str, version: int | None, lines: tuple[int, int], text: str, facts: ClientFacts
) -> types.WorkspaceEdit:
    """Return an edit that puts `text` in the place of lines, from the first to before the last."""
    place = types.Range(types.Position(lines[0], 0), types.Position(lines[1], 0))
    return edit_of([(uri, version, [(place, text)])], facts)


def edit_of(
    documents: Sequence[tuple[str, int | None, Ranges]],
    facts: ClientFacts,
    annotation: types.ChangeAnnotation | None = None,
) -> types.WorkspaceEdit:
    """Return an edit of documents; a client that takes no annotations must be given none."""
    if not facts.document_changes:
        return types.WorkspaceEdit(
            changes={uri: [types.TextEdit(place, text) for place, text in ranges] for uri, _, ranges in documents}
        )
    changes = [_edit(*document, annotation is not None) for document in documents]
    annotations = {ANNOTATION: annotation} if annotation is not None else None
    return types.WorkspaceEdit(document_changes=changes, change_annotations=annotations)


def file_with(path: str, text: str, annotated: bool = False) -> tuple[types.CreateFile, types.TextDocumentEdit]:
    """Return what makes a new file with this text."""
    options = types.CreateFileOptions(overwrite=False, ignore_if_exists=False)
    create = types.CreateFile(uri_of(path), options=options, annotation_id=ANNOTATION if annotated else None)
    return create, _edit(create.uri, None, [(NEW_FILE, text)], annotated)


def workspace_edit(
    proposal: ProposalEdit, shape: Shape, facts: ClientFacts, units: Units
) -> types.WorkspaceEdit | None:
    """Return the edit for the client, None if there is nothing to do in it.

    A new file is created only by clients that can; others find it written already. `needsConfirmation` is never set:
    it opens a preview with all changes unticked, and the proposal has its own review.
    """
    ranges = units.edits(shape.before, proposal.edits)
    new_file = proposal.new_file if facts.create_files else None
    shared = proposal.shared if by_the_editor(proposal.shared, facts) else None
    if not ranges and new_file is None and shared is None:
        return None
    if not facts.document_changes and new_file is None and shared is None:
        return edit_of([(shape.uri, shape.version, ranges)], facts)

    annotated = facts.change_annotations
    changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile] = []
    for file in (new_file, shared if shared is not None and shared.before is None else None):
        if file is not None:
            changes += file_with(file.path, file.text, annotated)
    if shared is not None and shared.before is not None:
        lines, opened = keep_ends(shared.before), shape.shared
        end = units.place(lines, types.Position(len(lines), 0))
        ends = units.edits(shared.before, [Replacement(*end, *end, shared.added)])
        uri, version = (opened.uri, opened.version) if opened is not None else (uri_of(shared.path), None)
        changes.append(_edit(uri, version, ends, annotated))
    if ranges:
        changes.append(_edit(shape.uri, shape.version, ranges, annotated))
    annotations = {ANNOTATION: types.ChangeAnnotation(shape.label, needs_confirmation=False)} if annotated else None
    return types.WorkspaceEdit(document_changes=changes, change_annotations=annotations)


def by_the_editor(shared: SharedFile | None, facts: ClientFacts) -> bool:
    """Whether the edit itself brings the file that kernels share; for other clients it is written before."""
    if shared is None or not shared.changes:
        return False
    return facts.create_files if shared.before is None else facts.document_changes


def _edit(uri: str, version: int | None, ranges: Ranges, annotated: bool) -> types.TextDocumentEdit:
    edits: list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit] = [
        types.AnnotatedTextEdit(ANNOTATION, place, text) if annotated else types.TextEdit(place, text)
        for place, text in ranges
    ]
    return types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), edits)
