"""Messages that nobody reads, and those that come faster than they are taken."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from stark_lsp.server.connection.transport import PipeWriter, feed

SENT = [bytes([number]) * 100_000 for number in range(10)]
"""More than a pipe holds."""


def test_a_client_that_does_not_read_holds_nothing_up_and_gets_all_in_order() -> None:
    reading, writing = os.pipe()
    writer = PipeWriter(writing)
    begun = time.monotonic()
    for data in SENT:
        writer.write(data)
    assert time.monotonic() - begun < 1.0
    left, found = sum(map(len, SENT)), b""
    while len(found) < left:
        found += os.read(reading, 1 << 16)
    assert found == b"".join(SENT)
    writer.write(b"the last words")
    writer.close()
    assert os.read(reading, 100) == b"the last words"
    os.close(reading)
    os.close(writing)


def test_a_client_that_never_reads_or_has_gone_does_not_keep_the_server() -> None:
    for gone in (False, True):
        reading, writing = os.pipe()
        if gone:
            os.close(reading)
        writer = PipeWriter(writing)
        for data in SENT:
            writer.write(data)
        begun = time.monotonic()
        writer.close()
        assert time.monotonic() - begun < 5.0


async def test_a_busy_loop_is_not_woken_again_and_again() -> None:
    # What wakes it holds a few hundred; a signal that comes when it is full is lost.
    loop, (reading, writing), calls = asyncio.get_running_loop(), os.pipe(), []
    waking = loop.call_soon_threadsafe

    def counted(*given: Any, **more: Any) -> asyncio.Handle:
        calls.append(given)
        return waking(*given, **more)

    stream = asyncio.StreamReader()
    loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
    try:
        feed(stream, reading, loop)
        for number in range(300):
            os.write(writing, bytes([number % 256]))
            time.sleep(0.001)  # as a loop that does not come to take anything
        assert len(calls) == 1
        os.close(writing)
        assert await stream.read() == bytes(number % 256 for number in range(300))
    finally:
        loop.call_soon_threadsafe = waking  # type: ignore[method-assign]
    os.close(reading)
