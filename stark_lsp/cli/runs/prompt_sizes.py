"""What questions consist of: their sections, with characters and tokens."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from stark_lsp.agents.sections import totals, weighed
from stark_lsp.cli.terminal import console
from stark_lsp.core.conversation import Exchange


def show_one(out: Console, exchange: Exchange) -> None:
    """Show the sections of one question, in the order in which they were sent."""
    table = _table("section", "characters", "tokens")
    for part in weighed(exchange):
        table.add_row(console.clean(part.name), f"{part.characters:,}", f"{part.tokens:,}")
    out.print(table)


def show_all(out: Console, exchanges: Sequence[Exchange]) -> None:
    """Show what the sections of all questions come to, the dearest first."""
    parts = totals(exchanges)
    whole = sum(part.tokens for part in parts)
    table = _table("section", "questions", "longest", "tokens", "share")
    for part in parts:
        share = f"{100 * part.tokens / whole:.0f} %" if whole else ""
        row = (f"{part.questions:,}", f"{part.longest:,}", f"{part.tokens:,}", share)
        table.add_row(console.clean(part.name), *row)
    out.print(table)
    console.line(out, "Tokens are those the service read, shared out by characters; longest is in characters.", "dim")


def as_json(exchanges: Sequence[Exchange]) -> list[dict[str, object]]:
    """Return the same as `show_all` for JSON."""
    return [
        {"section": part.name, "questions": part.questions, "longest": part.longest, "tokens": part.tokens}
        for part in totals(exchanges)
    ]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 else "right", overflow="fold" if place == 0 else "ellipsis")
    return table
