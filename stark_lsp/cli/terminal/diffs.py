"""A patch on a terminal, in colour, or as it is for other tools."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from stark_lsp.cli.terminal.console import clean
from stark_lsp.core.editing import split_lines

SHOWN_LINES = 90
"""A longer patch is cut on a terminal; `--diff` prints all of it."""


def show(console: Console, patch: str, *, whole: bool = False) -> None:
    """Print a unified diff in colour, cut after `SHOWN_LINES` lines on a terminal."""
    lines = split_lines(patch)
    cut = len(lines) if whole or not console.is_terminal else SHOWN_LINES
    # A few lines more are better than a remark that some are missing.
    if len(lines) <= cut + 10:
        cut = len(lines)
    for text in lines[:cut]:
        console.print(Text(clean(text), style=_style(text)), soft_wrap=True)
    if cut < len(lines):
        console.print(f"… {len(lines) - cut} more lines; --diff prints all of them", style="dim")
    console.print()


def write_patch(patch: str) -> None:
    """Write a patch to standard output, byte for byte unless that is a terminal."""
    if sys.stdout.isatty():
        show(Console(highlight=False, markup=False, emoji=False), patch, whole=True)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(patch.encode(errors="replace"))
    sys.stdout.buffer.flush()


def _style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")
