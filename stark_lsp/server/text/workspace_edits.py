"""A proposal's edit in the protocol's words, as rich as the client takes it. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.core.editing import keep_ends
from stark_lsp.server.text.positions import Units, uri_of

if TYPE_CHECKING:
    from stark_lsp.proposals.edit import ProposalEdit
    from stark_lsp.proposals.package_kernels import SharedFile
    from stark_lsp.server.client.abilities import ClientFacts

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


def insertion(uri: str, version: int | None, line: int, text: str, facts: ClientFacts) -> types.WorkspaceEdit:
    """Return an edit that inserts `text` at the start of a line."""
    return replacement(uri, version, (line, line), text, facts)


def replacement(
    uri: str, version: int | None, lines: tuple[int, int], text: str, facts: ClientFacts
) -> types.WorkspaceEdit:
    """Return an edit that puts `text` in the place of lines, from the first to before the last."""
    edit = types.TextEdit(types.Range(types.Position(lines[0], 0), types.Position(lines[1], 0)), text)
    if facts.document_changes:
        identifier = types.OptionalVersionedTextDocumentIdentifier(uri, version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, [edit])])
    return types.WorkspaceEdit(changes={uri: [edit]})


def workspace_edit(
    proposal: ProposalEdit, shape: Shape, facts: ClientFacts, units: Units
) -> types.WorkspaceEdit | None:
    """Return the edit for the client, None if there is nothing to do in it.

    A new file is created only by clients that can; others find it written already. `needsConfirmation` is never set:
    it opens a preview with all changes unticked, and the proposal has its own review.
    """
    lines = keep_ends(shape.before)
    ranges = [
        (units.range(lines, (e.start_line, e.start_column), (e.end_line, e.end_column)), e.new_text)
        for e in proposal.edits
    ]
    new_file = proposal.new_file if facts.create_files else None
    shared = proposal.shared if by_the_editor(proposal.shared, facts) else None
    if not ranges and new_file is None and shared is None:
        return None
    if not facts.document_changes and new_file is None and shared is None:
        return types.WorkspaceEdit(changes={shape.uri: [types.TextEdit(place, text) for place, text in ranges]})

    annotated = facts.change_annotations
    changes: list[types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile] = []
    created = [new_file, shared if shared is not None and shared.before is None else None]
    for file in created:
        if file is not None:
            uri = uri_of(file.path)
            options = types.CreateFileOptions(overwrite=False, ignore_if_exists=False)
            changes.append(types.CreateFile(uri, options=options, annotation_id=ANNOTATION if annotated else None))
            changes.append(_edit(uri, None, [(NEW_FILE, file.text)], annotated))
    if shared is not None and shared.before is not None:
        old = keep_ends(shared.before)
        whole = types.Range(types.Position(0, 0), types.Position(len(old), 0))
        changes.append(_edit(uri_of(shared.path), None, [(whole, shared.text)], annotated))
    if ranges:
        changes.append(_edit(shape.uri, shape.version, ranges, annotated))
    annotations = {ANNOTATION: types.ChangeAnnotation(shape.label, needs_confirmation=False)} if annotated else None
    return types.WorkspaceEdit(document_changes=changes, change_annotations=annotations)


def by_the_editor(shared: SharedFile | None, facts: ClientFacts) -> bool:
    """Whether the edit itself brings the file that kernels share; for other clients it is written before."""
    if shared is None or not shared.changes:
        return False
    return facts.create_files if shared.before is None else facts.document_changes


def _edit(
    uri: str, version: int | None, ranges: list[tuple[types.Range, str]], annotated: bool
) -> types.TextDocumentEdit:
    edits: list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit] = [
        types.AnnotatedTextEdit(ANNOTATION, place, text) if annotated else types.TextEdit(place, text)
        for place, text in ranges
    ]
    return types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), edits)
