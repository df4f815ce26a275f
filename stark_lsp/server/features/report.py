"""The command that shows a run as an HTML page, in the browser that the editor opens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import BadInput
from stark_lsp.server.commands import argument
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.runs.desk import Desk

OPEN_REPORT = "stark.openReport"


def register(server: StarkServer, desk: Desk) -> None:
    """Register the command."""

    @server.own_command(OPEN_REPORT)
    async def open_report(*arguments: Any) -> dict[str, Any]:
        run, path = await asyncio.to_thread(_write, desk, argument(arguments, 0, "run"))
        server.spawn(_show(server, path), "showing the report")
        # Where the client opens nothing, its configuration may.
        return {"status": "showing" if server.facts.show_document else "written", "run": run, "path": str(path)}


def _write(desk: Desk, named: str) -> tuple[str, Path]:
    """Write the page of a run, of the newest one if none is named; return the run's id and the page's path."""
    # Imported late: the server starts without what the page is made of.
    from stark_lsp.cli.page import run_page
    from stark_lsp.cli.runs.lookup import find

    store = desk.store()
    run = find(store, named) if named else next(iter(store.list(limit=1)), None)
    if run is None:
        raise BadInput("There is no run yet.", cure="Optimize a class first.")
    return run.id, run_page.write(store, run.id)


async def _show(server: StarkServer, path: Path) -> None:
    if not await server.show(path, external=True):
        # The path comes first: an echo area shows one line.
        server.say(f"STARK: {path} is the report. Open it in a browser.")
