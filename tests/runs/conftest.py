"""What runs on a language model need: the test server on the path, and an environment without the developer's own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request
from model_runs import QUICK, problem_in

from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.verdict import Reference
from stark_lsp.evaluation.judge import WorkerJudge, open_judge


@pytest.fixture(autouse=True)
def _no_model_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "STARK_PRICES",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Request], Reply]], MessagesServer]]:
    """Start servers that a run of this test asks, the last one started."""
    opened: list[MessagesServer] = []

    def start(answer: Callable[[Request], Reply]) -> MessagesServer:
        opened.append(MessagesServer(answer).start())
        monkeypatch.setenv("ANTHROPIC_BASE_URL", opened[-1].url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        return opened[-1]

    yield start
    for server in opened:
        server.close()


class Lent:
    """A real judge that is prepared already, and that goes on when a run is over."""

    def __init__(self, judge: WorkerJudge, text: str, settings: EvaluationSettings, reference: Reference) -> None:
        self._judge = judge
        self._judges = (text, settings)
        self._reference = reference

    async def to(self, problem: Problem, *, settings: EvaluationSettings, **_: Any) -> Lent:
        """Stand in for `open_judges`."""
        assert (problem.text, settings) == self._judges
        return self

    async def prepare(self, progress: Any, *, writing: bool = False) -> Reference:
        return self._reference

    async def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _prepared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> AsyncIterator[Lent]:
    folder = tmp_path_factory.mktemp("judge")
    problem, settings = problem_in(folder), getattr(request.module, "JUDGED", QUICK)
    judge = await open_judge(
        problem,
        interpreter=sys.executable,
        settings=settings,
        cache_dir=folder / "cache",
        log=lambda line: None,
    )
    try:
        yield Lent(judge, problem.text, settings, await judge.prepare(lambda text: None))
    finally:
        await judge.close()


@pytest.fixture
def one_judge(_prepared: Lent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the runs of a file's tests judged by one judge: four processes of it import torch before they begin.

    Such a test needs `pytest.mark.asyncio(loop_scope="module")`; a file may say by what settings, as `JUDGED`.
    """
    monkeypatch.setattr("stark_lsp.runs.session.open_judges", _prepared.to)
