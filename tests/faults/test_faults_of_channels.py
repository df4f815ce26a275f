"""What comes over a child's pipe is hostile: it costs its sender, never the judge."""

from __future__ import annotations

import os
import time

import pytest

from stark_lsp.contract.frames import HEADER, Channel, ChannelClosed, ChannelDamaged, DeadlinePassed


def pipe() -> tuple[Channel, Channel]:
    there, back = os.pipe(), os.pipe()
    return Channel(back[0], there[1]), Channel(there[0], back[1])


def test_a_channel_that_is_closed_twice_leaves_the_files_that_got_its_numbers_alone() -> None:
    one, _ = pipe()
    one.close()
    # The lowest free numbers are given out again: these are those of the channel.
    others = [os.open(os.devnull, os.O_RDWR) for _ in range(4)]
    one.close()
    for fd in others:
        os.fstat(fd)
    with pytest.raises(ChannelClosed):
        one.send({"to": "nobody"})
    with pytest.raises(ChannelClosed):
        one.receive(time.monotonic() + 5)
    for fd in others:
        os.close(fd)


def test_one_who_never_reads_does_not_hold_the_writer_up() -> None:
    one, _ = pipe()
    with pytest.raises(DeadlinePassed):
        # More than a pipe holds.
        one.send({"text": "x" * 10_000_000}, time.monotonic() + 0.05)


def test_a_long_frame_arrives_whole_within_a_deadline() -> None:
    one, other = pipe()
    # More than a write takes at once, less than a pipe holds.
    one.send({"text": "x" * 50_000}, time.monotonic() + 60)
    assert other.receive(time.monotonic() + 60) == {"text": "x" * 50_000}


def test_a_frame_nested_beyond_all_measure_is_damage() -> None:
    read, write = os.pipe()
    body = b"[" * 50_000
    os.write(write, HEADER.pack(len(body)) + body)
    with pytest.raises(ChannelDamaged):
        Channel(read, os.dup(2)).receive(time.monotonic() + 60)
