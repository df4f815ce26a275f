"""What is compiled ahead so that builds take seconds: the facade's support library and its precompiled header.

Both depend on torch, the compilers and the flags alone, never on a candidate, and are kept between runs.
"""

from __future__ import annotations

import glob
import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from .cache import Cache, NotTaken, key_of
from .quicker import FACADE, PCH, SUPPORT

SECONDS = 300.0


@dataclass(eq=False)
class Aids:
    """All of them; safe to use from several threads."""

    cache: Cache
    """Kept between runs."""
    toolchain: list[str]
    """Torch, compilers, architecture."""
    make: Callable[[str, dict[str, Any]], AbstractContextManager[str]]
    """Has a builder make one, which lies at that path in the block; raises `NotTaken` if that fails."""

    def __post_init__(self) -> None:
        self.toolchain = [*self.toolchain, _facade_digest()]
        self._failed: set[str] = set()
        self._seen: set[str] = set()
        self._found: dict[str, str] = {}
        self._lock = threading.Lock()

    def support(self, with_cuda: bool) -> str:
        """Return the path of the support library, made now if need be; empty if it cannot be."""
        return self._have("support", with_cuda, [], SUPPORT)

    def pch(self, with_cuda: bool, cflags: list[str], *, now: bool = False) -> str:
        """Return the path of the precompiled header for these flags, empty if there is none.

        It is made before the second build that wants it, since making it takes longer than one build saves; with `now`
        at once.
        """
        key = self._key("pch", with_cuda, cflags)
        with self._lock:
            again = now or key in self._seen
            self._seen.add(key)
        return self._have("pch", with_cuda, cflags, PCH + ".gch") if again else self._look(key)

    def _key(self, what: str, with_cuda: bool, cflags: list[str]) -> str:
        return key_of([self.toolchain, what, with_cuda, cflags])

    def _look(self, key: str) -> str:
        """Return the file of a key; it is read through once in the life of this process."""
        path = self._found.get(key, "")
        if path and os.path.isfile(path):
            return path
        entry = self.cache.get(key)
        self._found[key] = entry.path if entry is not None else ""
        return self._found[key]

    def _have(self, what: str, with_cuda: bool, cflags: list[str], name: str) -> str:
        key = self._key(what, with_cuda, cflags)
        path = self._look(key)
        if path or key in self._failed:
            return path
        with self.cache.hold(key, SECONDS) as held:
            path = self._look(key)
            if path or not held or key in self._failed:
                return path
            request = {
                "kind": "inline",
                "name": "stark_aid",
                "cpp_sources": ["int stark_aid;"],
                "extra_cflags": cflags,
                "with_cuda": with_cuda,
            }

            try:
                with self.make(what, request) as left:
                    self._found[key] = self.cache.put(key, left, name, {}).path
            except (NotTaken, OSError):
                self._failed.add(key)
            return self._found[key]


def _facade_digest() -> str:
    """Return a digest of the facade's files."""
    found = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(FACADE, "**", "*.[hc]*"), recursive=True)):
        with open(path, "rb") as file:
            found.update(os.path.relpath(path, FACADE).encode() + b"\0" + file.read() + b"\0")
    return found.hexdigest()
