"""A server that is killed while a candidate is judged takes all its processes along and loses nothing."""

from __future__ import annotations

import secrets
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fault_cases import REFERENCE
from fault_watch import MARK, marked, until
from killed_server import OPTIONS, problem_in

from stark_lsp.core.events import Event, Planned, Progress
from stark_lsp.core.status import RunState
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


# In every run of the tests scripted runs are killed at every point, see tests/store/test_resume.py.
@pytest.mark.slow
async def test_what_was_proposed_is_judged_by_the_resumed_run_without_asking_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = secrets.token_hex(8)
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "model.py").write_text(REFERENCE)
    with monkeypatch.context() as patch:
        patch.setenv(MARK, mark)
        script = Path(__file__).resolve().parent / "killed_server.py"
        done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    await until(lambda: not marked(mark), "something is left running")

    store = RunStore(tmp_path / "state" / "runs.sqlite3")
    [run] = store.mark_interrupted()
    kept = store.load(run).nodes[1]
    assert kept.candidate.source
    assert kept.verdict is None
    events: list[Event] = []
    again = RunSession(
        problem_in(tmp_path), replace(OPTIONS, resume=True), store=store, emit=events.append, log=lambda line: None
    )
    ended = await again.execute()
    assert (ended.id, ended.state) == (run, RunState.FINISHED)
    first = store.load(run).nodes[1]
    assert first.candidate == kept.candidate
    assert first.verdict is not None
    assert not [event for event in events if isinstance(event, Planned)], "an agent was asked again"
    assert not [event for event in events if isinstance(event, Progress) and event.text == "Planning"]
