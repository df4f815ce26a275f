"""A run whose model is a folder of files, in rounds: stopped while it waits, gone on with once answers are there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from messages_api.kernels import Expert
from messages_api.server import Request
from model_runs import Serve, options, problem_in, session

from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from standin import Standin

ASKS = """
import json, os, urllib.request
body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "What now?"}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
try:
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def answer_all(waiting: list[Path], expert: Expert) -> None:
    """Answer questions as somebody who reads the files."""
    for place in waiting:
        request = Request(0, "", "", {}, json.loads((place / "request.json").read_text()))
        given = dict(expert(request).tool_input or {})
        for field in {"source", "annotated_source"} & given.keys():
            (place / f"{field}.py").write_text(given.pop(field))
        (place / f"{request.tool}.json").write_text(json.dumps(given))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_goes_on_round_by_round_and_asks_nothing_twice(serve: Serve, tmp_path: Path) -> None:
    problem, store = problem_in(tmp_path), RunStore(tmp_path / "state" / "runs.sqlite3")
    standin, expert = Standin(tmp_path / "questions"), Expert()
    server = serve(standin.answer)
    for _ in range(2):  # both plans, then both candidates
        working = asyncio.create_task(
            session(problem, replace(options(2, in_flight=2), resume=True), store, []).execute()
        )
        while len(standin.waiting()) < 2:
            assert not working.done()
            await asyncio.sleep(0.05)
        waiting = standin.waiting()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        while standin.waiting():  # until the server has seen that the client is gone
            await asyncio.sleep(0.05)
        answer_all(waiting, expert)
    run = await session(problem, replace(options(2, in_flight=2, corrections=0), resume=True), store, []).execute()
    assert run.state is RunState.FINISHED, run.message
    assert sorted(place.name for place in (tmp_path / "questions").iterdir()) == [
        "0001-submit_plan",
        "0002-submit_plan",
        "0003-submit_kernel",
        "0004-submit_kernel",
    ]
    assert all((place / "delivered").exists() for place in (tmp_path / "questions").iterdir())
    exchanges = store.exchanges.list(run.id)
    assert Counter(one.question.attempt for one in exchanges) == {1: 2, 2: 2}
    assert len(server.requests) == 4 + 4, "what was cut off is asked again, and nothing else"
    assert store.exchanges.spend(run.id).usage.total == sum(one.answer.usage.total for one in exchanges)


def test_a_round_ends_when_its_command_can_do_no_more(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "standin.py"
    command = [sys.executable, str(script), str(tmp_path), "--quiet", "60", "--", sys.executable, "-c", ASKS]
    # As a shell starts what runs in the background.
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    assert subprocess.run(command).returncode == 130
    (tmp_path / "0001-text" / "answer.txt").write_text("Sleep.")
    assert "What now?" in (tmp_path / "0001-text" / "question.md").read_text()
    assert subprocess.run(command).returncode == 0
