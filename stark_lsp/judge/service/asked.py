"""The extensions that a candidate asks for: having them built, and what a failed build means for its verdict."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..building.service import BuildService, Built
from ..correctness.classify import BUILD, Failed, Finding, build_finding
from ..processes.runners import RunnerProcess
from ..transport import claims
from .told import Told

MOST_BUILDS = 16
"""Extensions that one process of a candidate may build."""
NAMED = 80
"""Characters of an extension's name in a note."""
REPLACED = "The extension {name} did not build here; {other}, which the source builds in its place, was judged."
LATE_BUILD = "It built a kernel while it was timed: building all of them when it is loaded or first called is surer."
LATE_BUILDS = "It went on building kernels while it was timed; build all of them when it is loaded or first called."


@dataclass(eq=False)
class Asked:
    """What one candidate asked for."""

    told: Told
    """What the server read in it."""
    service: BuildService
    """Builds."""
    seconds: float
    """How long one build may take."""

    def __post_init__(self) -> None:
        self._made: list[tuple[str, Built]] = []
        self._by: Counter[int] = Counter()
        self._late_s = 0.0
        self.notes: list[str] = []
        """For a user."""

    @property
    def resources(self) -> dict[str, dict[str, int]]:
        """The compiler's figures for each kernel, by its mangled name."""
        return {name: figures for _, built in self._made for name, figures in built.resources.items()}

    @property
    def loops(self) -> list[str]:
        """Loops for the CPU that the compiler did not vectorize."""
        return [loop for _, built in self._made for loop in built.loops]

    def answer(self, runner: RunnerProcess, request: dict[str, Any], *, timed: bool) -> dict[str, Any]:
        """Answer the request of one of its processes to have one built.

        Parameters
        ----------
        timed
            Whether the candidate is being timed meanwhile, and others wait for the device. That may take no longer in
            all than one build. It chooses between its kernels then by something that differs from call to call, such
            as an address; of the calls that wait for a compiler there are few, and medians do not mind them.

        Raises
        ------
        Failed
            That time is used up.
        """
        if self._by[runner.pid] >= MOST_BUILDS:
            return {"error": f"More than {MOST_BUILDS} extensions."}
        built = self._late(request) if timed else self.service.build(request, seconds=self.seconds)
        if built.ended and not timed:
            # Perhaps not its own fault; what the source does to a compiler, it does again.
            built = self.service.build(request, seconds=self.seconds)
        self._by[runner.pid] += 1
        self._made.append((str(request.get("name")), built))
        return {"library": runner.give(built.library)} if built.library else {"error": built.error}

    def _late(self, request: dict[str, Any]) -> Built:
        left = self.seconds - self._late_s
        if left <= 0.0:
            raise Failed(Finding("TIMED_OUT", LATE_BUILDS, stage=BUILD))
        begin = time.monotonic()
        try:
            built = self.service.build(request, seconds=left)
        finally:
            self._late_s += time.monotonic() - begin
        self.notes.append(LATE_BUILD)
        return built

    def considered(self, finding: Finding) -> Finding:
        """Return what a finding is, given what did not build.

        What ran without an extension that never built was not what the candidate claims to be; unless its source builds
        another one in its place, which did build.
        """
        built = {name for name, one in self._made if one.library}
        if all(name in built for name, _ in self._made) or finding.status == "REFUSED":
            return finding
        missing, replaced = [], []
        follows = ""
        for name, one in reversed(self._made):
            if one.library:
                follows = name
            elif name not in built and self.told.may_replace(name) and self.told.may_replace(follows):
                replaced.append(REPLACED.format(name=claims.text(name)[:NAMED], other=claims.text(follows)[:NAMED]))
            elif name not in built:
                missing.append(one)
        if not missing:
            self.notes += reversed(replaced)
            return finding
        told = build_finding(missing[0])
        told.line = finding.line
        return told
