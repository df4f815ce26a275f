"""While something is timed, what comes up beside it rests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.timing.problem_runners import Bench

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def all_stopped(pids: list[int], stopped: bool) -> bool:
    """Wait for it: a signal takes a moment."""
    deadline = time.monotonic() + 20.0
    while any((state(pid) == "T") != stopped for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return all((state(pid) == "T") == stopped for pid in pids)


def test_spares_that_come_up_and_torch_compile_rest_in_a_turn(tmp_path: Path) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        reference: Any = SimpleNamespace(device="cpu", cases=[SimpleNamespace(outputs=SimpleNamespace(tensors=[]))])
        pool: Any = SimpleNamespace(coming=lambda: [busy[0].pid])
        bench = Bench(reference, {}, pool, 1, Turns(str(tmp_path), "cpu"))
        bench._compiling = busy[1]  # type: ignore[assignment]
        with bench.turn():
            assert all_stopped([one.pid for one in busy], True)
        assert all_stopped([one.pid for one in busy], False)
    finally:
        for one in busy:
            one.kill()
            one.wait()
