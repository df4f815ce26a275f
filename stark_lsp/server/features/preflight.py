"""What stands in the way of a run, told at the click: one message with a button for each cure, and a diagnostic at the
line it is about until it is mended.

1. `check` looks at the machine before a run is made (`evaluation.preflight`), and says which Python it will be.
2. `refuse` tells whatever stands in the way; commands return before the user has answered.
3. `of` gives the diagnostics. One about the file goes with its cause; one about the machine goes with the next click
   that gets through, or with a change of settings.

Whether the folder is trusted was asked before: an editor that knows of trust starts no server without it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.core.errors import BadInput, NoInputs, StarkError
from stark_lsp.core.status import InputSource, Isolation
from stark_lsp.server.features.diagnostics import SOURCE
from stark_lsp.server.text import wording
from stark_lsp.server.text.folders import open_folders
from stark_lsp.server.text.positions import key_of, path_of

if TYPE_CHECKING:
    from stark_lsp.core.status import DeviceChoice
    from stark_lsp.evaluation.lookup import Interpreter
    from stark_lsp.evaluation.preflight import Facts, Lack
    from stark_lsp.runs.options import RunOptions
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.text.documents import Document

CHOOSE, INSTALL, INPUTS, OUTPUT = "Choose interpreter", "Install {}…", "Set inputs", "Show output"
CHOOSE_COMMAND, OUTPUT_COMMAND = "stark.chooseInterpreter", "stark.showOutput"
"""Commands of an editor's extension, which it is told to run (`stark/execute`)."""


class NotReady(BadInput):
    """The machine lacks something.

    Parameters
    ----------
    lacks
        What, what must be mended first first.
    facts
        What was found, None if there is no interpreter to ask.
    """

    def __init__(self, message: str, *, cure: str, lacks: Sequence[Lack] = (), facts: Facts | None = None) -> None:
        super().__init__(message, cure=cure)
        self.lacks = tuple(lacks)
        self.facts = facts


@dataclass(frozen=True)
class _Trouble:
    """What a diagnostic is about."""

    uri: str
    qualname: str
    message: str
    code: str
    line: int | None = None
    """0-based, where it is not the class's line."""
    text: str = ""
    """Of that line."""


class Preflight:
    """Looks before each run, and tells what is wrong."""

    def __init__(self, server: StarkServer) -> None:
        self._server = server
        self._troubles: dict[tuple[str, str], _Trouble] = {}
        self._confined: set[str] = set()
        """Interpreters under which a sandbox was seen to work."""
        self._warned: set[str] = set()
        self._settings: object = None
        """Those under which somebody was told last."""
        self.touch: Callable[[str], None] = lambda uri: None
        """Told of a document whose diagnostics may have changed."""
        self.add_inputs: Callable[[str, str], None] = lambda uri, qualname: None
        """Writes inputs for a class."""
        server.on_close.append(self._closed)
        server.on_configured.append(self._configured)

    # --- looking ---------------------------------------------------------------------------------------

    async def check(self, path: str, options: RunOptions, device: DeviceChoice) -> RunOptions:
        """Return the options with the interpreter that was found.

        Raises
        ------
        NotReady
            A run would come to nothing.
        """
        isolation = options.evaluation.isolation
        folders = open_folders(self._server)
        try:
            found, facts = await asyncio.to_thread(self._look, path, options, folders)
        except BadInput as error:
            raise NotReady(error.message[0].lower() + error.message[1:], cure=error.cure) from error
        from stark_lsp.evaluation.preflight import Wishes, lacking

        self._server.log(f"Python: {found} {facts}.")
        triton = options.agents.dialect == "triton" and options.model != "playbook"
        lacks = lacking(facts, Wishes(device, isolation, triton))
        if lacks:
            others = [lack.need.value for lack in lacks[1:]]
            also = f" Also missing: {', '.join(others)}." if others else ""
            where = " ".join([*found.passed_over, f"Python: {found.path} ({found.why})"])
            raise NotReady(f"{lacks[0].cause}.{also}", cure=f"{lacks[0].cure} {where}", lacks=lacks, facts=facts)
        if facts.sandbox is not None:
            self._confined.add(found.path)
        for text in found.passed_over:
            if text not in self._warned:
                self._warned.add(text)
                self._server.say(f"STARK uses {found.path}. {text}")
        return replace(options, interpreter=found.path)

    def _look(self, path: str, options: RunOptions, folders: Sequence[str]) -> tuple[Interpreter, Facts]:
        from stark_lsp.evaluation.lookup import find_interpreter
        from stark_lsp.evaluation.preflight import examine

        found = find_interpreter(options.interpreter, path, folders)
        ask = options.evaluation.isolation is not Isolation.OFF and found.path not in self._confined
        return found, examine(found.path, os.environ, sandbox=ask)

    # --- telling ---------------------------------------------------------------------------------------

    def passed(self, uri: str, qualname: str) -> None:
        """Take note that nothing stands in the way of a class."""
        if self._troubles.pop((key_of(uri), qualname), None) is not None:
            self.touch(uri)

    def refuse(self, uri: str, qualname: str, error: StarkError) -> None:
        """Tell why a class cannot be optimized, with what can be done about it."""
        name = qualname.rpartition(".")[2]
        text = wording.trouble(error)
        if isinstance(error, NotReady):
            text = f"STARK cannot optimize {name} yet: {error.message} {error.cure}"
        self._settings = self._server.configuration, dict(self._server.of_folders)
        self._remember(uri, qualname, error)
        buttons = self._buttons(uri, qualname, error)
        if error.details:
            self._server.log(error.details)
        if buttons:
            self._server.spawn(self._ask(text, buttons), "what stands in the way")
        else:
            self._server.say(text, warning=True)

    async def _ask(self, text: str, buttons: dict[str, Callable[[], None]]) -> None:
        press = buttons.get(await self._server.choose(text, buttons, text, warning=True) or "")
        if press is not None:
            press()

    def _buttons(self, uri: str, qualname: str, error: StarkError) -> dict[str, Callable[[], None]]:
        buttons: dict[str, Callable[[], None]] = {}
        if isinstance(error, NoInputs) and self._server.facts.apply_edit:
            buttons[INPUTS] = lambda: self.add_inputs(uri, qualname)
        if not isinstance(error, NotReady):
            return buttons
        from stark_lsp.evaluation.preflight import Need

        needs = {lack.need for lack in error.lacks}
        for need in (Need.TORCH, Need.NINJA):
            if need in needs and error.facts is not None:
                buttons[INSTALL.format(need.value)] = self._installer(uri, error.facts, need.value)
        if not needs or needs & {Need.INTERPRETER, Need.TORCH, Need.NINJA}:
            buttons[CHOOSE] = self._choose
        if self._server.diff_view:
            buttons[OUTPUT] = lambda: self._execute(OUTPUT_COMMAND)
        return buttons

    def _installer(self, uri: str, facts: Facts, package: str) -> Callable[[], None]:
        def tell() -> None:
            from stark_lsp.evaluation.preflight import install_command

            folder = os.path.dirname(path_of(uri) or "")
            self._server.say(f"To install {package}, run in a terminal: {install_command(facts, package, folder)}")

        return tell

    def _choose(self) -> None:
        if self._server.diff_view:
            self._execute(CHOOSE_COMMAND)
        else:
            self._server.say("Name the Python that has torch, or its environment, in the setting stark.interpreter.")

    def _execute(self, command: str) -> None:
        from stark_lsp.server.proposals.offering import EXECUTE

        self._server.protocol.notify(EXECUTE, {"command": command, "arguments": []})

    # --- diagnostics -----------------------------------------------------------------------------------

    def of(self, uri: str) -> list[types.Diagnostic]:
        """Return the diagnostics of a document as it is now, and forget what is mended."""
        document = self._server.documents.get(uri)
        if document is None or not self._troubles:
            return []
        found = []
        for key, trouble in list(self._troubles.items()):
            if key[0] != key_of(uri):
                continue
            place = self._place(document, trouble)
            if place is None:
                del self._troubles[key]
                continue
            severity = types.DiagnosticSeverity.Warning
            found.append(types.Diagnostic(place, trouble.message, severity, code=trouble.code, source=SOURCE))
        return found

    def _place(self, document: Document, trouble: _Trouble) -> types.Range | None:
        """Return where a diagnostic stands now, None if it is mended."""
        units, lines = self._server.documents.units, document.lines
        cls = document.find(trouble.qualname)
        if trouble.line is None:
            if cls is None or (trouble.code == "inputs" and cls.inputs.source is not InputSource.NONE):
                return None
            return units.range(lines, (cls.name_line, cls.name_start), (cls.name_line, cls.name_end))
        same = [number for number, line in enumerate(lines) if line.rstrip() == trouble.text]
        if not same or (trouble.code == "syntax" and document.valid):
            return None
        line = min(same, key=lambda number: abs(number - (trouble.line or 0)))
        indent = len(trouble.text) - len(trouble.text.lstrip())
        return units.range(lines, (line, indent), (line, len(trouble.text)))

    def _remember(self, uri: str, qualname: str, error: StarkError) -> None:
        document = self._server.documents.get(uri)
        if document is None:
            return
        trouble = None
        message = wording.sentence(error)
        if isinstance(error, NotReady):
            trouble = _Trouble(uri, qualname, message, error.lacks[0].need.value if error.lacks else "interpreter")
        elif isinstance(error, NoInputs):
            trouble = _Trouble(uri, qualname, message, "inputs")
        elif error.line is not None and error.path == document.path and 0 < error.line <= len(document.lines):
            line, code = error.line - 1, "class" if document.valid else "syntax"
            trouble = _Trouble(uri, qualname, message, code, line, document.lines[line].rstrip())
        if trouble is not None:
            self._troubles[key_of(uri), qualname] = trouble
            self.touch(uri)

    def _closed(self, document: Document) -> None:
        for key in [key for key in self._troubles if key[0] == key_of(document.uri)]:
            del self._troubles[key]
        self.touch(document.uri)

    def _configured(self) -> None:
        if self._settings == (self._server.configuration, self._server.of_folders):
            return  # As they were: at the start of a session they may arrive behind a first click.
        for key, trouble in list(self._troubles.items()):
            if trouble.line is None and trouble.code != "inputs":
                del self._troubles[key]
                self.touch(trouble.uri)
