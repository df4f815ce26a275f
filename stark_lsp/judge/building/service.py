"""The judge's answer to a request to build: from the cache, or by a builder of its own."""

from __future__ import annotations

import contextlib
import enum
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ...contract.errors import cut
from ..processes.failures import RunnerDied, RunnerError, RunnerExceeded, RunnerFailure, RunnerFlooded, RunnerTimedOut
from ..processes.runners import RunnerProcess
from ..transport import claims
from . import diagnostics, tokens
from .aids import Aids
from .cache import Cache, NotTaken, key_of
from .request import Refused, normal

VERSION = 2
"""Raised when the same request would be built differently."""
AID_S = 300.0
AIDS = 16
AID_BYTES = 3 << 30
FAILED = 256
"""Failed builds that are kept in mind."""
ENDED = ("Killed", "Terminated")
"""Words of a compiler that was ended from outside."""
CHANCE = (*ENDED, "internal compiler error", "No space left", "Cannot allocate memory", "out of memory")
"""Words of a failure that another try may not meet."""
USUAL: list[list[str]] = [[], ["-O3"], ["-O2"]]
"""Flags for which there is a precompiled header before the first build."""
LOG = 20000
"""Characters of a build's log that are kept."""


class Failure(str, enum.Enum):
    """Why there is no library."""

    NONE = ""
    REFUSED = "refused"
    COMPILER = "compiler"
    TIMED_OUT = "timed out"
    MEMORY = "memory"
    BROKEN = "broken"
    """The builder itself failed."""


@dataclass
class Built:
    """What came of a request."""

    library: str = ""
    """Path of the library in the cache; empty when the build failed."""
    error: str = ""
    """What the candidate's `load_inline` is to raise; empty when it did not fail."""
    log: str = ""
    """What the build printed."""
    resources: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each kernel: `registers`, `shared_bytes`, `stack_bytes` (spills are kept there), `local_bytes`."""
    loops: list[str] = field(default_factory=list)
    """Loops for the CPU that were not vectorized, see `loops.scalar`."""
    ways: list[str] = field(default_factory=list)
    """How each source was compiled, see `quicker`."""
    failure: Failure = Failure.NONE
    """Why there is no library."""
    compiler: list[dict[str, Any]] = field(default_factory=list)
    """The compiler's errors, as `diagnostics.compiler_messages` gives them."""

    def __post_init__(self) -> None:
        self.compiler = self.compiler or (diagnostics.compiler_messages(self.error) if self.error else [])

    @property
    def ended(self) -> bool:
        """Whether the builder or a compiler was ended from outside, so that another try may do better."""
        if self.failure is not Failure.COMPILER:
            return self.failure is Failure.BROKEN
        # A compiler that is killed is not always told of; one that fails always says why.
        silent = "error" not in self.error.partition(": ")[2].lower()
        return silent or self.tells_of(ENDED)

    def tells_of(self, words: tuple[str, ...]) -> bool:
        """Whether one of some words is in what the build said."""
        return any(word in f"{self.error}\n{self.log}" for word in words)


@dataclass(eq=False)
class BuildService:
    """Builds what candidates ask for; safe to use from several threads."""

    start: Callable[[], RunnerProcess]
    """Returns a builder that is ready."""
    cache_dir: str
    """Folder kept between runs."""
    toolchain: list[str]
    """What besides the request decides the result: torch, compilers, architecture."""
    jobs: int
    """Builds at once."""
    end: Callable[[Any], None] = lambda builder: builder.kill()
    """Ends a builder and removes its folder; kills it by default."""

    def __post_init__(self) -> None:
        self.toolchain = [str(VERSION), *self.toolchain]
        self._cache = Cache(os.path.join(self.cache_dir, "libraries"))
        self._aids = Aids(Cache(os.path.join(self.cache_dir, "aids"), AIDS, AID_BYTES), self.toolchain, self._prepared)
        self._slots = threading.BoundedSemaphore(max(1, self.jobs))
        self._failed: dict[str, Built] = {}

    def build(self, request: dict[str, Any], *, seconds: float) -> Built:
        """Return what came of a request of `proxy`.

        Parameters
        ----------
        request
            As it came from the candidate's process; with `stock: true` it is built exactly as on the user's machine.
        """
        try:
            asked = normal(request)
        except Refused as error:
            name = str(request.get("name", ""))[:128]
            return Built(error=f"Error building extension {name!r}: {error}", failure=Failure.REFUSED)
        key = key_of([self.toolchain, asked])
        found = self._kept(key)
        if found is not None:
            return found
        with self._cache.hold(key, seconds) as held:
            found = self._kept(key) if held else None
            if found is not None:
                return found
            with self._slots:
                built = self._build(asked, key, seconds, keep=held)
            self._remember(key, built)
            return built

    def warm(self, with_cuda: bool) -> None:
        """Make ahead what speeds builds in the inline dialect up; takes up to a minute once for each torch.

        Where that fails, such builds take as long as torch's own.
        """
        with ThreadPoolExecutor(1 + len(USUAL)) as pool:
            work = [pool.submit(self._aids.pch, with_cuda, flags, now=True) for flags in USUAL]
            for done in [pool.submit(self._aids.support, with_cuda), *work]:
                done.result()

    def _helpers(self, asked: dict[str, Any], builder: RunnerProcess) -> dict[str, str]:
        """Hand a builder what was made ahead and fits a request; returns the paths."""
        texts = [*asked["cpp_sources"], *asked["cuda_sources"], *(item["text"] for item in asked["files"])]
        implicit = asked["kind"] == "inline" and not asked["no_implicit_headers"]
        if asked["stock"] or not (implicit or any(tokens.may_be_quick(text) for text in texts)):
            return {}
        files = [item["path"] for item in asked["files"] if item["source"]]
        with_cuda = bool(asked["cuda_sources"]) or any(path.endswith(".cu") for path in files)
        with_cuda = with_cuda if asked["with_cuda"] is None else asked["with_cuda"]
        found = {"support": self._aids.support(with_cuda)}
        if found["support"]:
            found["pch"] = self._aids.pch(with_cuda, asked["extra_cflags"])
        return {what: builder.give(path) for what, path in found.items() if path}

    @contextlib.contextmanager
    def _prepared(self, what: str, request: dict[str, Any]) -> Iterator[str]:
        """Have a builder make an aid, which lies at that path in the block; raises `NotTaken` where it cannot."""
        builder = self.start()
        try:
            asked = normal(request)
            answer = builder.ask(
                "prepare", run_s=AID_S, build_s=AID_S, folder=builder.files.path, what=what, request=asked
            )
            if "error" in answer:
                raise NotTaken(str(answer["error"]))
            yield os.path.join(builder.files.out, "aid")
        except RunnerFailure as error:
            raise NotTaken(_trouble(error)[0]) from error
        finally:
            self.end(builder)

    def _remember(self, key: str, built: Built) -> None:
        """Keep a source's own errors in mind; what the machine did to a compiler is not one of them."""
        own = built.failure is Failure.COMPILER and any(message["line"] for message in built.compiler)
        if own and not built.tells_of(CHANCE):
            self._failed[key] = built
            while len(self._failed) > FAILED:
                self._failed.pop(next(iter(self._failed)), None)

    def _kept(self, key: str) -> Built | None:
        entry = self._cache.get(key)
        if key in self._failed or entry is None:
            return self._failed.get(key)
        facts = entry.facts
        return Built(entry.path, log=facts["log"], resources=facts["resources"], loops=facts["loops"])

    def _build(self, asked: dict[str, Any], key: str, seconds: float, keep: bool) -> Built:
        """Have a builder of its own carry a request out."""
        prefix = f"Error building extension '{asked['name']}'"
        builder = self.start()
        try:
            try:
                aids = self._helpers(asked, builder)
                answer = builder.ask(
                    "build", run_s=seconds, build_s=seconds, folder=builder.files.path, request=asked, aids=aids
                )
            except RunnerFailure as error:
                text, failure = _trouble(error)
                builder.kill()
                log = cut(builder.log(), LOG)
                return Built(error=f"{prefix}: {text}", log=log, failure=failure)
            log = cut(str(answer.get("log", "")), LOG)
            ways = claims.texts(answer.get("ways"))
            if "error" in answer:
                text = cut(str(answer["error"]), LOG)
                return Built(error=text, log=log, ways=ways, failure=Failure.COMPILER)
            resources, found = _resources(answer.get("resources")), claims.texts(answer.get("loops"))
            name = f"{asked['name']}.so"
            try:
                left = os.path.join(builder.files.out, "library.so")
                place = key if keep else f"{key[:2]}{os.urandom(19).hex()}"
                entry = self._cache.put(place, left, name, {"log": log, "resources": resources, "loops": found})
            except (NotTaken, OSError) as error:
                return Built(error=f"{prefix}: {error}", log=log, ways=ways, failure=Failure.BROKEN)
            return Built(library=entry.path, log=log, resources=resources, loops=found, ways=ways)
        finally:
            self.end(builder)


def _trouble(error: Exception) -> tuple[str, Failure]:
    """Return what a builder's failure means."""
    if isinstance(error, RunnerTimedOut):
        return f"stopped after {error.seconds:g} s of compiling.", Failure.TIMED_OUT
    if isinstance(error, RunnerExceeded):
        kind = Failure.MEMORY if error.exceeded.what == "memory" else Failure.BROKEN
        return f"stopped: {error.exceeded.text}.", kind
    if isinstance(error, RunnerFlooded):
        return "stopped: the compiler printed without end.", Failure.COMPILER
    if isinstance(error, RunnerDied):
        return f"the process that builds {error}.", Failure.BROKEN
    if isinstance(error, RunnerError):
        return str(error), Failure.BROKEN
    return "the process that builds gave an answer that cannot be read.", Failure.BROKEN


def _resources(value: object) -> dict[str, dict[str, int]]:
    """Return the figures of kernels that a builder claims, as far as they can be read."""
    found: dict[str, dict[str, int]] = {}
    for name, figures in list(value.items())[:1000] if isinstance(value, dict) else []:
        if isinstance(figures, dict):
            found[str(name)[:1000]] = {
                str(key)[:40]: number for key, number in list(figures.items())[:20] if type(number) is int
            }
    return found
