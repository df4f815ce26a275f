"""How messages come in and go out, over stdio or a loopback socket, and when that ends.

pygls' own stdio loop reads in a thread pool whose threads the interpreter waits for, so that a
signal cannot end the server while a read is pending. Here a daemon thread feeds an asyncio stream:
EOF, `exit` and a signal all end the loop at once, and what was running is closed before the process
leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import sys
import threading
from queue import SimpleQueue

from stark_lsp.server.language_server import StarkServer

logger = logging.getLogger(__name__)

LINE_LIMIT = 1 << 20
"""Longest header line in bytes."""
BODY_LIMIT = 1 << 29
"""Longest message in bytes; one that says it is longer is taken for a stream that cannot be followed."""
CLOSE_S = 1.0
"""Seconds in which the last messages must be read."""
_LENGTH = re.compile(rb"Content-Length:[ \t]*(\d{1,12})\s*", re.IGNORECASE)


class PipeWriter:
    """Writes to a file descriptor of its own, in a thread: a client that does not read must not hold up the server."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="stark-stdout", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Write all of `data` in its turn; after the other side has gone, drop it."""
        if self._thread.is_alive():
            self._waiting.put(data)

    def close(self) -> None:
        """Write what waits, if that does not take long, and then no more."""
        self._waiting.put(None)
        self._thread.join(CLOSE_S)

    def _write(self) -> None:
        while (data := self._waiting.get()) is not None:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._descriptor, view) :]
                except OSError:
                    return


def claim_stdout() -> int:
    """Return a private descriptor for the protocol, and turn stdout into stderr.

    Whatever prints in this process can then not corrupt the protocol.
    """
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


def feed(stream: asyncio.StreamReader, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
    """Read `descriptor` in a daemon thread into `stream` until it ends.

    It reads on when the loop has taken what was read before. Each call from a thread puts a byte into the socket that
    wakes the loop, which holds a few hundred; a signal that comes while it is full is lost.
    """
    taken = threading.Semaphore()

    def take(data: bytes) -> None:
        stream.feed_data(data)
        taken.release()

    def read() -> None:
        # The loop is closed where calling it fails: the process is on its way out.
        with contextlib.suppress(RuntimeError):
            while taken.acquire():
                try:
                    data = os.read(descriptor, 1 << 16)
                except OSError:
                    data = b""
                if not data:
                    loop.call_soon_threadsafe(stream.feed_eof)
                    return
                loop.call_soon_threadsafe(take, data)

    threading.Thread(target=read, name="stark-stdin", daemon=True).start()


async def serve_stream(
    server: StarkServer, reader: asyncio.StreamReader, writer: PipeWriter | asyncio.StreamWriter
) -> int:
    """Handle messages until the other side leaves or the server is told to; return the exit code."""
    server.protocol.set_writer(writer)
    reading = asyncio.create_task(_follow(server, reader))
    leaving = asyncio.create_task(server.leaving.wait())
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled() and (error := reading.exception()) is not None:
            # A message that ends in the middle, or is none: the stream cannot be followed any further.
            logger.warning("the connection ended: %r", error)
        await server.close()
    return server.exit_code


async def _follow(server: StarkServer, reader: asyncio.StreamReader) -> None:
    while (body := await read_body(reader)) is not None:
        server.protocol.receive(body)


async def read_body(reader: asyncio.StreamReader) -> bytes | None:
    """Return the body of the next message (LSP 3.17, "Base Protocol"), None if the stream ends before it.

    Raises
    ------
    ValueError
        The message is too long.
    asyncio.IncompleteReadError
        The stream ends within it.
    """
    length: int | None = None
    while header := await reader.readline():
        if header.strip():
            found = _LENGTH.fullmatch(header)
            length = int(found.group(1)) if found else length
        elif length is not None:
            if length > BODY_LIMIT:
                raise ValueError(f"a message of {length} bytes")
            return await reader.readexactly(length)
    return None


async def serve_stdio(server: StarkServer) -> int:
    """Serve one client over stdin and stdout."""
    output = claim_stdout()
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    feed(reader, 0, asyncio.get_running_loop())
    writer = PipeWriter(output)
    try:
        return await serve_stream(server, reader, writer)
    finally:
        writer.close()


async def serve_tcp(server: StarkServer, port: int) -> int:
    """Serve the first client that connects to `port` on the loopback interface; 0 picks a free port."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = loop.create_future()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first.done():
            writer.close()
        else:
            first.set_result((reader, writer))

    listener = await asyncio.start_server(connected, "127.0.0.1", port, limit=LINE_LIMIT)
    print(f"stark-lsp listens on 127.0.0.1:{listener.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
    leaving = asyncio.ensure_future(server.leaving.wait())
    first.add_done_callback(lambda _: leaving.cancel())
    await asyncio.wait([leaving])
    listener.close()
    if not first.done():
        return server.exit_code
    reader, writer = first.result()
    try:
        return await serve_stream(server, reader, writer)
    finally:
        writer.close()
