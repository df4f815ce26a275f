"""A run that is killed again and again asks nothing twice whose answer had arrived."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from messages_api.kernels import Expert
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request

from stark_lsp.core.run import Run
from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore

HERE = Path(__file__).parent
ATTEMPTS = 14
ON_THE_WAY_S = 2.0
"""An answer that was sent less than this before the kill may not have been stored yet."""


class Slow:
    """An expert that takes a moment, so that kills come while it is asked."""

    def __init__(self) -> None:
        self.expert = Expert()

    def __call__(self, request: Request) -> Reply:
        time.sleep(0.4)
        return self.expert(request)


def start(folder: Path, server: MessagesServer) -> subprocess.Popen[str]:
    environment = dict(os.environ, ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=TEST_KEY)
    return subprocess.Popen(
        [sys.executable, str(HERE / "driven_run.py"), str(folder), str(ATTEMPTS)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def only_run(store: RunStore) -> Run | None:
    runs = store.list()
    assert len(runs) <= 1, "the run was begun anew"
    return runs[0] if runs else None


def finished(server: MessagesServer) -> list[Request]:
    return [
        request for request in server.requests if request.finished and request.reply and request.reply.status == 200
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [20])
def test_no_paid_call_is_repeated(tmp_path: Path, kills: int) -> None:
    rng, lost, during = Random(7), 0, Counter[str]()
    store = RunStore(tmp_path / "state" / "runs.sqlite3")
    with MessagesServer(Slow()) as server:
        for _ in range(kills):
            process = start(tmp_path, server)
            time.sleep(rng.uniform(1.0, 9.0))
            over = process.poll() is not None
            process.kill()
            killed_at = time.monotonic()
            process.communicate()
            run = only_run(store)
            during["no run yet" if run is None else run.state.value] += 1
            kept = len(store.exchanges.list(run.id)) if run is not None else 0
            answered = finished(server)
            late = sum(1 for one in answered if killed_at - (one.finished_at or 0.0) < ON_THE_WAY_S)
            missing = len(answered) - lost - kept
            assert 0 <= missing <= late, "an answer that had arrived is not in the store"
            lost += missing
            if over:
                break
        last = start(tmp_path, server)
        output, _ = last.communicate(timeout=400)
        assert last.returncode == 0
        assert output.startswith(RunState.FINISHED.value)
        run = only_run(store)
        assert run is not None
        exchanges = store.exchanges.list(run.id)
        assert len(finished(server)) == len(exchanges) + lost, "an answer that was in the store was asked for again"
        nodes = store.load(run.id).nodes
        assert len(nodes) == ATTEMPTS + 1
        assert all(node.verdict is not None for node in nodes.values())
    assert during[RunState.RUNNING.value] > 0, "no kill came while it searched"
