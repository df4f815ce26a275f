"""Try a file as it would stand after an accept: load it in its place in the project, and compare its new class.

A candidate that is right as a file of its own may still break inside the user's file: by a name that means something
else there, or an import that is not reached. So the edited text is loaded in a confined process, as the module it is,
and its class is held against the reference on every case, as the candidate was.

The file's own top level runs in the sandbox here. Where the file as it was cannot be loaded there (it writes a log, it
reads a data set), nothing can be said of the edit, and that is what is said.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from ..correctness import ieee
from ..correctness.classify import Failed, Finding, asking
from ..correctness.verify import Verifier
from ..processes.pool import RUNNER
from ..processes.runners import RunnerProcess
from ..timing.problem_runners import loading
from ..transport import claims
from .asked import Asked
from .told import Told

if TYPE_CHECKING:
    from ..timing.problem_runners import Progress
    from .judging import Judge

LIMIT_S = 600.0
"""After so many seconds something other than the file must be broken."""
FILE = "document.py"


def check(judge: Judge, path: str, text: str, qualname: str, told: Told, progress: Progress) -> dict[str, Any]:
    """Load an edited file and compare its class with the reference.

    Parameters
    ----------
    path
        Where the text would stand: the document, or a new file beside it.
    text
        The whole file after the edit.

    Returns
    -------
    `core.EditCheck` in wire form.
    """
    progress("Trying the edited file", LIMIT_S)
    finding = _try(judge, path, text, qualname, told, compare=True)
    if finding is None:
        return _told(works=True)
    reference = judge.reference
    if finding.stage == "load" and path == reference.path:
        before = _try(judge, path, reference.text, reference.qualname, Told(reference.text), compare=False)
        if before is not None:
            message = f"The edited file could not be tried: it does not load in the sandbox. {before.message}"
            return _told(works=True, tried=False, message=message, line=before.line)
    return _told(works=False, message=f"Inside the file it fails. {finding.message}", line=finding.line)


def _told(*, works: bool, tried: bool = True, message: str = "", line: int | None = None) -> dict[str, Any]:
    return {"works": works, "tried": tried, "message": message, "line": line}


def _try(judge: Judge, path: str, text: str, qualname: str, told: Told, *, compare: bool) -> Finding | None:
    """Load a text as the file at `path`, with `compare` also hold its class against the reference."""
    judge.clear()
    runner = judge.pool.take(RUNNER)
    run_s, build_s = float(judge.settings["run_timeout_s"]), float(judge.settings["build_timeout_s"])
    asked = Asked(told, judge.builds, build_s)
    stage = "load"
    with contextlib.ExitStack() as ending:
        ending.callback(judge.pool.end, runner)
        ask = asking(runner, judge.settings, path)

        def what(one: RunnerProcess) -> dict[str, Any]:
            # As for a finalist, whose libraries are in the cache.
            one.builds = lambda request: asked.answer(one, {**request, "stock": True}, timed=False)
            how = loading(judge.reference, one, judge.threads)
            return {"path": one.files.write(FILE, text), "document": path, "qualname": qualname, **how}

        def without_tf32() -> list[torch.Tensor] | None:
            def load(one: RunnerProcess) -> None:
                one.ask("load_document", run_s=run_s, build_s=build_s, **what(one))

            # One that has to be started waits for its turn to work.
            working.close()
            another = judge.pool.take(RUNNER)
            ending.callback(judge.pool.end, another)
            working.enter_context(judge.bench.turns.working())
            return ieee.outputs_of(another, load, judge.reference, run_s)

        try:
            with contextlib.ExitStack() as working:
                working.enter_context(judge.bench.turns.working())
                answer = ask("load", "load_document", **what(runner))
                weights_message = claims.text(answer.get("weights_message"))
                stage = "verify"
                if compare:
                    Verifier(judge.reference, ask, runner, weights_message, without_tf32).run()
                    finding = asked.considered(Finding("OK", ""))
                    return None if finding.status == "OK" else finding
        except Failed as failure:
            finding = failure.finding
            finding.stage = stage
            return finding
    return None
