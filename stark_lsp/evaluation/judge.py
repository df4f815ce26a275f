"""The judge as runs use it: a worker behind `core.roles.Judge`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.evaluation.scratch import make_scratch, remove_scratch
from stark_lsp.evaluation.supervisor import Supervisor, WorkerState, WorkerTimeout

T = TypeVar("T")

START_LIMIT_S = 30.0
"""For an interpreter to start and answer at all."""


class WorkerJudge:
    """Judges candidates of one problem in a worker process; one at a time.

    Made by `open_judge`; call `prepare` first and `close` last.
    """

    def __init__(
        self,
        problem: Problem,
        settings: EvaluationSettings,
        cache_dir: Path,
        supervisor: Supervisor,
        scratch: str,
    ) -> None:
        self._problem = problem
        self._settings = settings
        self._cache_dir = cache_dir
        self._supervisor = supervisor
        self._scratch = scratch
        self._turn = asyncio.Lock()

    @property
    def state(self) -> WorkerState:
        """Where the worker stands."""
        return self._supervisor.state

    @property
    def pid(self) -> int | None:
        """Process id of the worker's guard; everything else runs below it."""
        return self._supervisor.pid

    async def prepare(self, progress: Callable[[str], None]) -> Reference:
        """Load the reference, make its inputs and expected outputs, and take the baselines.

        Parameters
        ----------
        progress
            Told in a few words what goes on.

        Raises
        ------
        BadInput
            There is no usable torch, the device is not there, or the file, class, inputs or forward pass
            fail; with path, line and cure.
        Fault
            The worker broke.
        """
        params = {
            "problem": to_wire(self._problem),
            "settings": to_wire(self._settings),
            "cache_dir": str(self._cache_dir),
            "folder": self._scratch,
        }
        async with self._turn:
            try:
                answer = await self._supervisor.request("prepare", params, limit_s=START_LIMIT_S, progress=progress)
            except WorkerTimeout as error:
                raise BadInput(
                    f"{error.step} took longer than {error.seconds:g} s.",
                    cure="Use smaller inputs, take slow work out of the file, or raise load_timeout_s.",
                    path=self._problem.path,
                    line=self._problem.class_span.start + 1,
                ) from error
        return _read(answer, Reference)

    async def analyze(self) -> dict[str, Any]:
        """Return the playbook's analysis of the reference, or `{"untraceable": {message, path, line}}`.

        Raises
        ------
        Fault
            The worker broke, or took too long.
        """
        answer = await self._ask("analyze", {}, self._settings.load_timeout_s)
        return dict(answer)

    async def evaluate(self, candidate: Candidate) -> Verdict:
        """Build, verify and time a candidate against eager; a bad candidate is a verdict, never an exception.

        Raises
        ------
        Fault
            The worker broke, or the machine lacks something every kernel needs, such as a compiler.
        """
        return await self._judge("evaluate", candidate, self._settings.rounds)

    async def confirm(self, candidate: Candidate) -> Verdict:
        """Judge once more in a fresh process, with more rounds, against eager and torch.compile.

        Raises
        ------
        Fault
            As for `evaluate`.
        """
        return await self._judge("confirm", candidate, self._settings.final_rounds)

    async def close(self) -> None:
        """Kill the worker and every process below it, and remove its files; safe to call twice."""
        await self._supervisor.close()
        await asyncio.to_thread(remove_scratch, self._scratch)

    async def _judge(self, method: str, candidate: Candidate, rounds: int) -> Verdict:
        s = self._settings
        # The worker holds a limit for each step; this one is for a worker that no longer does.
        steps = s.seeds + 3 * rounds + 10
        limit_s = s.build_timeout_s * 2 + s.compile_timeout_s + s.load_timeout_s + s.run_timeout_s * steps
        return _read(await self._ask(method, {"candidate": to_wire(candidate)}, limit_s), Verdict)

    async def _ask(self, method: str, params: dict[str, Any], limit_s: float) -> Any:
        async with self._turn:
            try:
                return await self._supervisor.request(method, params, limit_s=limit_s)
            except WorkerTimeout as error:
                raise Fault(
                    f"The worker did not answer within {error.seconds:g} s and was ended.",
                    cure="Start the run again; it resumes where it stood.",
                ) from error


def _read(answer: Any, kind: type[T]) -> T:
    """Read a worker's answer.

    Raises
    ------
    Fault
        It is not of that kind: worker and server are of different versions.
    """
    try:
        return from_wire(answer, kind)
    except (WireError, ValueError) as error:
        raise Fault(f"The worker's answer cannot be read: {error}.", cure="Reinstall stark-lsp.") from error


async def open_judge(
    problem: Problem,
    *,
    interpreter: str,
    settings: EvaluationSettings,
    cache_dir: Path,
    log: Callable[[str], None],
) -> WorkerJudge:
    """Start a worker for a problem.

    Parameters
    ----------
    interpreter
        Path of the Python that has the user's torch.
    cache_dir
        Builds are kept here between runs.
    log
        Told each line that the worker prints.

    Raises
    ------
    BadInput
        The interpreter cannot be run.
    """
    scratch = await asyncio.to_thread(make_scratch)
    supervisor = Supervisor(interpreter, _working_directory(problem.path), log)
    try:
        await supervisor.start()
    except BadInput:
        remove_scratch(scratch)
        raise
    return WorkerJudge(problem, settings, cache_dir, supervisor, scratch)


def _working_directory(path: str) -> str:
    """Return the project's root, the nearest existing folder if the file's own is gone."""
    folder = Path(path).absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    for place in (folder, *folder.parents):
        if any((place / mark).exists() for mark in ("pyproject.toml", "setup.py", "setup.cfg", ".git")):
            return os.fspath(place)
    return os.fspath(folder)
