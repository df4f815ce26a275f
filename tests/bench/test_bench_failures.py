"""Cells whose agents fail: they count as not solved, with what was spent; they are no faults of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import CHEAP, SUITE, bench
from messages_api import replies
from messages_api.server import TEST_KEY, MessagesServer

from stark_lsp.bench import report, statistics
from stark_lsp.bench.cells import Cell, Wanted, cells
from stark_lsp.bench.ledger import NAME, read
from stark_lsp.bench.measure import measure
from stark_lsp.bench.rows import Outcome
from stark_lsp.bench.suite import discover
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice, VerdictStatus

QUICK = EvaluationSettings(
    seeds=1, warmup=1, rounds=3, final_rounds=3, round_ms=1.0, compile_baseline=False, profile=False,
    sanitizer=False, special_inputs=False, gradients=False,
)  # fmt: skip
Serve = Callable[[Callable[[object], replies.Reply]], MessagesServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Serve]:
    opened: list[MessagesServer] = []

    def start(answer: Callable[[object], replies.Reply]) -> MessagesServer:
        server = MessagesServer(answer).start()
        opened.append(server)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
        return server

    yield start
    for server in opened:
        server.close()


def a_cell(attempts: int = 9, **search: int) -> Cell:
    settings = SearchSettings(attempts=attempts, **search)  # type: ignore[arg-type]
    wanted = Wanted(
        ["sampling"], ["auto"], ["anthropic"], [0], settings, Budget(attempts), QUICK, device=DeviceChoice.CPU,
        agents=AgentSettings(playbook=False),
    )  # fmt: skip
    return cells(discover(SUITE)[:1], wanted)[0]


async def run(cell: Cell, folder: Path, said: Callable[[str], None] = lambda text: None):  # type: ignore[no-untyped-def]
    return await measure(cell, folder, interpreter=sys.executable, say=said)


@pytest.mark.slow
async def test_a_model_that_hands_in_nothing_has_failed_and_what_it_took_counts(serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda request: replies.refusal("cyber", "The request was declined."))
    own = {"system.md": "Words of our own."}
    row = await run(replace(a_cell(empty_limit=2), prompts=own), tmp_path / "cell")
    assert row.outcome is Outcome.MEASURED, row.reason
    assert row.best is None
    assert [attempt.status for attempt in row.attempts] == [VerdictStatus.NO_CANDIDATE] * 3
    assert (row.spend.calls, len(server.requests)) == (3, 3)
    assert all("Words of our own." in str(request.body["system"]) for request in server.requests)
    assert row.spend.usage.total > 0
    assert row.budget == Budget(9, dollars=10.0), "the limit that comes by itself, as in any run"
    assert row.baselines is not None
    assert "3 attempts in a row left nothing to judge" in row.reason
    assert statistics.success([row]) == statistics.Share(0, 1)
    page = report.page([row], 0, ())
    assert "sampling gave out in 1 of 1 cells" in page
    assert "| sampling | 1 |" in page.partition("## What it took")[2]


@pytest.mark.slow
async def test_a_problem_too_long_for_the_model_is_a_failure_of_that_cell_alone(serve: Serve, tmp_path: Path) -> None:
    serve(lambda request: replies.too_long())
    row = await run(a_cell(), tmp_path / "cell")
    assert (row.outcome, row.best, row.attempts) == (Outcome.MEASURED, None, ())
    assert "longer than" in row.reason


@pytest.mark.slow
async def test_what_would_end_every_cell_still_ends_the_benchmark(serve: Serve, tmp_path: Path) -> None:
    serve(lambda request: replies.unauthorized())
    with pytest.raises(BadInput, match="key"):
        await run(a_cell(), tmp_path / "cell")


@pytest.mark.slow
async def test_a_fault_of_the_machine_says_what_had_been_spent(serve: Serve, tmp_path: Path) -> None:
    refused = iter([replies.refusal("cyber", "The request was declined.")])
    serve(lambda request: next(refused, None) or replies.rate_limited("100000"))
    row = await run(a_cell(fault_limit=1), tmp_path / "cell")
    assert row.outcome is Outcome.FAULT, row.reason
    assert row.spend.calls == 1
    assert [attempt.status for attempt in row.attempts] == [VerdictStatus.NO_CANDIDATE]
    tail = report.page([row, replace(row, key="other")], 0, ()).partition("## What it took")[2]
    assert "| left out | 2 |" in tail


async def test_a_problem_that_breaks_us_ends_its_own_cell_alone(tmp_path: Path) -> None:
    cell = a_cell()
    row = await run(replace(cell, text=f"{cell.text}# \ud800\n"), tmp_path / "cell")
    assert row.outcome is Outcome.FAULT
    assert row.reason.startswith("Something unexpected broke: UnicodeEncodeError")
    assert "Traceback" in (tmp_path / "cell" / "log.txt").read_text()


@pytest.mark.slow
def test_a_search_with_nothing_more_to_propose_is_told_below_its_table(tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--subset", "1/7", "--system", "ma-only", "--budget", "9", "--out", out)
    finished = bench(SUITE, *CHEAP, *more, state=tmp_path / "state")
    assert finished.returncode == 0, finished.stderr
    (row,) = read(out / NAME)
    assert len(row.attempts) < 9, row.message
    told = f"ma-only ended early in 1 of 1 cells, after {len(row.attempts)} of 9 attempts: nothing more to propose."
    assert told in (out / "report.md").read_text()
