"""What a call of the user's class does besides returning: what it keeps in Python's objects, what it prints or logs."""

from __future__ import annotations

import collections
import contextlib
import logging
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

DEEP, LARGE = 3, 1000
"""Containers in containers, and of so many elements, are looked into."""
_PLAIN = (bool, int, str, bytes, type(None))
_OWN = vars(torch.nn.Module()).keys()
"""What each module has of PyTorch's."""


class _Held:
    """An object that is itself alone; it lives as long, so that no other one takes its place in memory."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other._value is self._value

    __hash__ = None  # type: ignore[assignment]


def watched(
    module: torch.nn.Module, document: types.ModuleType, call: Callable[[], Any]
) -> tuple[Any, list[str], bool]:
    """Make a call, and see what it changes of the module's attributes and of the file's globals.

    Parameters
    ----------
    call
        Calls the module, which was called before: what is kept once and for all is there.

    Returns
    -------
    tuple
        What it returned; the names of what it changed, such as `self.stats`; whether it printed or logged something.
    """
    before = _state(module, document)
    with _listening() as said:
        result = call()
    after = _state(module, document)
    return result, sorted(name for name in {*before, *after} if before.get(name) != after.get(name)), bool(said)


def _state(module: torch.nn.Module, document: types.ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, part in module.named_modules():
        if type(part).__module__.startswith("torch."):
            continue
        for name, value in vars(part).items():
            if name not in _OWN:
                found[".".join(filter(None, ("self", path, name)))] = _seen(value)
    for name, value in vars(document).items():
        if not name.startswith("__") and not isinstance(value, (types.ModuleType, type, types.FunctionType)):
            found[name] = _seen(value)
    return found


def _seen(value: Any, deep: int = 0) -> Any:
    """Return what can be compared with the same later."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return _Held(value), None if value.is_inference() else value._version
    if deep < DEEP and isinstance(value, (dict, list, tuple, set, collections.deque)) and len(value) <= LARGE:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [(key if isinstance(key, _PLAIN) else _Held(key), _seen(one, deep + 1)) for key, one in items]
    return _Held(value)


@contextlib.contextmanager
def _listening() -> Iterator[list[str]]:
    """Note what is printed and logged in the block, which goes where it would."""
    said: list[str] = []

    class Noting:
        """A stream as it is, but that writing is noted."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def write(self, text: str) -> Any:
            said.append(text)
            return self._stream.write(text)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

    handle = logging.Logger.handle

    def noted(logger: logging.Logger, record: logging.LogRecord) -> None:
        said.append(record.name)
        handle(logger, record)

    out, err = Noting(sys.stdout), Noting(sys.stderr)
    with contextlib.ExitStack() as listening:
        listening.enter_context(contextlib.redirect_stdout(out))  # type: ignore[type-var]
        listening.enter_context(contextlib.redirect_stderr(err))  # type: ignore[type-var]
        listening.enter_context(mock.patch.object(logging.Logger, "handle", noted))
        yield said
