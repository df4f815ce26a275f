"""Length-prefixed JSON over private pipes.

A frame is four bytes, big-endian, with the length of what follows: UTF-8 JSON.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import struct
import threading
import time
from typing import Any

HEADER = struct.Struct(">I")
MAX_FRAME = 64 << 20
"""Longest frame in bytes; a longer one is taken for damage."""


class ChannelClosed(Exception):
    """The other side closed the pipe."""


class ChannelDamaged(Exception):
    """What came over the pipe is no frame."""


class DeadlinePassed(Exception):
    """No frame came, or was taken, in time."""


def take_private_pipes() -> tuple[int, int]:
    """Move fds 0 and 1 to private fds that children do not inherit, and return them.

    Afterwards fd 0 reads nothing and fd 1 is fd 2, so whatever user code prints, from Python or from C,
    lands in the log and cannot corrupt the frames.
    """
    read_fd, write_fd = os.dup(0), os.dup(1)  # os.dup makes them non-inheritable (PEP 446)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return read_fd, write_fd


def plain(value: Any) -> Any:
    """Return `value` with non-finite floats as strings, since JSON has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Channel:
    """Two pipe ends that carry frames."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self.nonce = ""
        """Goes with each frame that is sent: a request's, with its answer too, so that none can be prepared ahead."""

    def send(self, message: dict[str, Any], deadline: float | None = None) -> None:
        """Write one frame; safe from several threads.

        Parameters
        ----------
        deadline
            Value of `time.monotonic()` after which to give up on a reader that does not read; the channel is of no
            use afterwards. None waits for ever.

        Raises
        ------
        ChannelClosed
            The other side is gone.
        DeadlinePassed
        """
        message = {**message, "nonce": self.nonce} if self.nonce else message
        body = json.dumps(plain(message), allow_nan=False).encode("utf-8", "backslashreplace")
        view = memoryview(HEADER.pack(len(body)) + body)
        with self._lock:
            try:
                while view:
                    view = view[self._write(view, deadline) :]
            except OSError as error:
                raise ChannelClosed(str(error)) from error

    def _write(self, view: memoryview, deadline: float | None) -> int:
        """Write some of it and return how much."""
        if deadline is None or self._write_fd < 0:
            return os.write(self._write_fd, view)
        _, ready, _ = select.select([], [self._write_fd], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise DeadlinePassed
        # A pipe that is ready takes so much without waiting, see pipe(7).
        return os.write(self._write_fd, view[: select.PIPE_BUF])

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """Return the next frame.

        Parameters
        ----------
        deadline
            Value of `time.monotonic()` after which to give up; None waits for ever.

        Raises
        ------
        ChannelClosed, ChannelDamaged, DeadlinePassed
        """
        while True:
            message = self._take()
            if message is not None:
                return message
            if self._read_fd < 0:
                raise ChannelClosed("closed here")
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._read_fd], [], [], timeout)
            if not ready:
                raise DeadlinePassed
            try:
                data = os.read(self._read_fd, 1 << 20)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not data:
                raise ChannelClosed("end of stream")
            self._buffer += data

    def _take(self) -> dict[str, Any] | None:
        """Cut one whole frame off the buffer, None if there is none yet."""
        if len(self._buffer) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME:
            raise ChannelDamaged(f"a frame of {length} bytes")
        if len(self._buffer) < HEADER.size + length:
            return None
        body = bytes(self._buffer[HEADER.size : HEADER.size + length])
        del self._buffer[: HEADER.size + length]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ChannelDamaged(str(error)) from error
        if not isinstance(message, dict):
            raise ChannelDamaged("a frame that is no object")
        return message

    def close(self) -> None:
        """Close both ends; safe to call twice, although their numbers may be somebody else's by then."""
        with self._lock:
            fds = (self._read_fd, self._write_fd)
            self._read_fd = self._write_fd = -1
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
