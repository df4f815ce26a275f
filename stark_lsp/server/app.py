"""Puts the server together and runs it."""

# ruff: noqa: E402 - what the protocol's types are imported by must come before whatever needs them

from __future__ import annotations

import asyncio
import logging
import sys

from stark_lsp.server.connection.faststart import protocol_types

protocol_types()

from lsprotocol import types

from stark_lsp.server import commands
from stark_lsp.server.client import keys, settings
from stark_lsp.server.client.abilities import provided, read_facts
from stark_lsp.server.client.configuration import read
from stark_lsp.server.connection import lifetime, transport
from stark_lsp.server.features import (
    capturing,
    code_actions,
    diagnostics,
    hints,
    hover,
    inputs,
    lenses,
    preflight,
    report,
    standing,
    steering,
    trees,
)
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.proposals import afterwards
from stark_lsp.server.proposals.offering import Proposals
from stark_lsp.server.runs import watching
from stark_lsp.server.runs.desk import Desk
from stark_lsp.server.runs.kept import Kept


def make_server() -> StarkServer:
    """Return a server with all features."""
    server = StarkServer()
    desk = Desk(server)
    proposals = Proposals(server, desk)
    kept = Kept(server, desk, proposals)
    shown = diagnostics.Diagnostics(server, desk)
    ready = preflight.Preflight(server)
    ready.touch = desk.touch = shown.touch
    shown.more = ready.of
    desk.ready = ready.check
    kept.refuse = ready.refuse
    watcher = watching.Watching(server, desk)

    lenses.register(server, desk)
    code_actions.register(server, desk, proposals, kept)
    hover.register(server, desk)
    commands.register(server, desk, proposals, ready, kept)
    afterwards.register(server)
    inputs.register(server, ready)
    capturing.register(server)
    steering.register(server, desk)
    report.register(server, desk)
    standing.register(server, desk)
    trees.register(server, desk, watcher)
    keys.register(server, desk.keys)
    settings.register(server)
    watching.register(server, desk, watcher)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        encoding = server.workspace.position_encoding or types.PositionEncodingKind.Utf16
        name = params.client_info.name if params.client_info is not None else ""
        server.begin(read_facts(params.capabilities, name), str(getattr(encoding, "value", encoding)))
        server.initial = settings.section_of(params.initialization_options)
        # What is wrong with them is said after `initialized`: before, a server may not speak.
        server.configuration, _ = read(server.initial)
        server.diff_view = server.initial.get("diffView") is True
        server.provides = provided(server.initial)
        diagnostics.register(server, shown)
        hints.register(server, desk)
        if params.process_id is not None:
            lifetime.watch_parent(server, params.process_id)

    @server.feature(types.INITIALIZED)
    def initialized(params: types.InitializedParams) -> None:
        for hook in server.on_initialized:
            hook()
        server.spawn(settings.start(server), "reading the settings")

    return server


def serve(tcp: int | None, log_file: str | None) -> int:
    """Serve one client and return the exit code.

    Parameters
    ----------
    tcp
        Port on the loopback interface, for debugging; None for stdin and stdout.
    log_file
        File that the log is appended to; None for stderr.
    """
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    if log_file is not None:
        logging.basicConfig(filename=log_file, level=logging.INFO, format=form)
    else:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=form)
    # Every message sent is formatted and logged at INFO, documents included.
    logging.getLogger("pygls").setLevel(logging.WARNING)
    return asyncio.run(_serve(tcp))


async def _serve(tcp: int | None) -> int:
    server = make_server()
    lifetime.handle_signals(server)
    if tcp is not None:
        return await transport.serve_tcp(server, tcp)
    return await transport.serve_stdio(server)
