"""The judge as runs use it: a worker behind `core.roles.Judge`, started again when it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from stark_lsp.contract.scratch import make_scratch, remove_scratch
from stark_lsp.core.adjust import how_to_set
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault, Unusable
from stark_lsp.core.problem import Problem
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Baselines, EditCheck, Environment, Profile, Reference, Stage, Verdict
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.discovery.workspaces import project_root
from stark_lsp.evaluation.environment import folder_for_programs
from stark_lsp.evaluation.supervisor import Supervisor, WorkerState, WorkerTimeout
from stark_lsp.integrity import Reading, Refusal, read, told

T = TypeVar("T")
Tell = Callable[[str], None]
"""Told in a few words what goes on."""

READING = "Reading the candidate"
IMPORTING = "Importing torch"
"""A step whose limit is not ours to set."""
START_LIMIT_S = 30.0
"""For an interpreter to start and answer at all."""
COPIES = ("Memcpy", "Memset")
"""How launches begin that are no kernels."""
IN_VAIN = 2
"""Candidates without hardware counters after which no more are looked for: it takes seconds, and the driver says no."""


class WorkerJudge:
    """Judges candidates of one problem in a worker process, several at the same time if asked to.

    Made by `open_judge`; call `prepare` first and `close` last. A worker that dies fails one call under way with a
    `Fault`: one loss is told once. The next call, and those that were under way beside it, are judged by another
    worker, which is prepared again. What judges or times raises what `evaluate` does.

    Parameters
    ----------
    problem, settings, cache_dir
        As for `open_judge`.
    hire
        Returns a supervisor whose process is not started yet.
    notice
        Told what goes on while candidates are judged, for instance that the GPU is busy.
    """

    def __init__(
        self,
        problem: Problem,
        settings: EvaluationSettings,
        cache_dir: Path,
        hire: Callable[[], Supervisor],
        notice: Tell,
    ) -> None:
        self._problem = problem
        self._settings = settings
        self._cache_dir = cache_dir
        self._hire = hire
        self._notice = notice
        self._supervisor = hire()
        self._scratch = ""
        self._starting = asyncio.Lock()
        self._prepared = False
        self._environment: Environment | None = None
        self._closed = False
        self._under_way = 0
        self._told: Fault | None = None
        self._counted: dict[str, Profile] = {}
        """Hardware counters, by the candidate's digest."""

    @property
    def state(self) -> WorkerState:
        """Where the worker stands."""
        return self._supervisor.state

    @property
    def pid(self) -> int | None:
        """Process id of the worker's guard; everything else runs below it."""
        return self._supervisor.pid

    @property
    def under_way(self) -> int:
        """How many candidates are being judged."""
        return self._under_way

    async def start(self) -> None:
        """Start the worker's process.

        Raises
        ------
        BadInput
            The interpreter cannot be run.
        Fault
            There is no folder that programs may run from.
        """
        self._scratch = await asyncio.to_thread(self._make_scratch)
        try:
            await self._supervisor.start()
        except BaseException:
            await asyncio.shield(self.close())
            raise

    async def read(self, candidate: Candidate) -> Verdict | None:
        """Return the verdict on a candidate that fails already when it is read, before anything is prepared.

        Whether it parses is asked of the worker's Python, which may be another one than this.

        Raises
        ------
        Fault
            The worker broke.
        """
        reading, checked = await self._check(candidate)
        if reading.refusal is not None:
            return self._refused(reading.refusal, checked)
        params = {"source": candidate.source}
        error = await self._supervisor.request("parse", params, limit_s=START_LIMIT_S)
        if error["message"] is None:
            return None
        message = f"The candidate does not parse: {error['message']}."
        status, stage = VerdictStatus.LOAD_ERROR, Stage.LOAD
        return Verdict(status, message, error["line"], stages_s=(checked,), failed_in=stage)

    async def prepare(self, progress: Tell, *, writing: bool = False) -> Reference:
        """Load the reference, make its inputs and expected outputs, and take the baselines.

        Parameters
        ----------
        progress
            Told in a few words what goes on.
        writing
            Whether `written` will be asked: what that needs may then come up meanwhile.

        Raises
        ------
        BadInput
            There is no usable torch, the device is not there, nothing can keep candidates apart, or the file, class,
            inputs or forward pass fail; with path, line and cure.
        Fault
            The worker broke.
        """
        async with self._starting:
            return await self._prepare(progress, writing=writing)

    async def _prepare(self, progress: Tell, *, writing: bool = False) -> Reference:
        """Prepare the worker, or another one without special inputs where the class does not bear them."""
        try:
            return await self._prepare_worker(progress, writing=writing)
        except Unusable as error:
            why = error.message
        self._settings = replace(self._settings, special_inputs=False)
        progress("Starting another worker, without special inputs")
        await self._replace_worker()
        reference = await self._prepare_worker(progress, writing=writing)
        return replace(reference, notes=(*reference.notes, f"{why} Special inputs are left out."))

    async def _prepare_worker(self, progress: Tell, *, writing: bool) -> Reference:
        params = {
            "problem": to_wire(self._problem),
            "settings": to_wire(self._settings),
            "cache_dir": str(self._cache_dir),
            "folder": self._scratch,
            "writing": writing,
        }
        step = IMPORTING

        def told(text: str) -> None:
            nonlocal step
            step = text
            progress(text)

        try:
            answer = await self._supervisor.request("prepare", params, limit_s=START_LIMIT_S, progress=told)
        except WorkerTimeout as error:
            raise BadInput(
                f"{error.step} took longer than {error.seconds:g} s.",
                cure=self._more_time(error),
                path=self._problem.path,
                line=self._problem.class_span.start + 1,
            ) from error
        except (BadInput, Fault) as fault:
            if step == IMPORTING:
                self._supervisor.check_folder()
            if fault is not self._supervisor.loss or step == IMPORTING:
                raise
            raise BadInput(
                f"{self._problem.qualname} took its process down with it. {fault.message} It was at: {step}.",
                cure=f"See whether it runs on its inputs in a Python of its own. {fault.cure}",
                path=self._problem.path,
                line=self._problem.class_span.start + 1,
                details=fault.details,
            ) from fault
        reference = _read(answer, Reference)
        self._environment = reference.environment
        self._prepared = True
        return reference

    def _more_time(self, error: WorkerTimeout) -> str:
        """Return the cure for a step of preparing that took too long."""
        limit_s = self._settings.load_timeout_s
        if error.seconds != limit_s or error.step == IMPORTING:
            return "Use smaller inputs, or try again when the machine is less busy."
        more = how_to_set("load_timeout_s", f"{5 * limit_s:g}")
        return f"Use smaller inputs, take slow work out of the file, or give it more time: {more}."

    async def baselines(self) -> Baselines:
        """Have torch.compile make what was asked for, and return the times of the reference; finalists wait for it."""
        s = self._settings
        return _read(await self._ask("baselines", {}, 2 * s.compile_timeout_s + self._limit_s(s.rounds)), Baselines)

    async def analyze(self) -> dict[str, Any]:
        """Return the playbook's analysis of the reference, or `{"untraceable": {message, path, line}}`.

        Raises
        ------
        Fault
            The worker broke, or took too long.
        """
        return dict(await self._ask("analyze", {}, self._settings.load_timeout_s))

    async def written(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """Return the program that torch.compile writes, or that Inductor writes by a recipe; `none` says why not.

        Parameters
        ----------
        recipe
            See `judge/analysis/inductor.program`.

        Raises
        ------
        Fault
            The worker broke, or took too long.
        """
        s = self._settings
        return dict(await self._ask("written", {"recipe": recipe}, s.compile_timeout_s + s.load_timeout_s + 60.0))

    async def evaluate(self, candidate: Candidate) -> Verdict:
        """Read, build, verify and time a candidate against eager; a bad one is a verdict, never an exception.

        What the static check refuses is never sent to the worker.

        Raises
        ------
        BadInput
            The worker had to be started again and the problem can no longer be prepared.
        Fault
            The worker broke, or the machine lacks something every kernel needs, such as a compiler.
        """
        return await self._judge("evaluate", candidate, self._settings.rounds)

    async def glance(self, candidate: Candidate) -> Verdict:
        """Run a candidate on one case and time it in few rounds; nothing is told of its steps."""
        return await self._judge("evaluate", candidate, self._settings.rounds, until="glance", tell=lambda text: None)

    async def try_out(self, candidate: Candidate, until: Stage | None = None) -> Verdict:
        """Do the same up to a stage and no further, for its author to see: what is `OK` then is not verified yet.

        Parameters
        ----------
        until
            `BUILD` calls it once and compares nothing, `VERIFY` times nothing, `TIME` takes no profile.
        """
        return await self._judge("evaluate", candidate, self._settings.rounds, until=until.value if until else "")

    async def confirm(self, candidate: Candidate, *, tools: bool = True) -> Verdict:
        """Judge once more in a fresh process, with more rounds, against eager and what torch.compile makes.

        Parameters
        ----------
        tools
            Build it as stock torch does and, where the settings ask for them and a GPU is used, run it under the memory
            checker and the reader of hardware counters as well.
        """
        return await self._judge("confirm", candidate, self._settings.final_rounds, tools=tools)

    async def counted(self, candidate: Candidate, verdict: Verdict) -> Verdict:
        """Return the verdict with hardware counters of its longest kernel, read once for a source.

        Without them where the settings do not ask for any, the profile has no kernel, or the last ones could not be
        read either; its notes say what failed.

        Raises
        ------
        Fault
            The worker broke, or took too long.
        """
        profile, where = verdict.profile, verdict.environment
        on_gpu = where is not None and where.device_type == "cuda"
        if profile is None or profile.metrics or not (self._settings.counters and verdict.ok and on_gpu):
            return verdict
        kernel = next((one.name for one in profile.launched if not one.name.startswith(COPIES)), "")
        in_vain = sum(not one.metrics for one in self._counted.values()) >= IN_VAIN
        found = self._counted.get(candidate.digest)
        if not kernel or (found is None and in_vain):
            return verdict
        if found is None:
            found = self._counted[candidate.digest] = await self._count(candidate, kernel)
        return replace(verdict, profile=replace(profile, metrics=found.metrics, notes=(*profile.notes, *found.notes)))

    async def _count(self, candidate: Candidate, kernel: str) -> Profile:
        self._under_way += 1
        try:
            known = await asyncio.to_thread(told, candidate.source)
            params = {"candidate": to_wire(candidate), "told": to_wire(known), "kernel": kernel}
            return _read(await self._ask("counters", params, self._limit_s(2) * self._under_way), Profile)
        finally:
            self._under_way -= 1

    async def check_edit(self, path: str, text: str, qualname: str) -> EditCheck:
        """Load a file as it would stand after an accept, and hold its class against the reference.

        Parameters
        ----------
        path
            Where the text would stand: the document itself, or a new file beside it.
        text
            The whole file after the edit.
        qualname
            The class that the edit brings.
        """
        known = await asyncio.to_thread(told, text)
        params = {"path": path, "text": text, "qualname": qualname, "told": to_wire(known)}
        return _read(await self._ask("check_edit", params, self._limit_s(self._settings.seeds + 10)), EditCheck)

    async def close(self) -> None:
        """Kill the worker and every process below it, and remove its files; safe to call twice."""
        self._closed = True
        await self._supervisor.close()
        if self._scratch:
            await asyncio.to_thread(remove_scratch, self._scratch)

    async def _judge(
        self,
        method: str,
        candidate: Candidate,
        rounds: int,
        *,
        tools: bool = False,
        until: str = "",
        tell: Tell | None = None,
    ) -> Verdict:
        tell = tell or self._notice
        limit_s = self._limit_s(self._settings.seeds + 3 * rounds + 10)
        self._under_way += 1
        try:
            tell(READING)
            reading, checked = await self._check(candidate)
            if reading.refusal is not None:
                return self._refused(reading.refusal, checked)
            # Those before it may have to end first; each word from the worker sets a limit of its own.
            params = {"candidate": to_wire(candidate), "told": to_wire(reading.told), "tools": tools}
            params["until"] = until
            verdict = _read(await self._ask(method, params, limit_s * self._under_way, tell), Verdict)
            notes = tuple(dict.fromkeys([*(note.message for note in reading.notes), *verdict.notes]))
            return replace(verdict, notes=notes, stages_s=(checked, *verdict.stages_s))
        finally:
            self._under_way -= 1

    async def _check(self, candidate: Candidate) -> tuple[Reading, tuple[str, float]]:
        """Read a candidate; returns what was found, and the stage with its seconds."""
        begin = time.monotonic()
        problem = self._problem
        where = self._environment
        lower = where is not None and bool(where.autocast or where.weights_dtype)
        given = (candidate.source, candidate.class_name, problem.text, problem.qualname)
        reading = await asyncio.to_thread(read, *given, lower=lower)
        return reading, (Stage.CHECK.value, time.monotonic() - begin)

    def _refused(self, refusal: Refusal, checked: tuple[str, float]) -> Verdict:
        return Verdict(
            VerdictStatus.REFUSED,
            refusal.message,
            refusal.line,
            environment=self._environment,
            stages_s=(checked,),
            failed_in=Stage.CHECK,
        )

    def _limit_s(self, steps: int) -> float:
        """Return a limit for so many runs; the worker holds one for each step, this is for one that no longer does."""
        s = self._settings
        compile_s = s.compile_timeout_s * (2 if s.max_autotune else 1)
        return s.build_timeout_s * 2 + compile_s + s.load_timeout_s + s.run_timeout_s * steps

    async def _ask(self, method: str, params: dict[str, Any], limit_s: float, tell: Tell | None = None) -> Any:
        while True:
            async with self._starting:
                if self._prepared and self.state is WorkerState.DEAD and not self._closed:
                    await self._start_again()
                supervisor = self._supervisor
            try:
                return await supervisor.request(method, params, limit_s=limit_s, progress=tell or self._notice)
            except WorkerTimeout as error:
                self._told = error.fault
                raise error.fault from error
            except Fault as fault:
                # All who waited for a lost worker are given the same fault; the first one here tells it.
                if fault is not supervisor.loss or fault is not self._told:
                    self._told = fault
                    raise

    async def _start_again(self) -> None:
        """Put a fresh worker, prepared as the lost one was, in its place."""
        self._notice("The worker was lost; starting another one")
        try:
            await self._replace_worker()
            await self._prepare(lambda text: self._notice(f"Starting the worker again: {text}"))
        except BaseException:
            # Half prepared it is of no use; the next call starts yet another one.
            await asyncio.shield(self._supervisor.abandon())
            raise

    def _make_scratch(self) -> str:
        return make_scratch(folder_for_programs(self._cache_dir.parent))

    async def _replace_worker(self) -> None:
        """Start a fresh worker, in a fresh folder, once nothing of the old one runs."""
        await self._supervisor.close()
        old, self._scratch = self._scratch, await asyncio.to_thread(self._make_scratch)
        await asyncio.to_thread(remove_scratch, old)
        self._supervisor = self._hire()
        if self._closed:
            await self.close()
        await self._supervisor.start()


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
    notice: Tell = lambda text: None,
    variables: Mapping[str, str] | None = None,
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
    notice
        Told what goes on while candidates are judged: "GPU busy: queued, 2 ahead", a worker started again.
    variables
        Environment variables that the worker is given on top, for instance which GPU it sees.

    Raises
    ------
    BadInput
        The interpreter cannot be run.
    """
    folder = str(project_root(Path(problem.path)))
    judge = WorkerJudge(problem, settings, cache_dir, lambda: Supervisor(interpreter, folder, log, variables), notice)
    await judge.start()
    return judge
