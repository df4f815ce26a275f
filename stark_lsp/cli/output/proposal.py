"""From the best node to a changed file: builds the edit, shows it as a patch, applies it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from stark_lsp.cli.terminal import documents
from stark_lsp.cli.terminal.console import line, short_path
from stark_lsp.cli.terminal.documents import Document
from stark_lsp.cli.terminal.figures import count
from stark_lsp.core.editing import LINE_END
from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.syntax import find_class, first_line, last_line, parse, split_lines
from stark_lsp.proposals.diff import unified
from stark_lsp.proposals.edit import ProposalEdit, StaleProposal
from stark_lsp.runs.formatting import proposed


@dataclass(frozen=True)
class Offer:
    """An edit of one document, ready to show and to apply."""

    document: Document
    """The file as it was when the edit was made for it."""
    edit: ProposalEdit
    edited: bytes
    """The document's bytes with the edit applied."""
    patch: str
    """Unified diff of all files."""


def make(run: Run, node: Node, document: Document, mode: WriteMode) -> Offer:
    """Build the offer of `node` for `document`.

    Raises
    ------
    BadInput
        The class is no longer what the run was made for, or the new text does not fit the file's encoding.
    Fault
        The candidate cannot be brought into this file.
    """
    try:
        edit = proposed(run, node, document.text, mode)
    except StaleProposal as error:
        raise BadInput(error.message, cure=error.cure, path=error.path, line=error.line) from error
    edited = document.edited(edit.edits)
    after = LINE_END.sub("\n", edited.decode(document.encoding))
    patch = unified(document.text, after, short_path(document.path)) if edit.edits else ""
    if edit.new_file is not None:
        patch += unified("", edit.new_file.text, short_path(edit.new_file.path))
    return Offer(document, edit, edited, patch)


def standing(run: Run, node: Node, mode: WriteMode) -> tuple[Offer, str]:
    """Build the offer of `node` for its file as it is now, and return it with nothing more to say.

    Where it does not fit any more, the offer is the one for the text that the run was made for; beside it stands why.

    Raises
    ------
    Fault
        As for `make`.
    """
    path = Path(run.problem.path)
    try:
        return make(run, node, documents.read(path), mode), ""
    except StarkError as error:
        return make(run, node, documents.of_text(path, run.problem.text), mode), str(error)


def folded(run: Run, offer: Offer) -> str:
    """Return how the class changes, line by line; its kernels, and what builds them, are folded to one line."""
    text = offer.edit.new_file.text if offer.edit.new_file is not None else offer.edit.preview
    before, after = _class(offer.document.text, run.problem.qualname), _class(text, offer.edit.qualname)
    # Without the names of the files and the numbers of lines: this is to be read, not applied.
    changes = split_lines(unified(before, after, "class"))[2:]
    lines = ["…" if line.startswith("@@") else line for line in changes][1:]
    added = sum(line.startswith("+") and not line.startswith("+++") for line in split_lines(offer.patch))
    more = added - len(split_lines(after))
    if more > 0:
        lines.append(f"… {count(more, 'more line')}: what the class calls, and imports; --diff shows them")
    return "\n".join(lines)


def _class(text: str, qualname: str) -> str:
    """Return the lines of a class, empty if it is not there."""
    found = find_class(parse(text), qualname)
    lines = split_lines(text)[first_line(found[-1]) : last_line(found[-1]) + 1] if found else []
    return "".join(f"{line}\n" for line in lines)


def write(out: Console, run: Run, offer: Offer) -> None:
    """Write the offer, and tell which files were written and what is left to do.

    Raises
    ------
    BadInput, Fault
        As for `apply`.
    """
    if offer.edit.new_file is None and offer.edited == offer.document.raw:
        line(out, f"Nothing to write: {short_path(offer.document.path)} has it already.", "bold green")
        return
    for path in apply(offer):
        line(out, f"Written: {short_path(path)}", "bold green")
    old, new = run.problem.qualname, offer.edit.qualname
    if new != old:
        line(out, f"{new} is used nowhere yet: make it where you make {old}.", "dim")


def apply(offer: Offer) -> tuple[Path, ...]:
    """Write the offer and return the files that were written.

    Raises
    ------
    BadInput
        The file changed since it was read, or the new file exists; nothing is written.
    Fault
        A file cannot be written.
    """
    written: list[Path] = []
    new_file = offer.edit.new_file
    if new_file is not None:
        documents.check_unchanged(offer.document)
        documents.create(Path(new_file.path), new_file.text, like=offer.document)
        written.append(Path(new_file.path))
    if offer.edit.edits:
        try:
            documents.replace(offer.document, offer.edited)
        except Exception:
            for path in written:
                path.unlink(missing_ok=True)
            raise
        written.append(offer.document.path)
    return tuple(written)
