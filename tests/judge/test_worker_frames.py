"""Frames over pipes, and captured output."""

from __future__ import annotations

import math
import os
import threading
import time

import pytest

from stark_lsp.contract.frames import HEADER, Channel, ChannelClosed, ChannelDamaged, DeadlinePassed
from stark_lsp.judge.processes.capture import Capture


def pipe() -> tuple[Channel, Channel]:
    there, back = os.pipe(), os.pipe()
    return Channel(back[0], there[1]), Channel(there[0], back[1])


def test_messages_arrive_in_order_and_whole() -> None:
    one, other = pipe()
    for number in range(50):
        one.send({"number": number, "text": "ä\ud800" * number, "bad": math.nan})
    for number in range(50):
        found = other.receive(time.monotonic() + 5)
        assert found["number"] == number
        assert found["bad"] == "nan"


def test_a_frame_carries_the_nonce_of_its_side() -> None:
    one, other = pipe()
    one.nonce = "abc"
    one.send({"a": 1})
    other.send({})
    assert other.receive(time.monotonic() + 5) == {"a": 1, "nonce": "abc"}
    assert one.receive(time.monotonic() + 5) == {}


def test_silence_passes_the_deadline_and_an_end_is_noticed() -> None:
    one, other = pipe()
    with pytest.raises(DeadlinePassed):
        other.receive(time.monotonic() + 0.01)
    one.close()
    with pytest.raises(ChannelClosed):
        other.receive()
    with pytest.raises(ChannelClosed):
        one.send({})


@pytest.mark.parametrize("data", [HEADER.pack(1 << 31), HEADER.pack(3) + b"abc", HEADER.pack(2) + b"[]"])
def test_what_is_no_frame_is_damage(data: bytes) -> None:
    read, write = os.pipe()
    os.write(write, data)
    with pytest.raises(ChannelDamaged):
        Channel(read, os.dup(2)).receive(time.monotonic() + 5)


def test_captured_output_keeps_head_and_tail() -> None:
    read, write = os.pipe()
    capture = Capture(read, 1000)
    with os.fdopen(write, "wb") as file:
        file.write(b"head" + b"-" * 200_000 + b"tail")
    text = capture.text(5.0)
    assert text.startswith("head")
    assert text.endswith("tail")
    assert "bytes left out" in text
    assert len(text) < 1100
    assert capture.total == 200_008


def test_what_was_written_is_kept_though_the_writer_lives_on() -> None:
    read, write = os.pipe()
    capture = Capture(read, 100_000)
    for number in range(200):
        os.write(write, b"%d\n" % number)
        capture.drain(20.0)
        assert capture.text().endswith(f"{number}\n")
    os.close(write)
    assert capture.text(5.0).count("\n") == 200
    capture.drain(20.0)


def test_a_writer_that_never_stops_is_not_waited_for_for_ever() -> None:
    read, write = os.pipe()
    capture = Capture(read, 1000)
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            os.write(write, b"x" * 4096)

    writer = threading.Thread(target=flood)
    writer.start()
    begin = time.monotonic()
    capture.drain(0.1)
    assert time.monotonic() - begin < 10.0
    over.set()
    writer.join()
    os.close(write)
    capture.text(5.0)
