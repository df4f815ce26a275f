"""Drain the output of a process for ever, and keep its head and tail."""

from __future__ import annotations

import fcntl
import os
import select
import termios
import threading
import time

FLOOD = 64 << 20
"""Bytes of output after which a process is taken for a log bomb."""


class Capture:
    """Reads a pipe in a thread so that its writer never blocks, and closes it when the writers are gone.

    The first and the last half of `limit` bytes are kept.
    """

    def __init__(self, fd: int, limit: int) -> None:
        self._fd = fd
        self._half = max(1, limit // 2)
        self._head = self._tail = b""
        self.total = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    @property
    def flooded(self) -> bool:
        """Whether more came than any honest process prints."""
        return self.total > FLOOD

    def drain(self, wait_s: float) -> None:
        """Wait up to `wait_s` until all that has been written is kept."""
        deadline = time.monotonic() + wait_s
        while self._thread.is_alive() and self._left() and time.monotonic() < deadline:
            time.sleep(0.001)

    def _left(self) -> bool:
        """Whether bytes wait in the pipe."""
        with self._lock:
            if not self._thread.is_alive():
                return False
            try:
                return any(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)))
            except OSError:
                # It was closed a moment ago.
                return False

    def text(self, wait_s: float = 0.0) -> str:
        """Return what was kept; first wait up to `wait_s` for the end of the output."""
        self._thread.join(wait_s)
        with self._lock:
            dropped = self.total - len(self._head) - len(self._tail)
            middle = f"\n… {dropped} bytes left out …\n".encode() if dropped > 0 else b""
            return (self._head + middle + self._tail).decode("utf-8", "replace")

    def _drain(self) -> None:
        readable = select.poll()
        readable.register(self._fd, select.POLLIN)
        while True:
            readable.poll()
            # What is no longer in the pipe is kept, for whoever holds the lock.
            with self._lock:
                try:
                    data = os.read(self._fd, 1 << 16)
                except OSError:
                    data = b""
                if not data:
                    os.close(self._fd)
                    return
                self._keep(data)

    def _keep(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:])[-self._half :]
