"""The tools. Each reads what was named, has the work done, and returns an answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field

from stark_lsp.cli.terminal.failures import Log, as_stark_error
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.phrases import STATUS
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import WriteMode
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.mcp import answers
from stark_lsp.mcp.answers import Answer
from stark_lsp.mcp.work import Tell, Work
from stark_lsp.mcp.workspace import Workspace
from stark_lsp.runs.judging import judge_once, opened
from stark_lsp.runs.options import DEFAULT_DOLLARS, RunOptions

INSTRUCTIONS = """\
Makes PyTorch nn.Module classes faster, and tells whether a faster version is right. `profile` shows where the time
of a class goes; `judge` checks and times a version that you wrote; `optimize` searches by itself in the background,
`runs` shows how far it is, and `proposal` gives the result as a diff. No tool changes a file of the user: apply what
was verified yourself, and say by how much it is faster, with the interval.

A reference is FILE or FILE::Class, a Python file with the class and its example inputs (get_inputs(), and
get_init_inputs() for constructor arguments; get_inputs_for_Class() where a file has several). A candidate is one
self-contained file with a class ModelNew: the same constructor, forward and state_dict as the reference's class."""

LONGEST_WAIT_S = 50
"""Seconds that `runs` may wait: some clients give up on a call after a minute."""

T = TypeVar("T", bound=Callable[..., Any])
Call = Context[Any, Any]
Reference = Annotated[str, Field(description="FILE or FILE::Class of the original, in the workspace")]
Device = Annotated[Literal["auto", "cpu", "cuda"], Field(description="where to run; auto is a GPU if there is one")]
RunId = Annotated[str, Field(description="id of a run; its first characters are enough")]

RUNS_CODE = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


@dataclass(frozen=True)
class Setup:
    """What the user decided when they set the server up; a coding agent cannot change it."""

    evaluation: EvaluationSettings
    interpreter: str | None = None
    """The Python that has torch; None finds the project's."""
    model: str = "playbook"
    """Who answers as the agents of a run."""
    dollars: float | None = None
    """What one run may spend on a language model."""
    notes: bool = True
    """Whether a run takes along what earlier ones left."""


@contextmanager
def told() -> Iterator[None]:
    """Let an error be told to the model, with its cure."""
    try:
        yield
    except Exception as error:
        raise ToolError(str(as_stark_error(error))) from error


def register(server: MCPServer[Any], workspace: Workspace, work: Work, setup: Setup, log: Log) -> None:
    """Add the tools to a server."""

    def tool(hints: ToolAnnotations) -> Callable[[T], T]:
        def add(function: T) -> T:
            server.add_tool(function, description=inspect.getdoc(function), annotations=hints)
            return function

        return add

    def how(problem: Problem, settings: EvaluationSettings) -> dict[str, Any]:
        found = find_interpreter(setup.interpreter, problem.path, (str(workspace.root),))
        log(f"Python: {found}")
        return {"interpreter": found.path, "settings": settings, "log": log}

    @tool(RUNS_CODE)
    async def judge(
        reference: Reference,
        candidate: Annotated[str, Field(description="FILE or FILE::Class, or the whole source, with a class ModelNew")],
        context: Call,
        device: Device = "auto",
        torch_compile: Annotated[bool, Field(description="time it against torch.compile too; takes longest")] = True,
    ) -> Answer:
        """Check a candidate against the class it stands in for, and time it.

        It is built and run in a sandbox, compared with the reference on several inputs and moved weights, and timed in
        turns with eager PyTorch and torch.compile. Answers its status (OK, or the one thing that is wrong with it, with
        message, line and compiler errors), error figures, speed-ups with 95 % intervals, and notes. A speed-up is real
        only where its whole interval lies above 1.
        """
        with told():
            problem = await asyncio.to_thread(workspace.problem, reference, device)
            given = await asyncio.to_thread(workspace.candidate, candidate)
            final = torch_compile and setup.evaluation.compile_baseline
            options = await asyncio.to_thread(
                how, problem, replace(setup.evaluation, compile_baseline=final, counters=False)
            )
            known, verdict = await work.follow(
                context, lambda tell: judge_once(problem, given, final=final, tools=False, tell=tell, **options)
            )
            return answers.of_verdict(known, verdict)

    @tool(RUNS_CODE)
    async def profile(
        reference: Reference,
        context: Call,
        candidate: Annotated[
            str, Field(description="look at this one instead: FILE or FILE::Class, or the whole source")
        ] = "",
        device: Device = "auto",
    ) -> Answer:
        """Show what one call of the reference, or of a candidate for it, does on this machine.

        Its time; the kernels it launches (on a CPU, operators) with the time of each; launch overhead on a GPU; how
        much has to be moved and computed, how close it comes to what the device can do, and what limits it. Of a
        candidate's longest kernel also hardware counters, where the driver permits them.
        """

        async def look(tell: Tell) -> CallToolResult:
            async with opened(problem, tell=tell, **options) as judge:
                known = await judge.prepare(tell)
                if given is None:
                    if known.profile is None:
                        raise Fault("The reference could not be profiled.", cure="Try again.")
                    what = f"{problem.qualname} in eager PyTorch"
                    return answers.of_profile(what, known.baselines.eager, known.profile, known.environment)
                verdict = await judge.counted(given, await judge.evaluate(given))
                if verdict.runtime is None or verdict.profile is None:
                    why = f"The candidate has no profile ({STATUS[verdict.status]}). {verdict.message}".strip()
                    raise BadInput(why, cure="The tool judge tells more.")
                where = verdict.environment or known.environment
                return answers.of_profile(given.class_name, verdict.runtime, verdict.profile, where)

        with told():
            problem = await asyncio.to_thread(workspace.problem, reference, device)
            given = await asyncio.to_thread(workspace.candidate, candidate) if candidate else None
            settings = replace(setup.evaluation, compile_baseline=False, profile=True)
            options = await asyncio.to_thread(how, problem, settings)
            return await work.follow(context, look)

    @tool(RUNS_CODE)
    async def optimize(
        reference: Reference,
        context: Call,
        attempts: Annotated[int, Field(ge=1, description="attempts to make at most")] = 30,
        time_limit_s: Annotated[
            float | None,
            Field(gt=0, description="stop after so many seconds; what is being judged is judged to its end"),
        ] = None,
        device: Device = "auto",
    ) -> Answer:
        """Start a search for a faster implementation of a class, and leave it to go on in the background.

        Answers with the run's id once the class was loaded and timed. An unfinished run on the same class is gone on
        with. Then use `runs` with the id and wait_s until its state is finished, and `proposal`.
        """
        with told():
            problem = await asyncio.to_thread(workspace.problem, reference, device)
            options = RunOptions(
                model=setup.model,
                budget=Budget(attempts, time_limit_s, dollars=setup.dollars),
                default_dollars=DEFAULT_DOLLARS,
                search=SearchSettings(attempts=attempts),
                evaluation=setup.evaluation,
                agents=AgentSettings(notes=setup.notes),
                interpreter=setup.interpreter,
                resume=True,
                write_mode=WriteMode.BESIDE,
            )
            session = await work.follow(context, lambda tell: work.begin(problem, options, tell))
            begun = "Going on with" if session.resumed else "Started"
            said = f'{begun} run {session.id}. Look with runs(run="{session.id}", wait_s=45) until it is finished.'
            stored = await asyncio.to_thread(workspace.run, session.id)
            return answers.of_run(stored, workspace.store, said, resumed=session.resumed)

    @tool(LOOKS)
    async def runs(
        context: Call,
        run: Annotated[str, Field(description="id of the run to show; without one, runs are listed")] = "",
        wait_s: Annotated[
            float, Field(ge=0, le=LONGEST_WAIT_S, description="with run: wait so long for its end")
        ] = 0.0,
        limit: Annotated[int, Field(ge=1, description="list this many of the newest")] = 20,
    ) -> Answer:
        """List the runs on files of this workspace, or show one: its state, its tree of attempts, the best so far."""
        with told():
            if not run:
                return answers.of_runs(await asyncio.to_thread(workspace.runs, limit))
            found = (await asyncio.to_thread(workspace.run, run)).run.id
            await work.follow(context, lambda tell: work.wait(found, wait_s))
            doing = work.doing if work.session is not None and work.session.id == found else ""
            stored = await asyncio.to_thread(workspace.run, found)
            return answers.of_run(stored, workspace.store, f"Now: {doing}" if doing else "", doing=doing)

    @tool(LOOKS)
    def proposal(
        run: RunId,
        write: Annotated[
            Literal["beside", "replace", "module"],
            Field(description="the new class after the original, in its place, or in a new file"),
        ] = "beside",
    ) -> Answer:
        """Show the best verified candidate of a finished run: as an edit of its file (a unified diff), as a source, and
        with its evidence. Nothing is written.
        """
        with told():
            stored = workspace.run(run)
            if stored.run.best is None:
                raise BadInput(
                    f"Run {stored.run.id} has no proposal.",
                    cure="The tool runs tells what came of it; one that goes on proposes at its end.",
                )
            best = stored.nodes[stored.run.best]
            return answers.of_proposal(stored.run, stored.nodes, best, WriteMode(write), workspace.store)

    @tool(RUNS_CODE)
    async def cancel(run: RunId) -> Answer:
        """End a run that `optimize` started. Its attempts are kept: optimizing the class again goes on from there."""
        with told():
            found = (await asyncio.to_thread(workspace.run, run)).run.id
            await work.cancel(found)
            return answers.of_run(await asyncio.to_thread(workspace.run, found), workspace.store, "")
