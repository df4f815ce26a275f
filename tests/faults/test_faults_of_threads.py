"""Candidates that are judged at the same time do not get into each other's way."""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stark_lsp.core.parsing import parse

WIDE = "def f(a, b=1):\n    return [a.b(c)[d] for c, d in zip(a, b) if c]\n\n" * 60
DEEP = "x = " + "f(" * 60 + ")" * 60 + " + x" * 60


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> object:
    """Have threads take turns as often as they can, also while the collector is at work."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()

    def turn(phase: str, info: object) -> None:
        sum(range(100))

    gc.callbacks.append(turn)
    gc.set_threshold(20)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    gc.callbacks.remove(turn)


@pytest.mark.usefixtures("restless")
def test_several_candidates_are_read_at_the_same_time() -> None:
    # Python 3.11 fails with SystemError when two threads make syntax trees of different depths.
    together = threading.Barrier(3)

    def read(source: str) -> int:
        together.wait()
        return sum(len(parse(source).body) for _ in range(40))

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(read, (WIDE, DEEP, WIDE)))
    assert found == [40 * 60, 40, 40 * 60]
