"""Start a worker, talk to it in frames, notice its end, and end it with all that is below it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from stark_lsp.contract import errors
from stark_lsp.contract.frames import HEADER, MAX_FRAME
from stark_lsp.contract.prctl import hide_memory
from stark_lsp.contract.process_trees import kill_tree
from stark_lsp.core.errors import BadInput, Degenerate, Fault, Unusable
from stark_lsp.evaluation.compilers import compiler_variables
from stark_lsp.evaluation.environment import worker_environment
from stark_lsp.evaluation.processes import kill_marked

LOG_LIMIT = 1 << 20
"""Bytes of the worker's output that are logged; the rest is read and dropped."""
TAIL_LINES = 30
MARK = "STARK_WORKER"
"""Variable by which everything that a worker starts can be told from everything else."""
GRACE_S = 10.0
"""What the server waits at most beyond the limit of a step; less for a short one."""


class WorkerState(Enum):
    """Where a worker stands."""

    STARTING = "starting"
    """Its process was started and has not answered yet."""
    IDLE = "idle"
    """It waits for a request."""
    BUSY = "busy"
    """It works on a request."""
    CLOSED = "closed"
    """It was ended by us."""
    DEAD = "dead"
    """Its process ended by itself, or had to be ended because it passed a limit."""


class WorkerTimeout(Exception):
    """A step of the worker passed its limit; the worker was killed.

    Parameters
    ----------
    step
        What it was doing.
    seconds
        The limit.
    fault
        What everybody else who waited for this worker is told.
    """

    def __init__(self, step: str, seconds: float, fault: Fault) -> None:
        super().__init__(f"{step}: more than {seconds:g} s")
        self.step = step
        self.seconds = seconds
        self.fault = fault


class Supervisor:
    """One worker process.

    Parameters
    ----------
    interpreter
        Path of the Python that runs it.
    folder
        Its working directory.
    log
        Told each line the worker, or code it runs, prints.
    variables
        Environment variables it is given besides those it may see of ours.
    """

    def __init__(
        self,
        interpreter: str,
        folder: str,
        log: Callable[[str], None],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._interpreter = interpreter
        self._folder = folder
        self._log = log
        self._variables = dict(variables or {})
        self._held: int | None = None
        """The folder, held open: a new one of its name would not be told from it by its number."""
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[int, asyncio.Queue[dict[str, Any] | Fault]] = {}
        self._number = 0
        self._tail: list[str] = []
        self._ended = asyncio.Event()
        self._life = asyncio.Lock()
        self._fault: Fault | None = None
        self._mark = secrets.token_hex(16)
        self._swept = False
        self.state = WorkerState.STARTING

    async def start(self) -> None:
        """Start the process.

        Raises
        ------
        BadInput
            The interpreter cannot be run.
        Fault
            It was closed before it was started, or its folder is gone.
        """
        async with self._life:
            if self.state is WorkerState.CLOSED:
                raise self._end_fault()
            await self._spawn()

    async def _spawn(self) -> None:
        main = Path(__file__).resolve().parent.parent / "judge" / "__main__.py"
        hide_memory()
        try:
            self._held = os.open(self._folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
            self._process = await asyncio.create_subprocess_exec(
                self._interpreter,
                "-u",
                str(main),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env={
                    **worker_environment(os.environ),
                    **compiler_variables(os.environ, self._interpreter),
                    **self._variables,
                    MARK: self._mark,
                },
                cwd=self._folder,
            )
        except OSError as error:
            self.state = WorkerState.DEAD
            if not os.path.isdir(self._folder):
                raise self._removed() from error
            raise BadInput(
                f"The interpreter {self._interpreter} cannot be run: {error.strerror or error}.",
                cure="Choose another interpreter.",
            ) from error
        self._tasks = [
            asyncio.create_task(self._read_frames(), name="stark-worker-frames"),
            asyncio.create_task(self._read_log(), name="stark-worker-log"),
        ]

    @property
    def loss(self) -> Fault | None:
        """Why the worker died, None while it lives and when it was closed."""
        return self._fault if self.state is WorkerState.DEAD else None

    @property
    def pid(self) -> int | None:
        """Process id of the worker's guard."""
        return None if self._process is None else self._process.pid

    def check_folder(self) -> None:
        """Raise a fault if the worker's folder was removed: whatever failed in it did so for that."""
        if self._held is not None and os.fstat(self._held).st_nlink == 0:
            raise self._removed()

    def _removed(self) -> Fault:
        return Fault(
            f"The folder {self._folder} was removed or replaced while the run started.", cure="Start it again."
        )

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        limit_s: float,
        progress: Callable[[str], None] | None = None,
    ) -> Any:
        """Send one request and return its result; several may be under way at the same time.

        Parameters
        ----------
        limit_s
            Seconds until the worker must answer or tell of progress; each progress message brings the limit of the
            step it tells of.
        progress
            Told what the worker begins.

        What nobody waits for any more is cancelled in the worker as well, as far as that is worth it.

        Raises
        ------
        BadInput, Fault
            As the worker reports them, or because it ended: then everyone who waits is given the same `Fault` object,
            so that one loss counts as one.
        WorkerTimeout
            A step passed its limit; the worker is dead now.
        """
        process = self._process
        if process is None or process.stdin is None or self.state in (WorkerState.CLOSED, WorkerState.DEAD):
            raise self._end_fault()
        self._number += 1
        number = self._number
        answers = self._waiting[number] = asyncio.Queue()
        self.state = WorkerState.BUSY
        step, stated = method, limit_s
        try:
            _send(process.stdin, {"id": number, "method": method, "params": params})
            with contextlib.suppress(ConnectionError):
                await process.stdin.drain()
            while True:
                try:
                    message = await asyncio.wait_for(answers.get(), limit_s)
                except asyncio.TimeoutError:
                    fault = self._give_up(stated)
                    await self.kill()
                    raise WorkerTimeout(step, stated, fault) from None
                if isinstance(message, Fault):
                    raise message
                if "progress" in message:
                    step = str(message["progress"])
                    stated = float(message["limit_s"])
                    limit_s = stated + min(GRACE_S, 1.0 + stated / 10)
                    if progress is not None:
                        progress(step)
                    continue
                if "error" in message:
                    raise _reported(message["error"])
                return message["result"]
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError, RuntimeError):
                _send(process.stdin, {"cancel": number})
            raise
        finally:
            self._waiting.pop(number, None)
            if self.state is WorkerState.BUSY and not self._waiting:
                self.state = WorkerState.IDLE

    def _give_up(self, seconds: float) -> Fault:
        """Take the worker for dead because a step passed its limit."""
        self.state = WorkerState.DEAD
        if self._fault is None:
            self._fault = Fault(
                f"The worker did not answer within {seconds:g} s and was ended.",
                cure="Start the run again; it resumes where it stood.",
            )
        return self._fault

    async def kill(self) -> None:
        """Kill the process tree; afterwards nothing of it runs."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            if not await asyncio.to_thread(kill_tree, process.pid):
                self._log("A process of the worker could not be ended; the system still holds on to it.")
            await process.wait()
        if process.returncode is not None and process.returncode < 0 and not self._swept:
            # Killed, and perhaps not by us: then its orphans are nobody's.
            self._swept = True
            await asyncio.to_thread(kill_marked, MARK, self._mark)

    async def abandon(self) -> None:
        """Kill the process tree of a worker that is of no use any more, and count it as dead unless it was closed."""
        if self.state is not WorkerState.CLOSED:
            self.state = WorkerState.DEAD
        await self.close()

    async def close(self) -> None:
        """Kill the process tree and stop reading from it."""
        if self.state is not WorkerState.DEAD:
            self.state = WorkerState.CLOSED
        async with self._life:
            await self.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._fail_all()
        if self._held is not None:
            os.close(self._held)
            self._held = None

    async def _read_frames(self) -> None:
        """Hand each frame to the request it belongs to; at the end fail those that still wait."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        try:
            while True:
                (length,) = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
                if length > MAX_FRAME:
                    self._log(f"The worker sent a frame of {length} bytes and was ended.")
                    break
                message = json.loads(await process.stdout.readexactly(length))
                waiting = self._waiting.get(message.get("id"))
                if waiting is not None:
                    waiting.put_nowait(message)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        if self.state is not WorkerState.CLOSED:
            self.state = WorkerState.DEAD
        with contextlib.suppress(asyncio.TimeoutError):
            # The guard first ends what is below it; its last words come before the reason is given.
            await asyncio.wait_for(process.wait(), 2.0)
            await asyncio.wait_for(self._ended.wait(), 1.0)
        await self.kill()
        self._fail_all()

    def _fail_all(self) -> None:
        """Answer every request under way with a fault."""
        fault = self._end_fault()
        for waiting in list(self._waiting.values()):
            waiting.put_nowait(fault)

    async def _read_log(self) -> None:
        """Log what the worker prints, up to a limit; read on after it so that nobody blocks."""
        process = self._process
        assert process is not None
        assert process.stderr is not None
        logged = 0
        rest = b""
        try:
            while data := await process.stderr.read(1 << 16):
                if logged > LOG_LIMIT:
                    continue
                logged += len(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._note(line)
                if logged > LOG_LIMIT:
                    self._log("The worker prints a lot; the rest is left out.")
                    rest = b""
            if rest:
                self._note(rest)
        finally:
            self._ended.set()

    def _note(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()[:2000]
        self._tail = [*self._tail[-TAIL_LINES:], text]
        self._log(text)

    def _end_fault(self) -> Fault:
        """Return why there is no worker; the same object each time."""
        if self._fault is None:
            self._fault = self._why_ended()
        return self._fault

    def _why_ended(self) -> Fault:
        if self.state is WorkerState.CLOSED:
            return Fault("The worker was closed.")
        code = None if self._process is None else self._process.returncode
        details = "\n".join(self._tail)
        if code is not None and code > 128:
            code = 128 - code
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            cure = (
                "Memory may have run out; use smaller inputs." if name == "SIGKILL" else "See the log for its output."
            )
            return Fault(f"The worker was killed by {name}.", cure=cure, details=details)
        last = f" It said: {self._tail[-1]}" if self._tail else ""
        return Fault(
            f"The worker ({self._interpreter}) ended unexpectedly with exit code {code}.{last}",
            cure="Check the interpreter with stark-lsp doctor.",
            details=details,
        )


_KINDS: dict[str, type[BadInput] | type[Fault]] = {
    errors.Bad.kind: BadInput,
    errors.Degenerate.kind: Degenerate,
    errors.Unusable.kind: Unusable,
}
"""What the worker calls an error, as an exception here; all else is a `Fault`."""


def _send(pipe: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    pipe.write(HEADER.pack(len(body)) + body)


def _reported(error: dict[str, Any]) -> BadInput | Fault:
    """Return the exception for an error that the worker sent."""
    kind = _KINDS.get(str(error.get("kind")), Fault)
    return kind(
        str(error.get("message", "")),
        cure=str(error.get("cure") or ""),
        path=error.get("path"),
        line=error.get("line"),
        details=str(error.get("details") or ""),
    )
