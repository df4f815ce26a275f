"""What a proposal brings, formatted as the project formats its own code.

With ruff or black, whichever the nearest configuration names, found beside the project's interpreter or on the PATH.
Only new text is formatted, on its own, and it must mean the same afterwards; where anything fails it stays as it is,
and the log says why. A formatter reads code and does not execute it.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stark_lsp.core.editing import Replacement, apply_edits, newline_of, split_lines
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import KernelPlace, WriteMode
from stark_lsp.core.toml import tomllib
from stark_lsp.discovery.layout import indent_of
from stark_lsp.discovery.syntax import parse
from stark_lsp.evaluation.environment import worker_environment
from stark_lsp.proposals.accepted import digest_of
from stark_lsp.proposals.edit import ProposalEdit, build_edit
from stark_lsp.proposals.provenance import provenance_comment

SECONDS = 10.0
"""A formatter that takes longer is given up."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Formatter:
    """A project's formatter."""

    command: tuple[str, ...]
    """Reads code from its standard input and writes it to its standard output."""
    folder: str
    """Where it is started."""


def configured(path: str) -> str | None:
    """Return `ruff` or `black` if the nearest configuration above a file is one of theirs, else None."""
    for folder in Path(path).absolute().parents:
        for name in (".ruff.toml", "ruff.toml"):
            if (folder / name).is_file():
                return "ruff"
        try:
            tool = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
        except (OSError, ValueError):
            tool = {}
        ruff = tool.get("ruff")
        # A project may lint with one and format with the other.
        if ruff is not None and ("format" in ruff or "black" not in tool):
            return "ruff"
        if "black" in tool:
            return "black"
        if (folder / ".git").exists():
            break
    return None


def proposed(
    run: Run,
    node: Node,
    text: str,
    mode: WriteMode,
    kernels: KernelPlace = KernelPlace.INLINE,
    opened: str | None = None,
    *,
    tidied: bool = True,
) -> ProposalEdit:
    """Return the edit of a document, whose text is given, that brings a node of a run; see `build_edit`.

    Parameters
    ----------
    tidied
        Whether the project's formatter is run, which may be a program of that project.

    Raises
    ------
    StaleProposal, Fault
        As `build_edit` does.
    """
    edit = build_edit(run.problem, text, node.candidate, provenance_comment(run, node), mode, kernels, opened)
    if not tidied:
        return edit
    interpreter = run.reference.environment.interpreter if run.reference is not None else None
    return formatted(edit, text, run.problem.path, interpreter)


def find_formatter(path: str, interpreter: str | None) -> Formatter | None:
    """Return the formatter of the project a file belongs to, None if it names none or has none installed."""
    name = configured(path)
    if name is None:
        return None
    beside = os.path.dirname(interpreter) if interpreter and os.path.isabs(interpreter) else None
    program = (beside and shutil.which(name, path=beside)) or shutil.which(name)
    if program is None:
        _log.info("%s is configured for %s but not installed: new code stays as it is.", name, path)
        return None
    file = str(Path(path).with_suffix(".py"))  # of a notebook too: what is formatted is Python
    options = ("format", "--stdin-filename", file) if name == "ruff" else ("--quiet", "--stdin-filename", file)
    folder = next(folder for folder in Path(path).absolute().parents if folder.is_dir())
    return Formatter((program, *options, "-"), str(folder))


def formatted(edit: ProposalEdit, before: str, path: str, interpreter: str | None) -> ProposalEdit:
    """Return an edit of the file at `path`, whose text is `before`, with its new code formatted."""
    formatter = find_formatter(path, interpreter)
    if formatter is None:
        return edit
    if edit.new_file is not None:
        edit = replace(edit, new_file=replace(edit.new_file, text=_run(formatter, edit.new_file.text)))
    if edit.shared is not None and not edit.shared.before:
        edit = replace(edit, shared=replace(edit.shared, text=_run(formatter, edit.shared.text)))
    edits = tuple(_formatted(formatter, change, before) for change in edit.edits)
    return replace(edit, edits=edits, preview=apply_edits(before, edits))


def tidy(text: str, path: str, interpreter: str | None) -> str:
    """Return the text of a new file as its project formats it."""
    formatter = find_formatter(path, interpreter)
    return _run(formatter, text) if formatter is not None else text


def _formatted(formatter: Formatter, change: Replacement, before: str) -> Replacement:
    """Return a replacement with its text formatted; imports, which are one line each, and removals stay."""
    newline = newline_of(before)
    lines = split_lines(change.new_text)
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled or not any(line.lstrip().startswith(("class ", "def ")) for line in lines):
        return change
    head, body, tail = lines[: filled[0]], lines[filled[0] : filled[-1] + 1], lines[filled[-1] + 1 :]
    indent = indent_of(body[0])
    if indent.strip(" ") or len(indent) % 4:
        return change  # not four spaces for each level: what comes out would not fit
    levels = [f"{'    ' * level}if True:" for level in range(len(indent) // 4)]
    made = split_lines(_run(formatter, "\n".join([*levels, *body]) + "\n"))
    while made and not made[-1]:
        made.pop()
    if made[: len(levels)] != levels or (indent and not made[len(levels)].startswith(indent)):
        return change
    ended = change.new_text.endswith(("\n", "\r"))
    text = newline.join([*head, *made[len(levels) :], *tail])
    return replace(change, new_text=text + (newline if ended else ""))


def _run(formatter: Formatter, text: str) -> str:
    """Return a text as the formatter writes it, or as it is if that fails or means something else."""
    try:
        done = subprocess.run(
            formatter.command,
            input=text.encode(),
            capture_output=True,
            cwd=formatter.folder,
            env=worker_environment(os.environ),
            timeout=SECONDS,
            check=True,
        )
        new = done.stdout.decode().replace("\r\n", "\n")
        if _meaning(new) == _meaning(text):
            return new
        why = "what it wrote means something else"
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()[:300] or f"exit code {error.returncode}"
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError, SyntaxError) as error:
        why = str(error)
    _log.warning("%s did not format the new code, which stays as it is: %s", formatter.command[0], why)
    return text


def _meaning(text: str) -> str:
    lines: Sequence[str] = split_lines(text)
    return digest_of(parse(text).body, lines)
