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

from ..correctness.classify import Failed, Finding, asking
from ..correctness.verify import Verifier
from ..processes.pool import RUNNER
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
    qualname
        The class that the edit brings.
    told
        What the server read in the text.

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
    asked = Asked(told, judge.builds, float(judge.settings["build_timeout_s"]))
    stage = "load"
    with contextlib.ExitStack() as ending:
        ending.callback(judge.pool.end, runner)
        # As for a finalist, whose libraries are in the cache.
        runner.builds = lambda request: asked.answer(runner, {**request, "stock": True}, timed=False)
        ask = asking(runner, judge.settings, path)
        try:
            with judge.bench.turns.working():
                place, how = runner.files.write(FILE, text), loading(judge.reference, runner, judge.threads)
                answer = ask("load", "load_document", path=place, document=path, qualname=qualname, **how)
                weights_message = claims.text(answer.get("weights_message"))
                stage = "verify"
                if compare:
                    Verifier(judge.reference, ask, runner, weights_message).run()
                    finding = asked.considered(Finding("OK", ""))
                    return None if finding.status == "OK" else finding
        except Failed as failure:
            finding = failure.finding
            finding.stage = stage
            return finding
    return None
