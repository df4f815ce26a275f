"""`stark.captureInputs`: inputs of a class from a run of one of the user's scripts.

The scripts that name the class are offered by a message with buttons; any other one is for the terminal.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import BadInput
from stark_lsp.server.features.inputs import failed_functions
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.runs.progress import followed
from stark_lsp.server.text.folders import configuration_of, open_folders, python_files, settings_folder
from stark_lsp.server.text.positions import path_of
from stark_lsp.server.text.workspace_edits import replacement

CAPTURE = "stark.captureInputs"
TITLE = "Capture inputs from a run"
OFFERED = 3
"""Scripts that are offered at most."""
LOOKED_AT = 3000
"""Files that are looked at for scripts at most."""


def by_hand(path: str, qualname: str) -> str:
    """Return what to type in a terminal."""
    return f"In a terminal: stark-lsp capture SCRIPT.py --class {shlex.quote(f'{path}::{qualname}')}"


def scripts(path: str, qualname: str, folders: Sequence[str]) -> list[str]:
    """Return the scripts in folders that most likely call a class: they name it and have a main part; nearest first."""
    name, module = qualname.rpartition(".")[2], Path(path).stem
    found: list[tuple[int, int, str]] = []
    for file in python_files(folders or (os.path.dirname(path),), LOOKED_AT):
        try:
            text = file.read_text("utf-8", errors="replace")
        except OSError:
            continue
        if "__main__" not in text and not (os.fspath(file) != path and re.search(r"^\w+ ?[=(.]", text, re.MULTILINE)):
            continue
        own = os.path.realpath(file) == os.path.realpath(path)
        named = bool(re.search(rf"\b{re.escape(name)}\b", text))
        imported = bool(re.search(rf"^\s*(from|import)\b.*\b{re.escape(module)}\b", text, re.MULTILINE))
        if file.name.startswith("test_") or not (imported or (named and own)):
            continue
        away = len(Path(os.path.relpath(file, os.path.dirname(path))).parts)
        found.append((0 if named and "__main__" in text else 1, away, os.fspath(file)))
    return [file for _, _, file in sorted(found)[:OFFERED]]


async def capture(server: StarkServer, uri: str, qualname: str, script: str = "") -> None:
    """Ask for a script unless there is one, run it, and keep the table.

    Raises
    ------
    StarkError
        There is no such script or class, or a table cannot say what was seen.
    """
    path = path_of(uri)
    if path is None:
        raise BadInput("Only files on this machine can be run.")
    if not script:
        found = await asyncio.to_thread(scripts, path, qualname, open_folders(server))
        otherwise = f"STARK: run the script that uses {qualname}. {by_hand(path, qualname)}"
        if not found:
            server.say(otherwise)
            return
        titles = {os.path.relpath(file, settings_folder(server, path)): file for file in found}
        text = (
            f"STARK: run which script to see what {qualname} is called with? It is stopped after a few calls. "
            f"Another one, {by_hand(path, qualname)[0].lower()}{by_hand(path, qualname)[1:]}"
        )
        script = titles.get(await server.choose(text, titles, otherwise) or "", "")
        if not script:
            return
    await _run(server, path, qualname, script)


async def _run(server: StarkServer, path: str, qualname: str, script: str) -> None:
    from stark_lsp.evaluation.environment import worker_environment
    from stark_lsp.evaluation.lookup import find_interpreter
    from stark_lsp.runs.capture import capture as captured
    from stark_lsp.runs.capture import keep, overruled

    folder = settings_folder(server, path)
    options = configuration_of(server, path).run_options(folder)
    interpreter = await asyncio.to_thread(
        find_interpreter, options.interpreter, path, open_folders(server) or (folder,)
    )
    made = await followed(
        server,
        f"STARK: running {os.path.basename(script)}",
        f"until {qualname} was called a few times",
        lambda _: captured(
            script,
            (),
            f"{path}::{qualname}",
            interpreter=interpreter.path,
            environment=worker_environment(os.environ),
            folder=folder,
            log=server.log,
        ),
    )
    if made is None:
        server.say("STARK: the script was stopped. Nothing was recorded.")
        return
    if not made.toml:
        raise BadInput(f"{made.said}, but a table cannot say it: {made.why}.", cure=by_hand(path, qualname))
    await asyncio.to_thread(keep, made)
    table = os.path.basename(made.toml)
    for document in server.documents.all():
        document.reread()
    here = server.documents.at(path)
    lines = failed_functions(here.text, path, qualname) if here is not None else None
    why_not = overruled(path, here.text, qualname) if here is not None and lines is None else ""
    if why_not:
        server.say(f"STARK: {made.said}. A table for {qualname} is in {table}, but {why_not}", warning=True)
    else:
        server.say(f"STARK: {made.said}. The inputs of {qualname} are in {table}.")
    if here is not None and lines is not None:
        # They would come before the table.
        edit = replacement(here.uri, here.version, lines, "", server.facts)
        await server.apply(edit, f"Take out the inputs of {qualname} that do not run")
    server.refresh_lenses()


def register(server: StarkServer) -> None:
    """Register the command."""

    @server.own_command(CAPTURE)
    async def capture_inputs(*arguments: Any) -> dict[str, Any]:
        from stark_lsp.server.commands import argument, target_at

        uri, qualname = await target_at(server, arguments)
        script = argument(arguments, 2, "script")
        server.spawn(capture(server, uri, qualname, script), f"capturing inputs of {qualname}")
        return {"status": "asking" if not script else "running"}
