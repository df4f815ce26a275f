"""A server that is killed again and again while a language model works asks nothing twice whose answer had arrived.

A kill comes after so many more questions, drawn anew each time, and a moment later: while a question is answered,
between two, while a candidate is built or judged. Where nothing is waited for, it comes while the server starts or
prepares.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from e2e_editor import Editor, connect, gone, published

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from messages_api.kernels import Expert
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request

from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore
from stark_lsp.store.paths import default_store_path

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "new_gelu.py"
KILLS = 20
ATTEMPTS = 24
ANSWER_S = 0.3
ON_THE_WAY_S = 10.0
"""An answer that was sent less than this before the kill may not have been stored yet."""
SETTINGS = {
    "model": "anthropic",
    "attempts": ATTEMPTS,
    "search": {"inFlight": 2},
    "timingRounds": 3,
    "finalTimingRounds": 3,
    "compileBaseline": False,
    "device": "cpu",
    "evaluation": {"seeds": 1, "warmup": 1, "round_ms": 2.0, "profile": False, "special_inputs": False},
}


class Slow:
    """An expert that takes a moment, so that kills come while it is asked."""

    def __init__(self) -> None:
        self.expert = Expert()

    def __call__(self, request: Request) -> Reply:
        time.sleep(ANSWER_S)
        return self.expert(request)


def answered(server: MessagesServer) -> list[Request]:
    return [one for one in server.requests if one.finished and one.reply and one.reply.status == 200]


async def optimize(state: Path, file: Path) -> Editor:
    """Start a server, as an editor does, and the run in it."""
    editor = await connect(published(), state, SETTINGS)
    await editor.execute("stark.optimize", editor.open(file), "Model")
    return editor


async def kill(editor: Editor) -> float:
    """Kill the server; return when, once nothing of it is left."""
    processes = [editor.server, *editor.workers()]
    assert editor.client._server is not None
    editor.client._server.kill()
    at = time.monotonic()
    assert await asyncio.to_thread(gone, processes)
    await editor.client.stop()
    return at


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_no_paid_call_is_repeated_however_often_the_server_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, state = tmp_path / "model.py", tmp_path / "state"
    file.write_text(SAMPLE.read_text().replace("torch.randn(2048, 4096)", "torch.randn(64, 256)"))
    monkeypatch.setenv("STARK_STATE_DIR", str(state))
    store = RunStore(default_store_path())
    rng, lost, during = Random(7), 0, Counter[str]()
    with MessagesServer(Slow()) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        for _ in range(KILLS):
            target = len(server.requests) + rng.choice([0, 1, 1, 2, 2, 3])
            editor = await optimize(state, file)
            await editor.until(lambda target=target: len(server.requests) >= target, "the next question", 120)
            await asyncio.sleep(rng.uniform(0.0, 3 * ANSWER_S))
            killed_at = await kill(editor)
            [run] = store.list()
            during[run.state.value] += 1
            late = sum(1 for one in answered(server) if killed_at - (one.finished_at or 0.0) < ON_THE_WAY_S)
            missing = len(answered(server)) - lost - len(store.exchanges.list(run.id))
            assert 0 <= missing <= late, "an answer that had arrived is not in the store"
            lost += missing
        editor = await optimize(state, file)
        await editor.until(lambda: store.list()[0].state.over, "the end of the run", 600)
        await editor.until(editor.progress_ended, "the end of the progress")
        await kill(editor)
        [run] = store.list()
        assert run.state is RunState.FINISHED
        exchanges = store.exchanges.list(run.id)
        assert len(answered(server)) == len(exchanges) + lost, "an answer that was in the store was asked for again"
        nodes = store.load(run.id).nodes
        assert len(nodes) == ATTEMPTS + 1
        assert all(node.verdict is not None for node in nodes.values())
    assert sum(during.values()) == KILLS
    assert during[RunState.RUNNING.value] >= KILLS // 2, during
