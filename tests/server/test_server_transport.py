"""Messages that nobody reads."""

from __future__ import annotations

import os
import time

from stark_lsp.server.connection.transport import PipeWriter

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
