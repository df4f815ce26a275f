"""Puts the MCP server together and runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

from stark_lsp import __version__
from stark_lsp.cli.terminal.driver import SIGNALS
from stark_lsp.cli.terminal.failures import Log
from stark_lsp.mcp import tools
from stark_lsp.mcp.work import Work
from stark_lsp.mcp.workspace import Workspace
from stark_lsp.store import RunStore
from stark_lsp.store.paths import default_store_path


def serve(root: Path, setup: tools.Setup) -> None:
    """Serve one client on standard input and output until it is gone.

    While that lasts, the SDK keeps both to itself: what anything else prints goes to standard error.
    """
    log = Log()
    workspace = Workspace(root, RunStore(default_store_path()))
    work = Work(workspace.store, log)

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, work.leave, 128 + number)
        try:
            yield
        finally:
            await work.close()

    server: MCPServer[Any] = MCPServer(
        "stark-lsp", instructions=tools.INSTRUCTIONS, version=__version__, log_level="WARNING", lifespan=lifespan
    )
    tools.register(server, workspace, work, setup, log)
    server.run()
