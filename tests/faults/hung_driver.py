"""A judge in this process whose candidate survives SIGKILL, as a process does whose driver hangs; prints what came.

Arguments: folder. Every signal of the judge is lost until the "driver" lets go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fault_cases import RAW, STUCK, problem_at, settings

from stark_lsp.contract import process_trees
from stark_lsp.contract.errors import Broken
from stark_lsp.contract.prctl import adopt_orphans
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.wire import to_wire
from stark_lsp.judge.processes import runners
from stark_lsp.judge.service.judging import Judge


def main(folder: Path) -> None:
    adopt_orphans()
    runners.KILL_S = 0.5
    private = folder / "private"
    private.mkdir()
    judge = Judge(
        to_wire(problem_at(folder)),
        to_wire(settings()),
        str(private),
        str(folder / "cache"),
        lambda text, seconds: None,
    )

    def judged(source: str) -> dict[str, Any]:
        try:
            verdict = judge.judge(to_wire(Candidate(source)), False, lambda text, seconds: None)
        except Broken as error:
            return {"broken": error.message, "cure": error.cure}
        return {"status": verdict["status"]}

    kill, killpg = os.kill, os.killpg
    lost: Any = lambda pid, sig: None  # noqa: E731 - stands for two functions
    os.kill = os.killpg = lost
    begin = time.monotonic()
    told = {"hung": judged(STUCK), "took": time.monotonic() - begin, "meanwhile": judged(RAW)}
    os.kill, os.killpg = kill, killpg
    told["stuck"] = judge.pool.stuck()
    for pid in told["stuck"]:
        kill(pid, signal.SIGKILL)
    while judge.pool.stuck():
        time.sleep(0.02)
    told["afterwards"] = judged(RAW)
    process_trees.kill_below(os.getpid(), seconds=30.0)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
