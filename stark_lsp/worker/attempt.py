"""The judging of one candidate: check, build and load, verify, time, profile."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import integrity, timing, trees
from .building.service import Built
from .building.triton_cache import TritonFolder
from .classify import Finding, build_finding, classify, stages
from .failed import Failed
from .runner import cut
from .runners import RUNNER_FAILURES, RunnerProcess
from .verify import Verifier

if TYPE_CHECKING:
    from .bench import Progress
    from .judging import Judge


STAGES = {
    "check": "Reading the candidate",
    "start": "Starting a process for the candidate",
    "load": "Loading the candidate",
    "verify": "Verifying the candidate",
    "time": "Timing the candidate",
}
"""What is said of each stage."""
START_LIMIT_S = 300.0
WAITING_S = 24 * 3600.0
"""Others may use the device for long; waiting for them is no fault."""
MOST_BUILDS = 16
"""Extensions one candidate may build."""
TRITON_LIMIT = 256 << 20
"""Bytes of a candidate's Triton cache that are kept."""


class Attempt:
    """The judging of one candidate.

    Parameters
    ----------
    judge
        Everything that was made once for the problem.
    candidate
        `core.Candidate` in wire form.
    final
        Time it longer, and against torch.compile as well.
    progress
        Told what begins and how long it may take.
    """

    def __init__(self, judge: Judge, candidate: dict[str, Any], final: bool, progress: Progress) -> None:
        self._judge = judge
        self._progress = progress
        self._bench = judge.bench
        self._reference = judge.reference
        self._settings = judge.settings
        self._source: str = candidate["source"]
        self._class_name: str = candidate["class_name"]
        self._final = final
        self._runner: RunnerProcess | None = None
        self._triton: TritonFolder | None = None
        self._forwarded = False
        self._builds: list[Built] = []
        self._path = ""
        self._verifier: Verifier | None = None
        self._weights_message = ""
        self._weights = self._reference.weights_path
        """The file of the judge whose weights the candidate has now."""
        self._stages: list[Any] = []
        self._measured: timing.Measured | None = None

    def run(self) -> dict[str, Any]:
        """Go through all steps up to the first failure."""
        try:
            with self._stage("check"):
                refusal = integrity.check(self._source, self._class_name)
            if refusal is not None:
                return self._verdict(Finding("REFUSED", *refusal))
            runner = self._load()
            self._verifier = Verifier(self._reference, self._ask, runner, self._weights_message)
            with self._stage("verify"):
                self._verifier.run()
            with self._stage("time"):
                self._time()
        except Failed as failure:
            return self._verdict(self._considering_builds(self._considering_weights(failure.finding)))
        return self._verdict(self._considering_builds(Finding("OK", self._praise())))

    def end(self) -> None:
        """Kill the runner, keep what Triton compiled, remove what was written."""
        runner, triton = self._runner, self._triton
        if runner is not None:
            self._judge.children.household.end(runner)
        if triton is not None:
            triton.finish(triton.cached or (runner is not None and self._forwarded and self._keep(runner, triton)))
        if runner is not None:
            runner.files.remove()

    @staticmethod
    def _keep(runner: RunnerProcess, triton: TritonFolder) -> bool:
        """Copy what Triton compiled out of the dead runner's folder; returns whether it is whole."""
        try:
            return trees.copy_tree(runner.files.triton, triton.path, TRITON_LIMIT) > 0
        except (OSError, trees.TooLarge):
            return False

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Measure a stage, and tell how long it may take at most."""
        self._progress(STAGES[name], self._limit(name))
        begin = time.monotonic()
        try:
            yield
        finally:
            self._stages.append((name, time.monotonic() - begin))

    def _limit(self, name: str) -> float:
        """Return after how many seconds in a stage something other than the candidate must be broken."""
        run_s, build_s = float(self._settings["run_timeout_s"]), float(self._settings["build_timeout_s"])
        if name == "time":
            turns = int(self._settings["final_rounds" if self._final else "rounds"])
            return run_s * 3 * (turns + 4) + float(self._settings["compile_timeout_s"])
        return START_LIMIT_S + 2 * build_s + run_s * (len(self._reference.cases) + 8)

    def _ask(self, stage: str, command: str, **params: Any) -> dict[str, Any]:
        """Ask the candidate's runner; what goes wrong is the candidate's failure."""
        assert self._runner is not None
        try:
            result: dict[str, Any] = self._runner.ask(
                command,
                run_s=float(self._settings["run_timeout_s"]),
                build_s=float(self._settings["build_timeout_s"]),
                **params,
            )
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, stage, self._path)) from error
        if command == "rebuild":
            self._weights = os.path.join(os.path.dirname(self._weights), os.path.basename(params["weights"]))
        if command == "forward":
            self._forwarded = True
        return result

    def _load(self) -> RunnerProcess:
        """Start the runner and load the candidate with the reference's weights."""
        with self._stage("start"):
            self._triton = self._judge.triton.open(self._source)
            self._runner = self._judge.children.runner()
            self._runner.builds = self._build
            if self._triton.cached:
                trees.copy_tree(self._triton.path, self._runner.files.triton, TRITON_LIMIT)
            # Named after nothing that leads to the expected outputs.
            self._path = self._runner.files.write("candidate.py", self._source)
        with self._stage("load"):
            self._weights_message = self._ask(
                "load",
                "load_candidate",
                path=self._path,
                context=self._reference.path,
                class_name=self._class_name,
                init=self._runner.give(self._reference.init_path),
                weights=self._runner.give(self._reference.weights_path),
                device=self._reference.device,
                mode=self._reference.mode,
                threads=self._judge.threads,
            )["weights_message"]
        return self._runner

    def _build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer the runner's request to build; what is built for a finalist is what the user's machine will build."""
        if len(self._builds) >= MOST_BUILDS:
            return {"error": f"More than {MOST_BUILDS} extensions."}
        assert self._runner is not None
        request = {**request, "stock": self._final}
        built = self._judge.builds.build(request, seconds=float(self._settings["build_timeout_s"]))
        self._builds.append(built)
        return {"library": self._runner.give(built.library)} if built.library else {"error": built.error}

    def _considering_builds(self, finding: Finding) -> Finding:
        """What ran after every build failed was not what the candidate claims to be, however it was caught."""
        if not self._builds or any(built.library for built in self._builds):
            return finding
        failed = build_finding(self._builds[-1])
        failed.line = finding.line
        return failed

    def _time(self) -> None:
        """Time it, and check what it gives afterwards."""
        assert self._runner is not None
        assert self._verifier is not None
        self._measured = timing.measure(
            self._bench,
            self._runner,
            self._settings,
            final=self._final,
            compiled=not self._judge.compile_message,
            path=self._path,
            weights=self._weights,
            waiting=lambda text: self._progress(text, WAITING_S),
        )
        self._verifier.check_again()

    def _considering_weights(self, finding: Finding) -> Finding:
        """A wrong result after the weights could not be loaded is the fault of the weights."""
        if self._weights_message and finding.status == "WRONG_RESULT":
            text = " ".join(self._weights_message.split())[:600]
            return Finding("LOAD_ERROR", f"The reference's weights do not load, and built anew it differs: {text}")
        return finding

    def _praise(self) -> str:
        notes = []
        if self._weights_message:
            text = " ".join(self._weights_message.split())[:300]
            notes.append(f"The reference's weights do not load into it, it only matches when built anew: {text}")
        if self._measured is not None:
            notes += self._measured.notes
        return " ".join(notes)

    def _verdict(self, finding: Finding) -> dict[str, Any]:
        """Put the verdict together; the runner is dead afterwards, so that its log is complete."""
        log = finding.details
        if self._runner is not None:
            self._judge.children.household.end(self._runner)
            captured = self._runner.log()
            log = f"{captured}\n{log}" if captured and log else captured or log
            self._stages.append(("build", self._runner.build_s))
        measured = self._measured if finding.status == "OK" else None
        times = measured.times if measured else None
        with_compile = measured is not None and measured.with_compile
        verifier = self._verifier
        return {
            "status": finding.status,
            "message": finding.message,
            "line": finding.line,
            "compiler": finding.compiler,
            "log": cut(log, int(self._settings["log_limit"])),
            "errors": verifier.figures.to_wire() if verifier and verifier.compared else None,
            "runtime": times.timing("candidate") if times else None,
            "speedup_vs_eager": times.ratio("eager", "candidate") if times else None,
            "speedup_vs_compile": times.ratio("compile", "candidate") if times and with_compile else None,
            "weights_loaded": not self._weights_message,
            "environment": self._judge.environment,
            "stages_s": stages(self._stages),
        }
