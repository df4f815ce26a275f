"""Ways to end: `shutdown` and `exit`, EOF, a signal, the death of the editor. None may leave a process behind."""

from __future__ import annotations

import asyncio
import logging
import os

from stark_lsp.cli.terminal.driver import SIGNALS
from stark_lsp.server.language_server import StarkServer

logger = logging.getLogger(__name__)

POLL_S = 3.0
"""Seconds between looks at the editor where the system cannot tell of its death."""


def handle_signals(server: StarkServer) -> None:
    """Leave in an orderly way on SIGTERM, SIGINT and SIGHUP."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, server.leave, 128 + number)


def watch_parent(server: StarkServer, pid: int) -> None:
    """Leave when the editor's process ends (LSP 3.17, `InitializeParams.processId`)."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except ProcessLookupError:
        # A process id of another namespace, as with a server in a container; EOF will tell.
        logger.info("there is no process %d here", pid)
        return
    except (AttributeError, OSError):
        server.spawn(_poll(server, pid), "watching the editor")
        return

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        logger.warning("the editor's process %d has ended", pid)
        server.leave(1)

    loop.add_reader(descriptor, ended)


async def _poll(server: StarkServer, pid: int) -> None:
    while not server.leaving.is_set():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            server.leave(1)
            return
        except PermissionError:
            pass
        await asyncio.sleep(POLL_S)
