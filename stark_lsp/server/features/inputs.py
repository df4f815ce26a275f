"""`stark.addInputs`: writes a `get_inputs` that runs, or one with a TODO that says why it does not.

1. The text of the class gives a draft.
2. The draft is tried in the user's interpreter and mended there, with a progress that can be cancelled.
3. What came of it is an edit behind the class. One that does not run carries `MARK`; the diagnostic is read off that
   line, so it stays until the line goes.
"""

from __future__ import annotations

import ast
import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.contract.errors import ended
from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.problem import Span
from stark_lsp.server.features.lenses import ADD_INPUTS
from stark_lsp.server.runs.progress import RunProgress, followed
from stark_lsp.server.text.folders import configuration_of, open_folders, settings_folder
from stark_lsp.server.text.markup import plain
from stark_lsp.server.text.positions import Units, path_of, trimmed_range
from stark_lsp.server.text.workspace_edits import replacement

if TYPE_CHECKING:
    from stark_lsp.discovery.drafting.stubs import Stub
    from stark_lsp.evaluation.trial import Outcome
    from stark_lsp.server.features.preflight import Preflight
    from stark_lsp.server.language_server import StarkServer

MARK = "TODO: these inputs do not run yet:"
"""Begins the comment above a `get_inputs` that failed when it was tried."""


def unfinished(text: str, lines: Sequence[str], units: Units) -> list[types.Diagnostic]:
    """Return a diagnostic for each `get_inputs` that is marked as not running."""
    if MARK not in text:
        return []
    found = []
    for number, line in enumerate(lines):
        if line.lstrip().startswith(f"# {MARK}"):
            said = ended(line.strip().removeprefix("# TODO: "))
            found.append(
                types.Diagnostic(
                    range=trimmed_range(tuple(lines), Span(number, number), units),
                    message=f"{said[0].upper()}{said[1:]} Mend them, then delete this line.",
                    severity=types.DiagnosticSeverity.Warning,
                    code="inputs",
                    source="STARK",
                )
            )
    return found


def failed_functions(text: str, path: str, qualname: str) -> tuple[int, int] | None:
    """Return the lines of a class's functions that are marked as not running, the mark with them; None if none are."""
    from stark_lsp.discovery.classes import find_modules
    from stark_lsp.discovery.syntax import parse, split_lines

    try:
        tree, classes = parse(text), find_modules(text, path)
    except SyntaxError:
        return None
    inputs = next((found.inputs for found in classes if found.qualname == qualname), None)
    names = {inputs.inputs_function, inputs.init_function} if inputs is not None else set()
    lines = split_lines(text)
    start = end = None
    for before, node in zip([None, *tree.body], tree.body, strict=False):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            above = (before.end_lineno or 0) if before is not None else 0
            if start is None:
                start = next((i for i in range(above, node.lineno) if lines[i].startswith(f"# {MARK}")), None)
            end = node.end_lineno
        elif start is not None:
            break
    return (start, end) if start is not None and end is not None else None


class Inputs:
    """Adds inputs to classes."""

    def __init__(self, server: StarkServer) -> None:
        self._server = server
        self._going: dict[tuple[str, str], asyncio.Task[None]] = {}
        """What is being tried, by document and class."""

    def add(self, uri: str, qualname: str) -> None:
        """Begin to add inputs for a class; nothing if that is going on already."""
        key = (uri, qualname)
        if key in self._going:
            self._server.say(f"STARK: inputs for {qualname} are being tried already.")
            return
        if not self._server.facts.apply_edit:
            raise BadInput(
                "This editor applies no edits from a server.",
                cure=f"In a terminal: stark-lsp inputs {path_of(uri)}::{qualname}",
            )
        task = self._server.spawn(self._add(uri, qualname), f"adding inputs for {qualname}")
        self._going[key] = task
        task.add_done_callback(lambda _: self._going.pop(key, None))

    async def _add(self, uri: str, qualname: str) -> None:
        from stark_lsp.discovery.drafting.stubs import make_stub

        name, text = qualname.rpartition(".")[2], self._server.documents.require(uri)
        if (path := path_of(uri)) is None:
            raise BadInput("Only files on this machine can be run.")
        stub = await asyncio.to_thread(make_stub, text, qualname, path)
        trying = partial(self._try, stub, path)
        outcome = await followed(self._server, f"STARK: inputs for {name}", "Reading the class", trying)
        if outcome is None:
            self._server.say(f"STARK: stopped. {name} has no inputs yet.")
            return
        await self._write(uri, stub, outcome)

    async def _try(self, stub: Stub, path: str, progress: RunProgress) -> Outcome | StarkError:
        """Return what came of trying, or why nothing could be tried."""
        from stark_lsp.evaluation.lookup import find_interpreter
        from stark_lsp.evaluation.trial import find_inputs

        configuration = configuration_of(self._server, path)
        if path.endswith(".ipynb"):
            from stark_lsp.discovery.notebooks import needed_alone

            stub = replace(stub, document=needed_alone(stub.document, stub.qualname, ()))
        options = configuration.run_options(settings_folder(self._server, path))
        try:
            found = await asyncio.to_thread(
                find_interpreter, options.interpreter, path, open_folders(self._server) or (os.getcwd(),)
            )
            return await find_inputs(
                stub,
                path,
                interpreter=found.path,
                device=configuration.device,
                mode=configuration.mode,
                log=self._server.log,
                tell=progress.report,
            )
        except (BadInput, Fault) as error:
            return error

    async def _write(self, uri: str, stub: Stub, outcome: Outcome | StarkError) -> None:
        """Apply the edit to the document as it is now, and say what came of it."""
        from stark_lsp.discovery.drafting.stubs import make_stub

        while (text := self._server.documents.require(uri)) != stub.document:
            # The user went on typing, perhaps also while this was placed; the place may be another one.
            stub = replace(await asyncio.to_thread(make_stub, text, stub.qualname, path_of(uri)), draft=stub.draft)
        name = stub.qualname.rpartition(".")[2]
        if isinstance(outcome, StarkError):
            new = stub.text(stub.draft)
            said = f"STARK: the inputs of {name} are guesses; they could not be tried. {outcome}"
        elif outcome.failure is not None:
            why = plain(outcome.failure.said, 200)
            new = stub.text(outcome.draft, f"{MARK} {why}")
            said = f"STARK: no inputs were found that {name} runs with. {why}"
        else:
            new, said = stub.text(outcome.draft.checked()), ""
        document = self._server.documents.get(uri)
        version = document.version if document is not None else None
        edit = replacement(uri, version, (stub.line, stub.line), new, self._server.facts)
        reason = await self._server.apply(edit, f"Add inputs for {stub.qualname}")
        if reason is not None:
            self._server.say(
                f"STARK: the editor did not apply the edit{f': {reason}' if reason else ''}.", warning=True
            )
            return
        self._server.refresh_lenses()
        if said:
            self._server.spawn(self._tell(said, uri, stub.qualname), "telling of inputs")

    async def _tell(self, said: str, uri: str, qualname: str) -> None:
        """Say that inputs do not run, with what can be done."""
        from stark_lsp.server.features import capturing

        otherwise = f"{said} {capturing.by_hand(path_of(uri) or '', qualname)}"
        if await self._server.choose(said, [capturing.TITLE], otherwise, warning=True) is not None:
            await capturing.capture(self._server, uri, qualname)


def register(server: StarkServer, preflight: Preflight) -> None:
    """Register the command; it is what the button of a class without inputs does, too."""
    inputs = Inputs(server)

    @server.own_command(ADD_INPUTS)
    def add_inputs(*arguments: Any) -> dict[str, Any]:
        from stark_lsp.server.commands import target

        inputs.add(*target(arguments))
        return {"status": "applying"}

    preflight.add_inputs = inputs.add
