"""One worker for each GPU, and each candidate to the one that has the least to do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault, StarkError
from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice
from stark_lsp.core.verdict import Baselines, EditCheck, Reference, Stage, Verdict
from stark_lsp.evaluation import gpus
from stark_lsp.evaluation.judge import Tell, WorkerJudge, open_judge


class JudgePool:
    """Several workers for one problem, each with a device of its own.

    A candidate's speed-up is a ratio within one worker, so it does not matter which one judges it.

    Parameters
    ----------
    judges
        At least one; the first prepares aloud and answers `analyze`.
    log
        Told when one of the others cannot be used.
    """

    def __init__(self, judges: Sequence[WorkerJudge], log: Callable[[str], None]) -> None:
        self._all = tuple(judges)
        self._usable = list(judges)
        self._log = log

    async def read(self, candidate: Candidate) -> Verdict | None:
        """Return what reading finds, as the first worker does."""
        return await self._all[0].read(candidate)

    async def prepare(self, progress: Tell, *, writing: bool = False) -> Reference:
        """Prepare all workers at the same time; a worker that fails is left out, unless it is the first.

        Raises
        ------
        BadInput, Fault
            As for `WorkerJudge.prepare`, of the first worker.
        """
        first, *others = self._all
        rest = [asyncio.ensure_future(judge.prepare(lambda text: None)) for judge in others]
        try:
            reference = await first.prepare(progress, writing=writing)
            if rest:
                progress(f"Preparing {len(rest)} more {'GPU' if len(rest) == 1 else 'GPUs'}")
            for judge, outcome in zip(others, await asyncio.gather(*rest, return_exceptions=True), strict=True):
                if isinstance(outcome, StarkError):
                    self._log(f"One of the GPUs is left out: {outcome}")
                    self._usable.remove(judge)
                    await judge.close()
                elif isinstance(outcome, BaseException):
                    raise outcome
        finally:
            for task in rest:
                task.cancel()
        return reference

    async def baselines(self) -> Baselines:
        """Return the times of the reference, as the first worker takes them."""
        return await self._all[0].baselines()

    async def analyze(self) -> dict[str, Any]:
        """Return the analysis of the reference, as the first worker makes it."""
        return await self._all[0].analyze()

    async def written(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """Return what torch.compile writes by a recipe, as the first worker has it."""
        return await self._all[0].written(recipe)

    async def evaluate(self, candidate: Candidate) -> Verdict:
        """Judge a candidate where the least is under way."""
        return await self._least_busy().evaluate(candidate)

    async def glance(self, candidate: Candidate) -> Verdict:
        """Time a candidate quickly where the least is under way."""
        return await self._least_busy().glance(candidate)

    async def try_out(self, candidate: Candidate, until: Stage | None = None) -> Verdict:
        """Try a candidate where the least is under way."""
        return await self._least_busy().try_out(candidate, until)

    async def confirm(self, candidate: Candidate, *, tools: bool = True) -> Verdict:
        """Judge a candidate once more, next to torch.compile, where the least is under way."""
        return await self._least_busy().confirm(candidate, tools=tools)

    async def counted(self, candidate: Candidate, verdict: Verdict) -> Verdict:
        """Read hardware counters where the least is under way."""
        return await self._least_busy().counted(candidate, verdict)

    async def check_edit(self, path: str, text: str, qualname: str) -> EditCheck:
        """Try an edited file where the least is under way."""
        return await self._least_busy().check_edit(path, text, qualname)

    async def close(self) -> None:
        """End all workers; safe to call twice."""
        failed = [
            outcome
            for outcome in await asyncio.gather(*(judge.close() for judge in self._all), return_exceptions=True)
            if isinstance(outcome, BaseException)
        ]
        if failed:
            raise Fault(f"A worker could not be ended: {failed[0]}") from failed[0]

    def _least_busy(self) -> WorkerJudge:
        return min(self._usable, key=lambda judge: judge.under_way)


RunJudge: TypeAlias = WorkerJudge | JudgePool
"""What a run needs: one worker, or several that are used as one."""


async def open_judges(
    problem: Problem,
    *,
    interpreter: str,
    settings: EvaluationSettings,
    cache_dir: Path,
    log: Callable[[str], None],
    notice: Tell = lambda text: None,
    in_flight: int = 1,
) -> RunJudge:
    """Start what judges a run: a worker for each of several like GPUs if so many attempts are in flight, else one.

    The GPUs with the least to do at this moment are taken, unless the user's `CUDA_VISIBLE_DEVICES` says which; of
    unlike ones torch takes its first.

    Parameters
    ----------
    in_flight
        Attempts under way at the same time.

    The others are those of `open_judge`.

    Raises
    ------
    BadInput
        The interpreter cannot be run.
    """

    async def one(variables: dict[str, str] | None = None) -> WorkerJudge:
        return await open_judge(
            problem,
            interpreter=interpreter,
            settings=settings,
            cache_dir=cache_dir,
            log=log,
            notice=notice,
            variables=variables,
        )

    offered: tuple[str, ...] = ()
    if problem.device is not DeviceChoice.CPU and gpus.maybe_several():
        offered = gpus.visible(await asyncio.to_thread(gpus.listing), os.environ)
    devices = offered[:in_flight]
    if len(devices) < 2:
        if len(offered) < 2 or "CUDA_VISIBLE_DEVICES" in os.environ:
            return await one()
        log(f"Of {len(offered)} GPUs the one with the least to do is used: {offered[0]}.")
        return await one({"CUDA_VISIBLE_DEVICES": offered[0]})
    log(f"{len(devices)} GPUs are used.")
    opened: list[WorkerJudge] = []
    try:
        for device in devices:
            opened.append(await one({"CUDA_VISIBLE_DEVICES": device}))
    except BaseException:
        await asyncio.shield(asyncio.gather(*(judge.close() for judge in opened)))
        raise
    return JudgePool(opened, log)
