"""Try a file as it would stand after an accept: load it in its place in the project, and compare its new class.

A candidate that is right as a file of its own may still break inside the user's file: by a name that means something
else there, or an import that is not reached. So the edited text is loaded in a confined process, as the module it is,
and its class is held against the reference on every case, as the candidate was.

The file's own top level runs in the sandbox here. Where the file as it was cannot be loaded there (it writes a log, it
reads a data set), nothing can be said of the edit, and that is what is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..timing.problem_runners import Progress
from .attempt import Attempt
from .told import Told

if TYPE_CHECKING:
    from .judging import Judge

LIMIT_S = 600.0
"""After so many seconds something other than the file must be broken."""


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
    found = _tried(judge, path, text, qualname, told, "verify")
    if found["status"] == "OK":
        return _told(works=True)
    reference = judge.reference
    if found["failed_in"] != "verify" and path == reference.path:
        before = _tried(judge, path, reference.text, reference.qualname, Told(reference.text), "load")
        if before["status"] != "OK":
            message = f"The edited file could not be tried: it does not load in the sandbox. {before['message']}"
            return _told(works=True, tried=False, message=message, line=before["line"])
    return _told(works=False, message=f"Inside the file it fails. {found['message']}", line=found["line"])


def _told(*, works: bool, tried: bool = True, message: str = "", line: int | None = None) -> dict[str, Any]:
    return {"works": works, "tried": tried, "message": message, "line": line}


def _tried(judge: Judge, path: str, text: str, qualname: str, told: Told, until: str) -> dict[str, Any]:
    """Return the verdict on a text as the file at `path`, up to a stage."""
    candidate = {"source": text, "class_name": qualname}
    attempt = Attempt(judge, candidate, False, lambda *_: None, told, until=until, document=path)
    try:
        return attempt.run()
    finally:
        attempt.end()
