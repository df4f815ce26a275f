"""What follows an accepted proposal: the caret at the new class, its use at the call sites, a test for it.

Nothing here happens silently: changes of other code come as a preview where the editor has one, else after a question.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.core.editing import Replacement, keep_ends
from stark_lsp.core.errors import BadInput
from stark_lsp.server.commands import argument
from stark_lsp.server.text.documents import Document, read_file
from stark_lsp.server.text.folders import configuration_of, python_files, settings_folder
from stark_lsp.server.text.positions import path_of, uri_of
from stark_lsp.server.text.workspace_edits import edit_of, file_with

if TYPE_CHECKING:
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.proposals.provenance import Mark
    from stark_lsp.server.language_server import StarkServer

USE_AT_CALL_SITES = "stark.useAtCallSites"
WRITE_TEST = "stark.writeTest"

FILES = 5000
"""Python files of the workspace that are read at most."""


@dataclass(frozen=True)
class Changed:
    """The changes of one file."""

    uri: str
    version: int | None
    before: str
    changes: tuple[Replacement, ...]


def mark_above(document: Document, cls: ModuleClass) -> Mark | None:
    """Return the mark of an accepted class of a document, None for any other class."""
    from stark_lsp.proposals.provenance import read_mark

    return next(filter(None, map(read_mark, document.comments_above(cls))), None)


def commands_for(document: Document, cls: ModuleClass) -> list[types.Command]:
    """Return what can be done with an accepted class that stands beside the original one."""
    mark = mark_above(document, cls)
    if mark is None or mark.qualname == cls.qualname:
        return []
    arguments = [document.uri, cls.qualname]
    use = types.Command(
        f"Use {cls.qualname} at the call sites of {mark.qualname}", USE_AT_CALL_SITES, arguments=arguments
    )
    if document.path is not None and document.path.endswith(".ipynb"):
        return [use]  # no test can import it
    return [use, types.Command(f"Write a test for {cls.qualname}", WRITE_TEST, arguments=arguments)]


async def show_class(server: StarkServer, uri: str, text: str, qualname: str) -> None:
    """Put the caret at a class of a document, which the editor opens if it does not show it."""
    if not server.facts.show_document:
        return
    place = await asyncio.to_thread(_name_of, text, qualname)
    if place is None:
        return
    lines = keep_ends(text)
    selection = server.documents.units.range(lines, (place[0], place[1]), (place[0], place[2]))
    await server.show(uri, selection)


def _name_of(text: str, qualname: str) -> tuple[int, int, int] | None:
    from stark_lsp.discovery.syntax import find_class, parse

    found = find_class(parse(text), qualname)
    if not found:
        return None
    line = found[-1].lineno - 1
    name = re.compile(rf"\bclass\s+({re.escape(found[-1].name)})\b").search(keep_ends(text)[line])
    return (line, name.start(1), name.end(1)) if name is not None else None


def register(server: StarkServer) -> None:
    """Register the commands."""

    def carried_out(work: Any, *arguments: Any) -> dict[str, Any]:
        """Find out what a command is about and do its work in the background."""
        uri, qualname = argument(arguments, 0, "uri"), argument(arguments, 1, "class", "qualname")
        path = path_of(uri) if uri else None
        if path is None or not qualname:
            raise BadInput(
                "This command needs a document and a class.", cure="Use the code action on a class that STARK brought."
            )
        document, text = server.documents.find(uri, path), server.documents.require(uri)
        if not server.facts.apply_edit:
            raise BadInput("This editor applies no edits from a server.", cure="Change the code by hand.")
        asked = _Asked(document.uri if document is not None else uri, path, text, document, qualname)
        server.spawn(work(server, asked), work.__name__)
        return {"status": "working"}

    server.own_command(USE_AT_CALL_SITES)(partial(carried_out, _use_at_call_sites))
    server.own_command(WRITE_TEST)(partial(carried_out, _write_test))


@dataclass(frozen=True)
class _Asked:
    uri: str
    path: str
    text: str
    document: Document | None
    qualname: str


# --- the call sites ----------------------------------------------------------------------------------


async def _use_at_call_sites(server: StarkServer, asked: _Asked) -> None:
    folder = settings_folder(server, asked.path)
    opened = {document.real: document for document in server.documents.all() if document.real is not None}
    name, changed = await asyncio.to_thread(_call_sites, asked, folder, opened)
    count = sum(len(one.changes) for one in changed)
    if not count:
        server.say(f"STARK: nothing in {os.path.basename(folder)} constructs {name}, tests apart.")
        return
    files = f"{len(changed)} file{'s' if len(changed) > 1 else ''}"
    label = f"Use {asked.qualname} in place of {name}"
    annotated = server.facts.change_annotations and server.facts.document_changes
    if not annotated:
        places = ", ".join(f"{os.path.basename(path_of(one.uri) or '')}:{c.start_line + 1}"
                           for one in changed for c in one.changes)  # fmt: skip
        question = f"STARK: {label} in {files} ({places})?"
        otherwise = f"{question} This editor can neither preview that nor ask. Nothing was changed."
        if await server.choose(question, ["Replace"], otherwise) is None:
            return
    for one in changed:
        if server.documents.text(one.uri) != one.before:
            raise BadInput("The files changed meanwhile. Nothing was changed.", cure="Try again.")
    units = server.documents.units
    edits = [(one.uri, one.version, units.edits(one.before, one.changes)) for one in changed]
    annotation = types.ChangeAnnotation(label, needs_confirmation=True) if annotated else None
    edit = edit_of(edits, server.facts, annotation)
    if await server.apply(edit, label) is not None:
        server.say("STARK: the editor did not apply the edit. Nothing was changed.", warning=True)


def _call_sites(asked: _Asked, folder: str, opened: dict[str, Document]) -> tuple[str, list[Changed]]:
    """Return the original's name and what changes in each file."""
    from stark_lsp.proposals import call_sites

    new = call_sites.accepted_class(asked.text, asked.qualname)
    assert new.mark is not None
    name, defining = new.mark.qualname, Path(asked.path)
    version = asked.document.version if asked.document is not None else None
    found = [Changed(asked.uri, version, asked.text, call_sites.own_sites(asked.text, new))]
    seen = {os.path.realpath(defining)}  # a file may have several names
    for path in python_files([folder], FILES):
        real = os.path.realpath(path)
        if real in seen or call_sites.is_test(path.relative_to(folder)):
            continue
        seen.add(real)
        document = opened.get(real)
        text = document.text if document is not None else read_file(str(path))
        if text is None or name not in text or "import" not in text:
            continue
        changes = call_sites.importing_sites(text, path, defining, name, asked.qualname)
        uri, version = (document.uri, document.version) if document is not None else (uri_of(str(path)), None)
        found.append(Changed(uri, version, text, changes))
    return name, [one for one in found if one.changes]


# --- the test ----------------------------------------------------------------------------------------


async def _write_test(server: StarkServer, asked: _Asked) -> None:
    interpreter = configuration_of(server, asked.path).interpreter(settings_folder(server, asked.path))
    path, text = await asyncio.to_thread(_test, asked, interpreter)
    if server.facts.create_files:
        edit = types.WorkspaceEdit(document_changes=file_with(path, text))
        if await server.apply(edit, f"Write a test for {asked.qualname}") is not None:
            server.say("STARK: the editor did not create the test.", warning=True)
            return
    else:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            server.say(f"STARK: {path} cannot be written: {error.strerror}.", error=True)
            return
    await server.show(Path(path))  # whoever asks for a test wants to see it
    server.say(f"STARK: the test for {asked.qualname} is in {path}. Save it and run it with pytest.")


def _test(asked: _Asked, interpreter: str | None) -> tuple[str, str]:
    """Return the path and the text of the test."""
    from stark_lsp.discovery.classes import find_modules
    from stark_lsp.proposals.call_sites import accepted_class
    from stark_lsp.proposals.kernel_test import kernel_test
    from stark_lsp.runs.formatting import tidy

    new = accepted_class(asked.text, asked.qualname)
    assert new.mark is not None
    original = next((c for c in find_modules(asked.text, asked.path) if c.qualname == new.mark.qualname), None)
    if original is None or original.qualname == asked.qualname:
        raise BadInput(f"{new.mark.qualname} is not there any more to test {asked.qualname} against.", path=asked.path)
    comment = " ".join(keep_ends(asked.text)[new.start : new.place.node.lineno])
    device = "cuda" if "(cuda)" in comment else "cpu"
    mode = ".eval()" if "Measured in eval mode" in comment else ""
    said = [re.search(rf"\b{words}\W+to\W+(\w+)", comment) for words in (r"converted", r"under\W+autocast")]
    dtype, cast = (one[1] if one else "" for one in said)
    how = {"device": device, "mode": mode, "weights_dtype": dtype, "autocast": cast}
    made = kernel_test(Path(asked.path), original.qualname, asked.qualname, original.inputs, **how)
    return str(made.path), tidy(made.text, str(made.path), interpreter)
