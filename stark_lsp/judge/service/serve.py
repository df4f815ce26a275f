"""The worker's main loop: one request after another from the server."""

from __future__ import annotations

import ast
import contextlib
import os
import platform
import queue
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ...contract import imports, process_trees
from ...contract.errors import Bad, Broken, Reported, broken, describe, full_text
from ...contract.frames import Channel, ChannelClosed, ChannelDamaged, take_private_pipes
from ...contract.prctl import adopt_orphans, hide_memory
from ...contract.scratch import remove_scratch
from . import early
from .told import Told

ENDINGS_S = 0.5
"""Longest wait, once nothing more can be asked, for the end of a candidate that was judged a moment ago."""
JUDGING = ("evaluate", "confirm", "check_edit", "counters")
"""Requests that are about one candidate; several of them are worked on at the same time."""
OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (2, 4)


def main() -> None:
    """Serve the server until it closes the pipe or dies."""
    adopt_orphans()
    # The expected outputs are in this process; where no sandbox works, a candidate runs beside it.
    hide_memory()
    channel = Channel(*take_private_pipes())
    Worker(channel).run()


@dataclass(eq=False)
class Worker:
    """Reads requests in a thread, so that the end of the server is noticed in the midst of any work."""

    channel: Channel
    """The pipe to the server."""

    def __post_init__(self) -> None:
        self._requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._folder = ""
        self._judge: Any | None = None
        self._trial: Any | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._writing: int | None = None
        self._compiling: int | None = None
        self._cancelled: set[int] = set()

    def run(self) -> None:
        """Answer requests, candidates several at a time; never returns."""
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            request = self._requests.get()
            if self._threads is not None and request.get("method") in JUDGING:
                self._threads.submit(self._answer, request)
            elif request.get("method") == "baselines":
                threading.Thread(target=self._answer, args=(request,), name="stark-baselines", daemon=True).start()
            else:
                self._answer(request)

    def _answer(self, request: dict[str, Any]) -> None:
        """Carry out one request and send what came of it."""
        number = request.get("id")
        lost = False
        try:
            answer: dict[str, Any] = {"id": number, "result": self._handle(request)}
        except Reported as error:
            answer = {"id": number, "error": error.to_wire()}
        except BaseException as error:  # noqa: BLE001 - reported to the server as a fault
            answer = {"id": number, "error": broken(error, self._folder).to_wire()}
            # An error of a kernel stays until the process ends: it can use its GPU no more.
            lost = isinstance(error, RuntimeError) and "CUDA error" in str(error)
        try:
            self.channel.send(answer)
        except ChannelClosed:
            lost = True
        if lost:
            self._end()

    def _read(self) -> None:
        """Queue what comes; when nothing can come any more, end everything."""
        while True:
            try:
                message = self.channel.receive()
                if "cancel" in message:
                    self._cancel(message["cancel"])
                else:
                    self._requests.put(message)
            except (ChannelClosed, ChannelDamaged):
                self._end()
            except BaseException:  # noqa: BLE001 - told in the log; the server notices the end
                # Nothing could be asked of this worker any more.
                traceback.print_exc()
                self._end()

    def _cancel(self, number: int) -> None:
        """Give up what torch.compile writes or makes, which can take minutes; all else is let finish."""
        self._cancelled.add(number)
        if self._judge is not None and number == self._writing:
            self._judge.writer.give_up()
        if self._judge is not None and number == self._compiling:
            self._judge.bench.give_up_compiling()

    def _end(self) -> None:
        """Kill every process below, remove the private folder, exit at once."""
        if self._judge is not None:
            # What the last candidate had compiled is kept for its next judgement.
            with contextlib.suppress(Exception):
                self._judge.pool.await_ends(ENDINGS_S)
        process_trees.kill_below(os.getpid())
        if self._folder:
            remove_scratch(self._folder)
        os._exit(0)

    def _handle(self, request: dict[str, Any]) -> Any:
        """Carry out one request."""
        method, params = request.get("method"), request.get("params") or {}
        number = request.get("id")

        def progress(text: str, limit_s: float) -> None:
            self.channel.send({"id": number, "progress": text, "limit_s": limit_s})

        if method == "prepare":
            return self._prepare(params, progress)
        if method == "parse":
            return parse(params["source"])
        if method in ("try_class", "try_inputs"):
            return self._try(method, params, progress)
        if self._judge is None:
            raise Broken("The worker was asked to judge before it was prepared.")
        if method == "baselines":
            self._compiling = number
            if number in self._cancelled:
                self._judge.bench.give_up_compiling()
            return self._judge.baselines(progress)
        if method == "analyze":
            return self._judge.analyze(progress)
        if method == "written":
            self._writing = number
            return self._judge.written(params["recipe"], progress, lambda: number in self._cancelled)
        if method == "check_edit":
            told = Told.read(params["told"])
            return self._judge.check_edit(params["path"], params["text"], params["qualname"], told, progress)
        if method == "counters":
            told = Told.read(params["told"])
            return self._judge.count(params["candidate"], str(params["kernel"]), progress, told)
        if method in JUDGING:
            tools = bool(params.get("tools"))
            told = Told.read(params["told"])
            final = method == "confirm"
            until = str(params.get("until") or "")
            return self._judge.judge(params["candidate"], final, progress, told=told, tools=tools, until=until)
        raise Broken(f"The worker does not know the request {method!r}.")

    def _try(self, method: str, params: dict[str, Any], progress: Any) -> Any:
        """Load a class to try inputs for, or try some; nothing is judged by such a worker."""
        if method == "try_inputs":
            if self._trial is None:
                raise Broken("The worker was asked to try inputs before it was given a class.")
            return self._trial.attempt(params["init"], params["inputs"], params["mode"])
        progress("Importing torch", 120.0)
        with imports.uncollected():
            require_torch()
            from ..inputs.trial import Trial

        progress("Loading the file", float(params["limit_s"]))
        self._trial = Trial(params["path"], params["text"], params["qualname"], params["device"])
        return {}

    def _prepare(self, params: dict[str, Any], progress: Any) -> Any:
        self._folder = params["folder"]
        # What the interpreter keeps beside its own program (ninja, for one) is found without activation.
        os.environ["PATH"] = os.pathsep.join(filter(None, [os.path.dirname(sys.executable), os.environ.get("PATH")]))
        progress("Importing torch", 120.0)
        cache_dir, writing = params["cache_dir"], bool(params.get("writing"))
        given = params["problem"], params["settings"], self._folder, cache_dir
        begun = early.begun(*given, writing=writing)
        with imports.uncollected():
            require_torch()
            from .judging import Judge

        self._judge = Judge(*given, progress, writing=writing, begun=begun)
        self._threads = ThreadPoolExecutor(self._judge.parallel, thread_name_prefix="stark-attempt")
        return self._judge.describe()


def parse(source: str) -> dict[str, Any]:
    """Return why this Python cannot parse a source, and the line; None if it can."""
    # What else there is against it is told to whoever loads it.
    with contextlib.suppress(ValueError, RecursionError, MemoryError):
        try:
            ast.parse(source)
        except SyntaxError as error:
            return {"message": error.msg, "line": error.lineno}
    return {"message": None}


def require_torch() -> None:
    """Import torch.

    Raises
    ------
    Bad
        This interpreter is too old, or has no torch, or a broken or too old one.
    """
    python = f"{sys.executable} (Python {platform.python_version()})"
    if sys.version_info < OLDEST_PYTHON:
        raise Bad(f"{python} is too old: Python 3.9 is needed.", "Choose a newer interpreter.")
    try:
        import torch
    except (ImportError, OSError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            cure = (
                "Choose your project's interpreter: --python PATH, in an editor the setting stark.interpreter. Or "
                f"install torch for this one: {sys.executable} -m pip install torch."
            )
            raise Bad(f"There is no torch in {python}.", cure) from error
        cure = "Reinstall torch for that interpreter, or choose another one."
        message = f"torch cannot be imported by {python}: {describe(error)}."
        raise Bad(message, cure, details=full_text(error)) from error
    version = tuple(int(part) for part in str(torch.__version__).split("+")[0].split(".")[:2])
    if version < OLDEST_TORCH:
        raise Bad(f"torch {torch.__version__} of {python} is too old: torch 2.4 is needed.", "Upgrade torch there.")
