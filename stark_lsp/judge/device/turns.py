"""Turns: one timing at a time on each device, across all runs and servers of a user.

Locks are files that the kernel unlocks when their holder ends, however it ends. Who waits leaves a ticket, a locked
file as well, so that the order is fair and tickets of the dead do not count.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

VARIABLE = "STARK_LOCKS_DIR"
"""Environment variable that names another folder for locks."""
SHARED = "/tmp"
"""Where the user's folder for locks is. Not what TMPDIR or XDG_RUNTIME_DIR say: one session of a user may have them and
another one not, and both must find the same locks; and not the home, which several machines may share."""
TICK_S = 0.02
"""How often one who waits looks at the queue."""

Waiting = Callable[[str], None]
"""Told each time the queue ahead changes, in words."""


def user_folder(instead: str) -> str:
    """Return the folder for locks of all runs and servers of a user, made when it is not there.

    Parameters
    ----------
    instead
        Folder that is taken if the user's cannot be: somebody else may have made one of that name.
    """
    chosen = os.environ.get(VARIABLE, "").strip()
    path = os.path.abspath(chosen) if chosen else os.path.join(SHARED, f"stark-lsp-{os.geteuid()}")
    try:
        if chosen:
            os.makedirs(path, mode=0o700, exist_ok=True)
        else:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            _must_be_ours(path)
        return path
    except OSError:
        os.makedirs(instead, mode=0o700, exist_ok=True)
        return instead


def _must_be_ours(path: str) -> None:
    """Raise `OSError` where somebody else can change what is in a folder; a link to another one is none of ours."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to somebody else")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)


def lock_file(path: str) -> IO[bytes]:
    """Open a lock file, made when it is not there; as is its folder, which may have been cleared away."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)


class _Ticket:
    """A place in the queue of a folder, valid as long as its file is locked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        while True:
            self.name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
            # Made under another name first: nobody may take it for a dead one before it is locked.
            hidden = os.path.join(folder, f".{self.name}")
            self._file = lock_file(hidden)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                os.rename(hidden, os.path.join(folder, self.name))
                return
            except FileNotFoundError:
                # Somebody cleared the folder meanwhile.
                self._file.close()
                os.makedirs(folder, exist_ok=True)

    def ahead(self) -> int:
        """Return how many living tickets are older."""
        return sum(name < self.name for name in living(self._folder, mine=self.name))

    def end(self) -> None:
        """Leave the queue."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, self.name))
        self._file.close()


def living(folder: str, mine: str = "") -> list[str]:
    """Return the tickets whose owners live (`mine` is known to), oldest first, and remove the others."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        if name == mine:
            found.append(name)
        elif not name.startswith("."):
            path = os.path.join(folder, name)
            try:
                with open(path, "r+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
            except BlockingIOError:
                found.append(name)
            except OSError:
                continue  # its owner has just left
    return found


class Turns:
    """Who may use a device: many may work on it, or one may measure; whatever else runs disturbs a timing.

    Those who wait to measure go first, in their order: once one of them waits for those who work, nobody begins to
    work. Not to be nested: a thread that works must not measure before its work ends, nor the other way round.

    The user's folder holds the locks; the key names the device: the UUID of a GPU, or `cpu`.
    """

    def __init__(self, folder: str, key: str) -> None:
        self._name = "GPU" if key != "cpu" else "Machine"
        path = os.path.join(folder, re.sub(r"[^A-Za-z0-9._-]", "_", key) or "device")
        self._tickets, self._judges = f"{path}.tickets", f"{path}.judges"
        self._gate, self._room = f"{path}.gate", f"{path}.room"
        self._measures: int | None = None
        """The thread that measures."""
        self._present: _Ticket | None = None
        # A file system without locks: nobody can be waited for, nor known.
        with contextlib.suppress(OSError):
            os.makedirs(self._tickets, mode=0o700, exist_ok=True)
            os.makedirs(self._judges, mode=0o700, exist_ok=True)
            self._present = _Ticket(self._judges)

    def judges(self) -> set[int]:
        """Return the processes of other judges on this device, which keep quiet while one measures."""
        if self._present is None:
            return set()
        names = living(self._judges, mine=self._present.name)
        pids = {name.split("-")[1] for name in names if name.count("-") == 2}
        return {int(pid) for pid in pids if pid.isdigit()} - {os.getpid()}

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Work on something that would disturb a timing; waits while one goes on.

        Raises
        ------
        RuntimeError
            The calling thread measures: it would wait for itself for ever.
        """
        if self._measures == threading.get_ident():
            raise RuntimeError("A thread that measures cannot wait for its own end to work")
        with lock_file(self._room) as room:
            with lock_file(self._gate) as gate:
                _lock(gate, fcntl.LOCK_SH)
                _lock(room, fcntl.LOCK_SH)
            yield

    @contextlib.contextmanager
    def measuring(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Measure alone; waits for one's turn, and until everyone who works is done.

        Parameters
        ----------
        waiting
            Told "GPU busy: queued, 2 ahead" whenever that changes.
        """
        with contextlib.ExitStack() as held:
            gate, room = held.enter_context(lock_file(self._gate)), held.enter_context(lock_file(self._room))
            if self._present is not None:
                ticket = _Ticket(self._tickets)
                held.callback(ticket.end)
                self._wait(ticket, gate, waiting)
            _lock(room, fcntl.LOCK_EX)
            self._measures = threading.get_ident()
            try:
                yield
            finally:
                self._measures = None

    def _wait(self, ticket: _Ticket, gate: IO[bytes], waiting: Waiting | None) -> None:
        told = 0
        while True:
            ahead = ticket.ahead()
            if ahead == 0:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
            # A holder whose ticket is younger, since both came at the same time, is ahead as well.
            ahead = max(1, ahead)
            if ahead != told and waiting is not None:
                waiting(f"{self._name} busy: queued, {ahead} ahead")
            told = ahead
            time.sleep(TICK_S)


def _lock(file: IO[bytes], how: int) -> None:
    """Lock a file; on a file system without locks there is nobody to wait for."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, how)
