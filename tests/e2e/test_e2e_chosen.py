"""Any verified attempt can be reviewed and accepted, not only the one that its run proposed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from e2e_editor import MODULE, published, session
from stored_runs import CANDIDATE, leave, store_in, stored

from stark_lsp.core.status import Decision, RunState, VerdictStatus
from stark_lsp.core.verdict import Interval, Verdict

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]

DIFFS = {"diffView": True}


def leave_several(state: Path, file: Path, how: RunState = RunState.FINISHED, **more: Decision) -> None:
    """Store a run with its proposal 1, a slower attempt 2, a failed one 3, and 4, which is 2 once more."""
    leave(state, file, "r1", how, gain=2.0, **more)
    store = store_in(state)
    good = store.load("r1").nodes[1]
    assert good.verdict is not None
    other = replace(good.candidate, source=f"# another way\n{CANDIDATE}")
    slower = replace(good.verdict, speedup_vs_eager=Interval(1.5, 1.4, 1.6))
    store.put_node("r1", replace(good, id=2, candidate=other, verdict=slower))
    store.put_node("r1", replace(good, id=3, parent=2, verdict=Verdict(VerdictStatus.CRASHED)))
    store.put_node("r1", replace(good, id=4, parent=2, candidate=other, verdict=slower))
    store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "model.py"
    found.write_text(MODULE)
    return found


async def test_candidates_are_gone_through_and_one_that_was_not_proposed_is_accepted(
    file: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    leave_several(state, file)
    async with session(published(), state, DIFFS) as editor:
        uri = editor.open(file)
        first = await editor.execute("stark.review", {"run": "r1"})
        assert (first["node"], first["next"]) == (1, 2)
        assert first["title"] == "Model attempt 1: 2.00x (1.96 to 2.04) vs eager"
        second = await editor.execute("stark.review", {"run": "r1", "node": first["next"]})
        assert (second["node"], second["next"]) == (2, 1)
        assert "node 2" in second["proposed"]
        assert await editor.titles(uri) == ["Optimize with STARK", "Review", "Accept", "Reject"]
        same = await editor.execute("stark.review", {"run": "r1", "node": 4})
        assert (same["node"], same["next"]) == (4, 1)
        assert stored(state, "r1").best == 1, "looking at another one decides nothing"

        assert (await editor.execute("stark.accept", {"run": "r1", "node": 2}))["status"] == "applying"
        await editor.until_message("was accepted")
        assert "class ModelNew(nn.Module)" in editor.texts[uri]
        assert "node 2" in editor.texts[uri]
        again = await editor.execute("stark.accept", {"run": "r1"})
        assert "has no open proposal. Name one of its attempts, {run, node}, or use" in again["message"]
    run = stored(state, "r1")
    assert (run.decision, run.best) == (Decision.ACCEPTED, 2)
    assert run.message.startswith("1.50x as fast as eager")


@pytest.mark.parametrize("decision", [Decision.REJECTED, Decision.ACCEPTED, Decision.KEPT])
async def test_what_was_decided_on_the_proposal_does_not_bind_who_names_a_candidate(
    file: Path, tmp_path: Path, decision: Decision
) -> None:
    state = tmp_path / "state"
    leave_several(state, file, decision=decision)
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await editor.execute("stark.accept", {"run": "r1", "node": 2})
        await editor.until_message("was accepted")
        assert "node 2" in editor.texts[uri]
    assert (stored(state, "r1").decision, stored(state, "r1").best) == (Decision.ACCEPTED, 2)


async def test_an_attempt_is_named_by_a_whole_number(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave_several(state, file)
    async with session(published(), state, DIFFS) as editor:
        uri = editor.open(file)
        assert (await editor.execute("stark.review", {"run": "r1", "node": 2.0}))["node"] == 2
        for argument in (
            {"run": "r1", "node": 1.5},
            {"run": "r1", "node": "2"},
            {"run": "r1", "node": True},
            {"node": 2},
        ):
            assert (await editor.execute("stark.accept", argument))["status"] == "error", argument
        assert editor.texts[uri] == MODULE
    assert stored(state, "r1").decision is Decision.OPEN


async def test_a_candidate_goes_with_a_file_that_was_moved(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave_several(state, file)
    moved = file.rename(tmp_path / "moved.py")
    async with session(published(), state, DIFFS) as editor:
        uri = editor.open(moved)
        await editor.until_question()  # the proposal is shown with the file's new name
        shown = await editor.execute("stark.review", {"run": "r1", "node": 2})
        assert (shown.get("uri"), shown.get("node")) == (uri, 2)


@pytest.mark.parametrize("opened", ["before", "after"])
@pytest.mark.parametrize("decision", [Decision.ACCEPTED, Decision.KEPT])
async def test_a_moved_file_takes_a_candidate_once_it_is_open(
    opened: str, decision: Decision, file: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    leave_several(state, file, decision=decision)
    moved = file.rename(tmp_path / "moved.py")
    async with session(published(), state) as editor:
        if opened == "after":
            await editor.execute("stark.accept", {"run": "r1", "node": 2})
            await editor.until_message("Open it where it is now and accept again.")
        uri = editor.open(moved)
        for _ in range(50):  # one that is shown already follows its file a moment later
            await editor.execute("stark.accept", {"run": "r1", "node": 2})
            await asyncio.sleep(0.1)
            if "node 2" in editor.texts[uri]:
                break
        assert "node 2" in editor.texts[uri]


async def test_what_was_not_verified_or_is_under_way_cannot_be_accepted(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave_several(state, file, RunState.RUNNING)
    async with session(published(), state) as editor:
        uri = editor.open(file)
        for node, why in ((3, "no verified attempt 3"), (0, "attempt 0"), (9, "attempt 9"), (2, "goes on")):
            answer = await editor.execute("stark.accept", {"run": "r1", "node": node})
            assert (answer["status"], why in answer["message"]) == ("error", True), answer
        assert editor.texts[uri] == MODULE


async def test_an_interrupted_run_without_a_proposal_has_candidates_too(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave_several(state, file, RunState.CANCELLED)
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await editor.execute("stark.accept", {"run": "r1", "node": 1})
        await editor.until_message("was accepted")
        assert "class ModelNew(nn.Module)" in editor.texts[uri]
    assert stored(state, "r1").best == 1
