"""Passes under tools: side by side where memory allows, and their reports in the order of the tools."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("torch")

from stark_lsp.worker import watched
from stark_lsp.worker.confinement import Tool

TOOLS: list[Tool] = [watched.sanitizer("sanitizer", name) for name in ("memcheck", "initcheck")]


def test_small_passes_go_on_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20.0)

    def run(tool: Tool) -> str:
        both.wait()
        return str(TOOLS.index(tool))

    assert watched.side_by_side(TOOLS, run, 1 << 20) == ["0", "1"]


def test_large_ones_go_on_one_after_the_other() -> None:
    both = threading.Barrier(2)

    def run(tool: Tool) -> str:
        with pytest.raises(threading.BrokenBarrierError):
            both.wait(0.3)
        return str(TOOLS.index(tool))

    assert watched.side_by_side(TOOLS, run, 2 << 30) == ["0", "1"]


def test_what_one_pass_raises_is_raised() -> None:
    def run(tool: Tool) -> str:
        if tool is TOOLS[1]:
            raise OSError("no room")
        return ""

    with pytest.raises(OSError, match="no room"):
        watched.side_by_side(TOOLS, run, 0)
