"""Whatever a candidate does, its verdict says so, and the next one is judged as if nothing had been.

One worker judges all of them, one after another: that it lives through them is what is tested.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from fault_cases import FAULTS, RAW, problem_at, settings
from fault_watch import MARK, marked, strays, tree, until

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.evaluation.judge import WorkerJudge, open_judge

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
    pytest.mark.asyncio(loop_scope="module"),
]


QUICK = (
    "an endless loop in C",
    "host memory taken without end in C",
    "a fork bomb",
    "a log bomb in Python",
    "an answer of the wrong kinds",
)
"""One of each kind that a plain verdict does not show already, for every run of the tests; all others are slow."""


class Watched:
    """A judge, and what runs while it waits for a candidate."""

    def __init__(self, judge: WorkerJudge, mark: str, temporary: Path) -> None:
        self.judge = judge
        self.mark = mark
        self.temporary = temporary
        self.guard = judge.pid
        self.at_rest = 0

    async def rest(self) -> None:
        """Wait until nothing runs but what runs between two candidates."""
        await until(lambda: len(tree(self.guard)) <= self.at_rest, "something is left running")
        await until(lambda: not strays(self.mark, self.guard), "something outside the worker's tree is left running")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    folder, mark = tmp_path_factory.mktemp("faults"), secrets.token_hex(8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        judge = await open_judge(
            problem_at(folder),
            interpreter=sys.executable,
            settings=settings(),
            cache_dir=folder / "cache",
            log=lambda line: None,
        )
        watch = Watched(judge, mark, folder)
        try:
            await judge.prepare(lambda text: None)
            verdict = await judge.evaluate(Candidate(RAW))
            assert verdict.status is Status.OK, verdict
            # Spares for the next candidate come up in the background.
            for _ in range(15):
                watch.at_rest = max(watch.at_rest, len(tree(judge.pid)))
                await asyncio.sleep(0.2)
            yield watch
        finally:
            await judge.close()
    await until(lambda: not marked(mark), "something is left running after the judge was closed")
    left = [name for name in os.listdir("/tmp") if name.startswith(f"stark-{os.getpid()}-")]
    assert not left, "the private folder is left"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in FAULTS]
)
async def test_a_fault_has_its_status_and_the_next_candidate_is_judged(watched: Watched, name: str) -> None:
    fault, judge = FAULTS[name], watched.judge
    verdict = await judge.evaluate(Candidate(fault.source))
    assert verdict.status in fault.statuses, (verdict.status, verdict.message, verdict.log[-500:])
    assert verdict.message
    assert len(verdict.message) < 2000
    if fault.runs:
        assert verdict.status is not Status.REFUSED, verdict.message
    assert judge.pid == watched.guard, "the worker was lost"
    following = await judge.evaluate(Candidate(RAW))
    assert following.status is Status.OK, (following.status, following.message, following.log[-500:])
    await watched.rest()
    assert judge.pid == watched.guard, "the worker was lost"
