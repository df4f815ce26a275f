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
from collections.abc import Callable, Iterator, Mapping
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


def file_name(key: str) -> str:
    """Return a device's key as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", key) or "device"


def user_folder(instead: str, environ: Mapping[str, str] | None = None, shared: str = SHARED) -> str:
    """Return the folder for locks of all runs and servers of a user, made when it is not there.

    Parameters
    ----------
    instead
        Folder that is taken if the user's cannot be: somebody else may have made one of that name.
    environ
        Environment in which `VARIABLE` may name another one.
    shared
        Folder in which all users may make folders.
    """
    chosen = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    path = os.path.abspath(chosen) if chosen else os.path.join(shared, f"stark-lsp-{os.geteuid()}")
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
    """See that nobody else can change what is in a folder; a link to another one is none of ours.

    Raises
    ------
    OSError
        Somebody can.
    """
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to somebody else")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)


def _open(path: str) -> IO[bytes]:
    """Open a lock file, made when it is not there; as is its folder, which may have been cleared away."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)


class _Ticket:
    """A place in the queue, valid as long as its file is locked.

    Parameters
    ----------
    folder
        Tickets of one device.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        while True:
            self.name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
            # Made under another name first: nobody may take it for a dead one before it is locked.
            hidden = os.path.join(folder, f".{self.name}")
            self._file = _open(hidden)
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
    """Return the tickets whose owners live, oldest first, and remove the others.

    Parameters
    ----------
    mine
        A ticket that is known to live.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        if name == mine:
            found.append(name)
            continue
        if name.startswith("."):
            continue
        path = os.path.join(folder, name)
        try:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC), "r+b", buffering=0)
        except OSError:
            continue
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(name)
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return found


class Slot:
    """The turns of one device.

    Parameters
    ----------
    folder
        The user's folder for locks.
    key
        Names the device: the UUID of a GPU, or `cpu`.
    """

    def __init__(self, folder: str, key: str) -> None:
        self._name = "GPU" if key != "cpu" else "Machine"
        self._tickets = os.path.join(folder, f"{file_name(key)}.tickets")
        self._lock = os.path.join(folder, f"{file_name(key)}.lock")
        os.makedirs(self._tickets, mode=0o700, exist_ok=True)

    def queue(self) -> int:
        """Return how many hold it or wait for it."""
        return len(living(self._tickets))

    @contextlib.contextmanager
    def turn(self, waiting: Waiting | None = None, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Wait for one's turn and hold the device until the end of the block.

        Parameters
        ----------
        waiting
            Told "GPU busy: queued, 2 ahead" whenever that changes.
        cancelled
            Asked now and then whether to give up.

        Raises
        ------
        Cancelled
        """
        try:
            ticket = _Ticket(self._tickets)
        except OSError:
            # A file system without locks: nobody can be waited for.
            yield
            return
        try:
            with _open(self._lock) as lock:
                self._wait(ticket, lock, waiting, cancelled)
                yield
        finally:
            ticket.end()

    def _wait(
        self, ticket: _Ticket, lock: IO[bytes], waiting: Waiting | None, cancelled: Callable[[], bool] | None
    ) -> None:
        told = -1
        while True:
            ahead = ticket.ahead()
            if ahead == 0:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
            if cancelled is not None and cancelled():
                raise Cancelled
            # A holder whose ticket is younger, since both came at the same time, is ahead as well.
            ahead = max(1, ahead)
            if ahead != told and waiting is not None:
                waiting(f"{self._name} busy: queued, {ahead} ahead")
            told = ahead
            time.sleep(TICK_S)


class Present:
    """Which judges of this user have to do with a device: all of them keep quiet while one measures.

    Parameters
    ----------
    folder
        The user's folder for locks.
    key
        Names the device.
    """

    def __init__(self, folder: str, key: str) -> None:
        self._folder = os.path.join(folder, f"{file_name(key)}.judges")
        self._ticket: _Ticket | None = None
        # A file system without locks: nobody can be known.
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._ticket = _Ticket(self._folder)

    def others(self) -> set[int]:
        """Return the processes of the other judges."""
        if self._ticket is None:
            return set()
        names = living(self._folder, mine=self._ticket.name)
        pids = {name.split("-")[1] for name in names if name.count("-") == 2}
        return {int(pid) for pid in pids if pid.isdigit()} - {os.getpid()}


class Cancelled(Exception):
    """Whoever waited no longer wants the slot."""


@contextlib.contextmanager
def slot(folder: str, key: str, waiting: Waiting | None = None) -> Iterator[None]:
    """Hold a device for the block, see `Slot.turn`."""
    with Slot(folder, key).turn(waiting):
        yield


class Quiet:
    """Many may work, or one may measure: on a CPU, whatever else runs disturbs a timing.

    Who measures goes first: once it waits, nobody begins to work. Not to be nested: a thread that works must not
    measure before its work ends, and one that measures has the device and must not wait for it.

    Parameters
    ----------
    folder
        The user's folder for locks.
    key
        Names the device.
    """

    def __init__(self, folder: str, key: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._gate = os.path.join(folder, f"{file_name(key)}.gate")
        self._room = os.path.join(folder, f"{file_name(key)}.room")
        self._measures: int | None = None
        """The thread that measures."""

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
        with _open(self._room) as room:
            with _open(self._gate) as gate:
                _lock(gate, fcntl.LOCK_SH)
                _lock(room, fcntl.LOCK_SH)
            yield

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure; waits until everyone who works is done, and keeps others from beginning."""
        with _open(self._gate) as gate, _open(self._room) as room:
            _lock(gate, fcntl.LOCK_EX)
            _lock(room, fcntl.LOCK_EX)
            self._measures = threading.get_ident()
            try:
                yield
            finally:
                self._measures = None


def _lock(file: IO[bytes], how: int) -> None:
    """Lock a file; on a file system without locks there is nobody to wait for."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, how)
