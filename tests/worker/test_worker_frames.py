"""Frames over pipes, captured output, and the build cache."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from stark_lsp.worker import builds
from stark_lsp.worker.capture import Capture
from stark_lsp.worker.frames import HEADER, Channel, ChannelClosed, ChannelDamaged, DeadlinePassed


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


def test_a_finished_build_is_found_again_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    cache = builds.BuildCache(str(tmp_path), ["torch"])
    first = cache.open("source")
    Path(first.folder, "lock").write_text("")
    first.finish(keep=True)
    second = cache.open("source")
    assert second.cached
    assert second.folder == first.folder
    assert not Path(second.folder, "lock").exists()
    second.finish(keep=False)
    third = cache.open("source")
    assert not third.cached
    assert os.listdir(third.folder) == []


def test_another_toolchain_or_source_builds_elsewhere(tmp_path: Path) -> None:
    one, other = builds.BuildCache(str(tmp_path), ["torch 1"]), builds.BuildCache(str(tmp_path), ["torch 2"])
    folders = {one.open("a").folder, one.open("b").folder, other.open("a").folder}
    assert len(folders) == 3


def test_two_that_build_the_same_do_not_share_a_folder(tmp_path: Path) -> None:
    cache = builds.BuildCache(str(tmp_path), [])
    first, second = cache.open("a"), cache.open("a")
    assert first.folder != second.folder
    second.finish(keep=True)
    assert not os.path.exists(second.folder)
    assert os.path.exists(first.folder)


def test_what_a_killed_build_left_is_thrown_away(tmp_path: Path) -> None:
    cache = builds.BuildCache(str(tmp_path), [])
    build = cache.open("a")
    Path(build.folder, "half.o").write_text("")
    build._lock.close()  # type: ignore[union-attr] - as the kernel does when the holder is killed
    builds.BuildCache(str(tmp_path), [])
    assert not os.path.exists(build.folder)
