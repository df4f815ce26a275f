"""Run one cell: its problem as a file in a folder of its own, its run in a store beside it, its row at the end.

A folder that holds the store of an earlier, stopped sitting is gone on with. It has the layout of a state directory, so
that `STARK_STATE_DIR=FOLDER stark-lsp runs` shows what is in it.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from stark_lsp import __version__
from stark_lsp.bench import prompts
from stark_lsp.bench.cells import Cell
from stark_lsp.bench.files import LOG, writing
from stark_lsp.bench.rows import Outcome, Row, of_failure, of_run
from stark_lsp.bench.suite import CLASS
from stark_lsp.core.conversation import Spend
from stark_lsp.core.errors import BadInput, Degenerate, Fault, OnlyEmpty, TooLong
from stark_lsp.core.events import Event, Judged, Notice, Prepared, Progress
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Run
from stark_lsp.core.status import Mode, RunState
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs.options import DEFAULT_DOLLARS, RunOptions
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

STORE = "runs.sqlite3"
"""Name of a cell's store, as in a state directory."""
PROMPTS = "prompts"


async def measure(cell: Cell, folder: Path, *, interpreter: str | None, say: Callable[[str], None]) -> Row:
    """Run a cell to its end and return its row.

    Parameters
    ----------
    folder
        Of this cell alone; made if it is not there.
    interpreter
        The Python that has torch; None finds it.
    say
        Told in a few words what goes on.

    Raises
    ------
    BadInput
        What is wrong lies not with the problem: no torch, no GPU, no key, no such model. Any other cell would end the
        same way.
    asyncio.CancelledError
        It was stopped; the next sitting goes on from there.
    """
    if cell.version != __version__:
        raise BadInput(
            f"The cell was made by stark-lsp {cell.version}, and this is {__version__}.",
            cure="Install the same version on all machines.",
        )
    begun = time.monotonic()
    store: RunStore | None = None
    session: RunSession | None = None
    try:
        problem = await asyncio.to_thread(_problem, cell, folder)
        store = await asyncio.to_thread(RunStore, folder / STORE)
        await asyncio.to_thread(store.mark_interrupted)
        done = await asyncio.to_thread(_finished, store, problem)
        if done is not None:
            # Its process ended after the run did and before the row was kept.
            stored = await asyncio.to_thread(store.load, done.id)
            spend = await _spend(store, done)
            return of_run(cell, done, stored.nodes, spend, seconds=_seconds(done), resumed=True)
        log = partial(_note, folder)
        if cell.prompts:
            await asyncio.to_thread(prompts.write, cell.prompts, folder / PROMPTS)
        wanted = _options(cell, folder, interpreter)
        session = RunSession(problem, wanted, store=store, emit=_teller(say), log=log)
        run = await session.execute()
        spend = await _spend(store, run)
        return of_run(cell, run, session.nodes, spend, seconds=time.monotonic() - begun, resumed=session.resumed)
    except Exception as error:  # noqa: BLE001 - sorted out by `_judged`
        return await _failed(cell, folder, error, store, session, time.monotonic() - begun)
    finally:
        if store is not None:
            await asyncio.to_thread(store.close)


def _judged(cell: Cell, folder: Path, error: Exception) -> tuple[Outcome, str]:
    """Return what an error makes of a cell, and the reason.

    Raises
    ------
    BadInput
        It would end any other cell as well.
    """
    if isinstance(error, (OnlyEmpty, TooLong)):
        # Whoever answers could not do it, and nobody else is to blame: that is a result.
        return Outcome.MEASURED, error.message
    if isinstance(error, Degenerate):
        return Outcome.DEGENERATE, error.message
    if isinstance(error, BadInput):
        if error.path is None or Path(error.path).name != cell.file:
            raise error
        return Outcome.UNUSABLE, error.message
    if isinstance(error, Fault):
        return Outcome.FAULT, str(error)
    # A mistake of ours on one problem must not end the benchmark; it is told.
    _note(folder, "".join(traceback.format_exception(error)))
    text = " ".join(str(error).split())[:300]
    return Outcome.FAULT, f"Something unexpected broke: {type(error).__name__}: {text}"


def _problem(cell: Cell, folder: Path) -> Problem:
    """Write the problem's file and return the problem, as KernelBench has it: in the mode of its construction."""
    path = folder / "problem" / Path(cell.file).name
    with writing("The problem", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(cell.text, encoding="utf-8", newline="\n")
    return make_problem(str(path), cell.text, CLASS, mode=Mode.AS_CONSTRUCTED, device=cell.device)


async def _failed(
    cell: Cell, folder: Path, error: Exception, store: RunStore | None, session: RunSession | None, seconds: float
) -> Row:
    """Return the row of a run that ended in an error, with the attempts that it made and what they cost."""
    outcome, reason = _judged(cell, folder, error)
    if store is None or session is None:
        return of_failure(cell, outcome, reason, seconds=seconds)
    run, nodes, spend = session.run, session.nodes, Spend()
    with suppress(Fault):  # the store may be what broke, and that is told already
        spend = await _spend(store, run)
    if outcome is Outcome.MEASURED:
        return of_run(cell, run, nodes, spend, seconds=seconds, resumed=session.resumed, reason=reason)
    return of_failure(cell, outcome, reason, seconds=seconds, run=run, nodes=nodes, spend=spend)


def _options(cell: Cell, folder: Path, interpreter: str | None) -> RunOptions:
    return RunOptions(
        model=cell.model,
        agents=cell.agents,
        budget=cell.budget,
        default_dollars=DEFAULT_DOLLARS,
        search=replace(cell.search, attempts=cell.budget.attempts),
        evaluation=cell.evaluation,
        interpreter=interpreter,
        prompt_dirs=(str(folder / PROMPTS),) if cell.prompts else (),
        resume=True,
    )


def _finished(store: RunStore, problem: Problem) -> Run | None:
    runs = store.list(1, key=problem.key)
    return runs[0] if runs and runs[0].state is RunState.FINISHED and runs[0].problem.text == problem.text else None


def _note(folder: Path, text: str) -> None:
    """Add to the cell's log; a log that cannot be written must not stop the work it is about."""
    when = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with suppress(OSError), (folder / LOG).open("a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"{when} {text}\n")


async def _spend(store: RunStore, run: Run) -> Spend:
    return await asyncio.to_thread(store.exchanges.spend, run.id)


def _seconds(run: Run) -> float:
    try:
        return (datetime.fromisoformat(run.finished) - datetime.fromisoformat(run.created)).total_seconds()
    except ValueError:
        return 0.0


def _teller(say: Callable[[str], None]) -> Callable[[Event], None]:
    """Return a watcher of a run that says what goes on."""

    def emit(event: Event) -> None:
        if isinstance(event, Progress):
            say(f"{event.text} ({event.attempt}/{event.attempts})" if event.attempt else event.text)
        elif isinstance(event, Notice):
            say(event.text)
        elif isinstance(event, Prepared):
            say(f"eager takes {event.reference.baselines.eager.median_ms:.4g} ms")
        elif isinstance(event, Judged) and event.node.verdict is not None:
            say(f"attempt {event.node.id}: {event.node.verdict.status.value}")

    return emit
