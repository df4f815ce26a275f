"""One verdict outside of a run: a worker is prepared and asked, and gone afterwards whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.evaluation.pool import RunJudge, open_judges
from stark_lsp.store.paths import cache_dir

NOT_AWAITED = "Not waited for, since the candidate failed."


@asynccontextmanager
async def opened(
    problem: Problem,
    *,
    interpreter: str,
    settings: EvaluationSettings,
    log: Callable[[str], None],
    tell: Callable[[str], None],
) -> AsyncIterator[RunJudge]:
    """Give a judge of a problem that is not prepared yet; no process of it is left afterwards.

    Parameters
    ----------
    problem, interpreter, settings, log
        As for `evaluation.pool.open_judges`.
    tell
        Told in a few words what goes on.

    Raises
    ------
    BadInput
        The interpreter cannot be run.
    """
    tell("Starting")
    judge = await open_judges(
        problem, interpreter=interpreter, settings=settings, cache_dir=cache_dir(), log=log, notice=tell
    )
    try:
        yield judge
    finally:
        await asyncio.shield(judge.close())


async def judge_once(
    problem: Problem,
    candidate: Candidate,
    *,
    interpreter: str,
    settings: EvaluationSettings,
    final: bool,
    tools: bool,
    log: Callable[[str], None],
    tell: Callable[[str], None],
) -> tuple[Reference | None, Verdict]:
    """Judge a candidate, and return what preparing found out with the verdict.

    What reading the candidate finds is told before anything is prepared; there is no reference then.

    Parameters
    ----------
    final
        Time it as the proposal of a run is: torch.compile is waited for, if the candidate is right.
    tools
        With `final`: build it as stock torch does, and run it under memory checkers on a GPU as well.

    The others are those of `opened`.

    Raises
    ------
    BadInput, Fault
        As `WorkerJudge.prepare` does.
    """
    async with opened(problem, interpreter=interpreter, settings=settings, log=log, tell=tell) as judge:
        if (unfit := await judge.read(candidate)) is not None:
            return None, unfit
        reference = await judge.prepare(tell)
        tell("Judging the candidate")
        verdict = await (judge.confirm(candidate, tools=tools) if final else judge.evaluate(candidate))
        verdict = await judge.counted(candidate, verdict)
        if verdict.ok and final:
            reference = replace(reference, baselines=await judge.baselines())
        elif final:
            # What is wrong is told at once.
            known = reference.baselines
            if settings.compile_baseline and known.compile is None:
                known = replace(known, compile_message=NOT_AWAITED)
            if settings.max_autotune and known.max_autotune is None:
                known = replace(known, max_autotune_message=NOT_AWAITED)
            reference = replace(reference, baselines=known)
        return reference, verdict
