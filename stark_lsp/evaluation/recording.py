"""Run a user's script and read what it calls a class with."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stark_lsp.contract.process_trees import kill_tree
from stark_lsp.core.errors import BadInput

CALLS = 8
"""Calls of the class after which the script is stopped, unless the user says otherwise."""
LONGEST = 1 << 16
"""Bytes of a line that are kept, its last ones."""
LINE = 2000
"""Characters of a line that are shown."""


async def record(
    script: str,
    arguments: Sequence[str],
    wanted: str,
    *,
    interpreter: str,
    calls: int = CALLS,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    log: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run a script until a class was called a few times, and return its commonest call.

    Parameters
    ----------
    wanted
        The class, as `package.module:Class` or `file.py::Class`.
    calls
        Calls after which the script is stopped; 0 lets it run to its end.
    environment, folder
        Of the script; ours by default.
    log
        Told each line it prints; None lets it print to our standard error, as our own output is the table.

    Raises
    ------
    BadInput
        The script cannot be run, or does not call the class.
    """
    hook = Path(__file__).resolve().parent.parent / "judge" / "__main__.py"
    if not os.path.isfile(script):
        raise BadInput("There is no such script.", path=script, cure="Check the path.")
    home, double, _ = wanted.partition("::")
    if double and not os.path.isfile(os.path.join(folder or "", home)):
        raise BadInput(
            f"There is no such file in {folder or os.getcwd()}.", path=home, cure="Name the class's file from there."
        )
    with tempfile.TemporaryDirectory(prefix="stark-capture-") as scratch:
        out = os.path.join(scratch, "calls.json")
        command = [interpreter, str(hook), "record", out, wanted, str(calls), script, *arguments]
        standard_error = 2
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL if log is not None else None,
                stdout=asyncio.subprocess.PIPE if log is not None else standard_error,
                stderr=asyncio.subprocess.STDOUT if log is not None else None,
                env=dict(environment) if environment is not None else None,
                cwd=folder,
                start_new_session=log is not None,
            )
        except OSError as error:
            raise BadInput(f"{interpreter} cannot be run: {error.strerror or error}.") from error
        tail: list[str] = []
        code, stopped = 0, None
        try:
            if process.stdout is not None and log is not None:
                async for line in _lines(process.stdout):
                    tail = [*tail[-20:], line]
                    log(line)
            code = await process.wait()
        except asyncio.CancelledError as error:  # what was seen until then is good
            stopped = error
        finally:
            if process.returncode is None:
                await asyncio.to_thread(kill_tree, process.pid)
                await process.wait()
        found: dict[str, Any] = {"calls": []}
        if os.path.isfile(out):
            with open(out, encoding="utf-8") as file:
                found = json.load(file)
    if found["calls"]:
        return dict(found["calls"][0])
    if stopped is not None:
        raise stopped
    last = next((line for line in reversed(tail) if line.strip()), "")
    ended = f" The script ended with exit code {code}{f': {last}' if last else ''}." if code else ""
    cure = "Run one that does."
    if found.get("constructed"):
        what = f"makes a {wanted} and never calls it without an error"
    elif found.get("defined"):
        what = f"never makes a {wanted}"
    else:
        what = f"never comes to the class {wanted}"
        cure = "Name it as it is imported, package.module:Class, or as file.py::Class."
    if code:
        cure = "Mend the script, or what is passed to it."
    raise BadInput(f"The script {what}.{ended}", path=script, cure=cure)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield what a program writes, line by line as a terminal shows it: of a progress bar its last state."""
    rest, more = b"", True
    while more:
        chunk = await stream.read(LONGEST)
        more = bool(chunk)
        *lines, rest = (rest + (chunk or b"\n" * bool(rest))).split(b"\n")
        rest = rest[-LONGEST:]
        for line in lines:
            yield line.rstrip().rpartition(b"\r")[2].decode("utf-8", "replace")[:LINE]
