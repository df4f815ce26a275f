"""Contexts of a GPU: processes draw one like that of another process, and torch works in it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.timing import (
    clock,
    contexts,
)
from stark_lsp.judge.timing.timed import Timed

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

DRAW = """
import json, sys
from stark_lsp.judge import contexts
drawn = contexts.draw(float(sys.argv[1]))
import torch
total = float(torch.ones(1000, device="cuda").sum())
again = contexts.draw(1e6)
print(json.dumps({"us": drawn.launch_us, "made": drawn.made, "total": total, "again": again.made}))
"""


def drawn(like_us: float) -> dict[str, Any]:
    """Draw a context in another process and use torch there."""
    run = subprocess.run([sys.executable, "-c", DRAW, str(like_us)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_processes_launch_equally_quickly_and_torch_works_in_what_they_drew() -> None:
    first = drawn(0.0)
    assert first["made"] >= contexts.TRIED
    for _ in range(2):
        other = drawn(first["us"])
        assert other["total"] == 1000.0
        # The one that torch uses stays, whatever is asked for.
        assert other["again"] == 1
        if other["made"] < contexts.MOST:
            assert abs(other["us"] / first["us"] - 1.0) <= contexts.ALIKE


def test_no_round_has_more_calls_than_caches_may_be_emptied_for() -> None:
    sets: list[Any] = [((torch.randn(64, 64, device="cuda"),), {}) for _ in range(3)]
    held = Timed().hold(lambda arguments: torch.relu(arguments[0][0]), sets, "cuda", warmup=2, round_ms=1000.0)
    assert held["calls"] == clock.FRESH
