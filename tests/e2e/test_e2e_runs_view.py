"""The requests behind a view of runs: what is in the store, whoever put it there, and word of changes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from e2e_editor import MODULE, Editor, environment, published, session
from pygls.exceptions import JsonRpcException
from stored_runs import CANDIDATE, leave, store_in

from stark_lsp.core.status import RunState, VerdictStatus
from stark_lsp.core.verdict import Verdict

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]

WATCHES = {"provides": ["runs"]}


def by_id(answer: Any) -> dict[int, dict[str, Any]]:
    return {node["node"]: node for node in answer["nodes"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "model.py"
    found.write_text(MODULE)
    return found


async def quiet(editor: Editor, seconds: float = 1.0) -> int:
    """Wait until no change is told for a while, and return how many were."""
    seen = -1
    while seen != editor.runs_changed:
        seen = editor.runs_changed
        await asyncio.sleep(seconds)
    return seen


async def test_runs_are_listed_with_what_came_of_them_and_what_can_be_done(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with session(published(), state) as editor:
        assert await editor.own("stark/runs") == {"runs": [], "more": False}
        assert not (state / "runs.sqlite3").exists()
        leave(state, file, "r1", RunState.INTERRUPTED)
        leave(state, file, "r2", gain=2.26, created="2026-01-02T00:00:00+00:00")
        answer = await editor.own("stark/runs")
        newest, oldest = answer["runs"]
        assert (newest["run"], newest["class"], newest["uri"]) == ("r2", "Model", file.as_uri())
        assert newest["description"].startswith("2.26x · finished · 2026-01-0")
        assert "2.26x as fast as eager" in newest["tooltip"]
        assert "no model was asked" in newest["tooltip"]
        assert oldest["description"].startswith("interrupted · ")
        assert newest["can"] == oldest["can"] == ["original", "report"]
        assert await editor.own("stark/runs", limit=1) == {"runs": [newest], "more": True}
        assert await editor.own("stark/runs", limit="all") == answer


async def test_a_tree_tells_the_leader_the_failed_and_what_the_user_said(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave(state, file, "r1", RunState.INTERRUPTED, gain=2.0)
    store = store_in(state)
    good = store.load("r1").nodes[1]
    crashed = Verdict(VerdictStatus.CRASHED, "Signal 11.\nmore")
    store.put_node("r1", replace(good, id=2, parent=1, verdict=crashed))
    store.put_node("r1", replace(good, id=3, parent=2, verdict=None))
    async with session(published(), state) as editor:
        tree = await editor.own("stark/runs/tree", run="r1")
        nodes = by_id(tree)
        assert tree["leader"] == 1
        assert [(node["parent"], node["status"]) for node in nodes.values()] == [(0, "OK"), (1, "CRASHED"), (2, None)]
        assert nodes[1]["label"] == "1 1.00 ms, 2.00x"
        assert nodes[1]["description"] == "leader · One pass · code agent"
        assert "2.00x (1.96–2.04)" in nodes[1]["tooltip"]
        assert nodes[2]["label"] == "2 crashed"
        assert nodes[3]["label"] == "3 being judged"
        assert nodes[1]["can"] == ["source", "original", "parent", "verdict", "plan", "accept", "pin", "prune"]
        told = await editor.execute("stark.prune", {"run": "r1", "node": 2})
        assert told["status"] == "told"
        nodes = by_id(await editor.own("stark/runs/tree", run="r1"))
        assert [node["pruned"] for node in nodes.values()] == [False, True, True]
        assert nodes[2]["can"][-1] == "restore"
        assert "pin" not in nodes[3]["can"]
        for odd in ({"run": "r9"}, {"run": ""}, {}):
            with pytest.raises(JsonRpcException, match=r"[Nn]o run"):
                await editor.own("stark/runs/tree", **odd)


async def test_candidate_plan_and_verdict_can_be_read(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave(state, file, "r1")
    async with session(published(), state) as editor:

        async def text(part: str, node: Any = 1) -> Any:
            return await editor.own("stark/runs/text", run="r1", node=node, part=part)

        assert await text("source") == {"title": "Model attempt 1", "language": "python", "text": CANDIDATE}
        assert "class Model(nn.Module)" in (await text("source", 0))["text"]
        assert "Read it once." in (await text("plan"))["text"]
        verdict = (await text("verdict"))["text"]
        assert "against eager 2.00x (1.96–2.04)" in verdict
        evidence = (await text("evidence"))["text"]
        assert "Read it once." in evidence
        assert "against eager" in evidence
        assert "No model was asked." in (await text("prompts"))["text"]
        for part, node in (("secrets", 1), ("source", 7), ("source", True), (3, 1)):
            with pytest.raises(JsonRpcException):
                await text(part, node)


async def test_where_things_stand_is_told_with_whose_python_it_is(file: Path, tmp_path: Path) -> None:
    state, python = tmp_path / "state", tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    async with session(published(), state) as editor:
        nowhere = await editor.own("stark/status")
        assert (nowhere["state"], nowhere["text"], nowhere["interpreter"]) == ("ready", "ready", "")
        told = await editor.own("stark/status", uri=file.as_uri())
        assert told == {**nowhere, "interpreter": str(python)}
        assert (told["model"], told["device"], told["cost"], told["run"]) == ("playbook", "cpu", "", None)
        leave(state, file, "r1")
        editor.open(file)
        await editor.until_question()
        told = await editor.own("stark/status", uri=file.as_uri())
        assert (told["state"], told["text"], told["run"]) == ("offered", "1 proposal to review", "r1")
    async with session(published(), state, {"interpreter": "nowhere/python"}) as editor:
        told = await editor.own("stark/status", uri=file.as_uri())
        assert "nowhere/python" in told["interpreter"]


async def test_a_run_of_the_terminal_is_told_of_while_nothing_is_told_where_nothing_happens(
    file: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    async with session(published(), state, WATCHES) as editor:
        await editor.own("stark/runs")
        await quiet(editor)
        before = editor.runs_changed
        code = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
            "from stored_runs import leave; leave(Path(sys.argv[2]), Path(sys.argv[3]), 'r1')\n"
        )
        here = str(Path(__file__).parent)
        elsewhere = [sys.executable, "-c", code, here, str(state), str(file)]
        await asyncio.to_thread(subprocess.run, elsewhere, check=True, env=environment(state))
        await editor.until(lambda: editor.runs_changed > before, "word of the other process's run")
        assert [run["run"] for run in (await editor.own("stark/runs"))["runs"]] == ["r1"]
        seen = await quiet(editor)
        # Looking changes nothing, so it must not be told as a change: a view would look for ever.
        for _ in range(3):
            await editor.own("stark/runs")
            await editor.own("stark/runs/tree", run="r1")
        assert await quiet(editor) == seen
        used = sum(editor.server.cpu_times()[:2])
        await asyncio.sleep(3)
        assert sum(editor.server.cpu_times()[:2]) - used <= 0.03


async def test_who_does_not_show_runs_is_told_nothing(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with session(published(), state) as editor:
        await editor.own("stark/runs")
        leave(state, file, "r1")
        assert await quiet(editor) == 0


async def test_a_tree_of_200_attempts_is_there_at_once(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave(state, file, "r1")
    store = store_in(state)
    good = store.load("r1").nodes[1]
    for number in range(2, 201):
        store.put_node("r1", replace(good, id=number, parent=number // 3))
    async with session(published(), state) as editor:
        await editor.own("stark/runs/tree", run="r1")  # what it needs is imported
        took = []
        for _ in range(5):
            began = time.perf_counter()
            tree = await editor.own("stark/runs/tree", run="r1")
            took.append(time.perf_counter() - began)
        assert len(tree["nodes"]) == 200
        assert min(took) <= 0.1
