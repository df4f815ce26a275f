"""From a script to an inputs table: run it, write what it called a class with beside the project's settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.problems import class_named
from stark_lsp.discovery.recorded import NoTable, functions, input_table, table_beside, with_table
from stark_lsp.discovery.slicing import Definition
from stark_lsp.discovery.syntax import parse
from stark_lsp.discovery.tables import toml_files
from stark_lsp.evaluation.recording import CALLS, record


@dataclass(frozen=True)
class Captured:
    """What a run showed of a class."""

    path: str
    """The class's file."""
    qualname: str
    said: str
    """How it was called, one line."""
    toml: str
    """The file the table belongs in; empty if a table cannot say it."""
    before: str | None
    """That file's text; None if there is none yet."""
    after: str
    """Its text with the table."""
    table: str
    """The table alone."""
    code: str
    """Functions for the class's file, where a table cannot say it."""
    why: str = ""
    """What a table cannot say."""
    beside: str = ""
    """The table that goes with functions, since these cannot say how the class is used,"""
    beside_in: str = ""
    """and the file that it belongs in."""


async def capture(
    script: str,
    arguments: Sequence[str],
    wanted: str,
    *,
    interpreter: str,
    calls: int = CALLS,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
    log: Callable[[str], None] | None = None,
) -> Captured:
    """Run a script and return the table for a class; nothing is written.

    Parameters are those of `recording.record`.

    Raises
    ------
    BadInput
        The script cannot be run, never calls the class, or the TOML file cannot take the table.
    """
    call = await record(
        script,
        arguments,
        wanted,
        interpreter=interpreter,
        calls=calls,
        environment=environment,
        folder=folder,
        log=log,
    )
    path = call["file"] or os.path.realpath(script)
    qualname = wanted.rpartition("::" if "::" in wanted else ":")[2]
    times = f"{call['count']} call{'s' if call['count'] != 1 else ''}"
    mode = "training" if call["training"] else "eval"
    said = f"Recorded from {os.path.basename(script)}: {times}, {mode} mode, {_device(call)}"
    if call["autocast"]:
        said += f", under autocast to {call['autocast']}"
    if call["unknown"]:
        said += f"; calls that cannot be described: {call['unknown']}"
    toml, header = _place(path)
    before = _text(toml)
    name = f"{Path(os.path.relpath(path, toml.parent)).as_posix()}::{qualname}"
    try:
        table = input_table(header, name, call, f"{said}.")
    except NoTable as error:
        code = functions(qualname, f"_for_{qualname.replace('.', '_')}", call, f"{said}.")
        return Captured(
            path, qualname, said, "", None, "", "", code, str(error), table_beside(header, name, call), str(toml)
        )
    return Captured(
        path, qualname, said, str(toml), before, with_table(before or "", header, name, table, str(toml)), table, ""
    )


def _device(call: Mapping[str, Any]) -> str:
    values = [*call["args"], *call["kwargs"].values()]
    return next((value["tensor"]["device"] for value in values if "tensor" in value), "no tensors")


def _place(path: str) -> tuple[Path, str]:
    """Return the TOML file for a class's table, and the name of the table in it."""
    found = toml_files(path)
    if found:
        return found[0], "stark.input" if found[0].name == "stark.toml" else "tool.stark.input"
    return Path(path).parent / "stark.toml", "stark.input"


def _text(toml: Path) -> str | None:
    try:
        return toml.read_bytes().decode("utf-8") if toml.is_file() else None
    except UnicodeDecodeError as error:
        raise BadInput(f"is not UTF-8: {error}.", cure="Save it as UTF-8, as TOML must be.", path=str(toml)) from error


def keep(captured: Captured) -> None:
    """Write the table.

    Raises
    ------
    BadInput
        The file changed meanwhile, or cannot be written.
    """
    target = Path(captured.toml)
    try:
        if _text(target) != captured.before:
            raise BadInput("The file changed meanwhile, and was left alone.", path=captured.toml, cure="Try again.")
        scratch = target.with_name(f".{target.name}.stark")
        scratch.write_bytes(captured.after.encode("utf-8"))
        if target.exists():
            os.chmod(scratch, target.stat().st_mode & 0o7777)
        os.replace(scratch, os.path.realpath(target))
    except OSError as error:
        raise BadInput(f"The file cannot be written: {error.strerror}.", path=captured.toml) from error


def overruled(path: str, text: str, qualname: str) -> str:
    """Return what says that functions of a class's file come before its table; empty if there are none."""
    try:
        inputs = class_named(path, text, qualname).inputs
    except BadInput:  # defined in a function, say: no table is read for it, and the click tells why
        return ""
    if inputs.source is not InputSource.FUNCTIONS:
        return ""
    name = inputs.inputs_function
    line = next((f" (line {node.lineno})" for node in parse(text).body if name in Definition(node).binds), "")
    return f"{os.path.basename(path)} has {name}(){line}, which comes first; remove it, or the table has no effect."
