"""What a child does all its life: answer the judge. Imports no torch, which takes seconds, until it is ready to."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable
from typing import Any

from ...contract import imports
from ...contract.errors import cut, full_text
from ...contract.frames import Channel, ChannelClosed, take_private_pipes
from ...contract.prctl import die_with_parent


def serve(ready: Callable[[Channel], Callable[[dict[str, Any]], Any]]) -> None:
    """Answer the judge's requests until it closes the pipe.

    Parameters
    ----------
    ready
        Does what takes most of a child's start, before it is needed, and returns what carries out a request.
    """
    die_with_parent()
    # When memory runs out, this process is to go before the editor does.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    channel = Channel(*take_private_pipes())
    with imports.uncollected():
        handle = ready(channel)
    channel.send({"ready": True})
    while True:
        try:
            request = channel.receive()
        except ChannelClosed:
            os._exit(0)
        channel.nonce = request.pop("nonce")
        try:
            answer = {"result": handle(request)}
        except BaseException as error:  # noqa: BLE001 - reported to the judge, which decides what it means
            answer = {"error": report(error)}
        channel.send(answer)


def report(error: BaseException) -> dict[str, Any]:
    """Return an exception as JSON values: its types, text, and the lines it came through."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain and len(chain) < 8:
        chain.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    trace = traceback.extract_tb(error.__traceback__)[-50:]
    syntax = error if isinstance(error, SyntaxError) else None
    return {
        "types": [cls.__name__ for cls in type(error).__mro__],
        "text": cut(safe_text(error), 20000),
        "causes": [{"type": type(item).__name__, "text": cut(safe_text(item), 20000)} for item in chain[1:]],
        "frames": [{"path": frame.filename, "line": frame.lineno, "name": frame.name} for frame in trace],
        "syntax": {"path": syntax.filename or "", "line": syntax.lineno or 0} if syntax else None,
        "traceback": full_text(error),
    }


def safe_text(error: BaseException) -> str:
    """Return `str(error)` even if the class's own `__str__` raises."""
    try:
        return str(error)
    except Exception as inner:  # noqa: BLE001 - the text says so
        return f"(its text cannot be read: {type(inner).__name__})"
