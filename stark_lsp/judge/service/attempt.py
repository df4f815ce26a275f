"""The judging of one candidate: build and load, verify, time, profile."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...contract.errors import cut
from ..correctness import ieee
from ..correctness.classify import Failed, Finding, asking, stages
from ..correctness.verify import Verifier
from ..processes.limits import RestWatch
from ..processes.runners import RunnerProcess
from ..processes.spawning import RUNNER
from ..profile.assemble import make_profile, never_launched
from ..profile.names import base
from ..reference import training
from ..reference.loading import by_package
from ..timing import rounds, timing
from ..timing.problem_runners import Progress, loading
from ..tools import finalist
from ..transport import claims
from .asked import Asked
from .told import Told

if TYPE_CHECKING:
    from .judging import Judge


STAGES = {
    "start": "Starting a process for the candidate",
    "load": "Loading the candidate",
    "verify": "Verifying the candidate",
    "time": "Timing the candidate",
    "profile": "Profiling the candidate",
}
"""What is said of each stage."""
START_LIMIT_S = 300.0
BRIEF_S = 1.0
"""Seconds of timing after which a brief one ends, once there are enough rounds."""
WAITING_S = 24 * 3600.0
"""Others may use the device for long; waiting for them is no fault."""


def briefly(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with as little timing as tells faster from slower; a profile only where that is what counts."""
    return {
        **settings,
        "rounds": min(int(settings["rounds"]), rounds.FEWEST),
        "timing_s": min(float(settings["timing_s"]), BRIEF_S),
        "timed_calls": 0,
        "profile": settings["profile"] and settings["objective"] == "device",
    }


@dataclass(eq=False)
class Attempt:
    """The judging of one candidate."""

    judge: Judge
    """Everything that was made once for the problem."""
    candidate: dict[str, Any]
    """`core.Candidate` in wire form."""
    final: bool
    """Time it longer, and against torch.compile as well."""
    progress: Progress
    """Told what begins and how long it may take."""
    told: Told
    """What the server read in it."""
    tools: bool = False
    """Build a finalist as stock torch does; on a GPU run it under a memory checker."""
    until: str = ""
    """Stop after this stage of `core.Stage`, for a trial that is no verdict; empty for all of them. `glance`: run it on
    one case and time it in few rounds."""
    document: str = ""
    """Where in the project the source stands as a file of its own, with an accepted candidate in it."""

    def __post_init__(self) -> None:
        self._bench, self._reference, self._settings = self.judge.bench, self.judge.reference, self.judge.settings
        if self.until == "glance":
            self._settings = briefly(self._settings)
        self._source: str = self.candidate["source"]
        self._runner: RunnerProcess | None = None
        self._checker: RunnerProcess | None = None
        """Runs it under a memory checker."""
        self._rest: RestWatch | None = None
        self._cached = False
        """Whether Triton has compiled this source before."""
        self._forwarded = False
        self._asked = Asked(self.told, self.judge.builds, float(self._settings["build_timeout_s"]))
        self._compiled: list[str] = []
        """What of `problem_runners.COMPILED` a finalist is timed beside."""
        self._path = self.document
        self._stock = bool(self.document) or (self.final and self.tools)
        """Whether extensions are built as the user's machine will build them."""
        self._verifier: Verifier | None = None
        self._weights_message = ""
        self._weights = self._reference.weights_path
        """The file of the judge whose weights the candidate has now."""
        self._stages: list[Any] = []
        self._measured: timing.Measured | None = None
        self._profile: dict[str, Any] | None = None
        self._notes: list[str] = []
        self._work = contextlib.ExitStack()
        """Held while this attempt may use the device, so that nobody times on it meanwhile."""
        self._works = False
        """Whether it does; while it is timed it has the device for itself instead."""

    def run(self) -> dict[str, Any]:
        """Go through all steps up to the first failure."""
        try:
            with self._stage("start"):
                self.judge.clear()
                runner = self._start()
                if self._watched and self._settings["sanitizer"]:
                    self._checker = finalist.begin_memory(self.judge, self.told.kernels)
            with self._working():
                with self._stage("load"):
                    self._weights_message = self._load(runner)
                if self.until == "load":
                    return self._verdict(Finding("OK", ""))
                self._verifier = Verifier(self._reference, self._ask, runner, self._weights_message, self._without_tf32)
                with self._stage("verify"):
                    self._verifier.run(until=self.until)
            self._notes += self._verifier.notes
            if self.until in ("build", "verify"):
                return self._verdict(self._asked.considered(Finding("OK", "")))
            if self.final:
                # It may still be compiled.
                self._compiled = self.judge.compiled(self.progress)
            if self._checker is not None:
                finalist.await_ready(self._checker)
            with self._stage("time"):
                measured = self._time(runner)
            self._measured = measured
            self.judge.learn(measured)
            if self.until == "time":
                return self._verdict(self._asked.considered(Finding("OK", "")))
            with self._working(), self._stage("profile"):
                if self._reference.plan.large:
                    self._ask("time", "let_go")
                self._verifier.check_again()
                claimed = self._examine(runner)
            if claimed is not None:
                known = self._asked.resources, self.judge.cost, self.judge.calibration
                runtime_ms = measured.times.median("candidate")
                self._profile = make_profile(claimed, *known, runtime_ms, self._notes, self._asked.loops)
        except Failed as failure:
            return self._verdict(self._asked.considered(self._considering_weights(failure.finding)))
        except RecursionError:
            # Nothing here nests so deep but what the candidate returned.
            return self._verdict(Finding("WRONG_SHAPE", "The outputs are nested too deep to be read."))
        except torch.cuda.OutOfMemoryError:
            # In this process: outputs are compared beside whatever the candidate holds.
            return self._verdict(Finding("OUT_OF_MEMORY", "It left too little memory to compare its outputs."))
        text = " ".join(self._weights_message.split())[:300]
        praise = f"The reference's weights do not load into it, it only matches when built anew: {text}" if text else ""
        return self._verdict(self._asked.considered(Finding("OK", praise)))

    def count(self, kernel: str) -> dict[str, Any]:
        """Run a verified one once more and return `core.Profile` in wire form with hardware counters of that kernel."""
        self.progress("Reading hardware counters", self._limit("profile"))
        fill = partial(self.judge.triton.fill, self._source)
        self.judge.clear()
        with self._working():
            metrics, notes = finalist.read_counters(self.judge, base(kernel), self._load_again, fill)
        return {"metrics": metrics, "notes": notes}

    def end(self) -> None:
        """Kill the runner, keep what Triton compiled, remove what was written."""
        self._end_runner()
        if self._checker is not None:
            self.judge.pool.end(self._checker)
        if self._runner is not None:
            self._keep_compiled()
            self._runner.files.remove()

    def _keep_compiled(self) -> None:
        """Keep what Triton compiled, once."""
        if self._runner is not None and self._forwarded and not self._cached:
            self.judge.triton.keep(self._source, self._runner.files.triton)
            self._cached = True

    def _end_runner(self) -> None:
        if self._rest is not None:
            self._rest.end()
        if self._runner is not None:
            self.judge.pool.kill(self._runner)

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        """Measure a stage, and tell how long it may take at most."""
        self.progress(STAGES[name], self._limit(name))
        begin = time.monotonic()
        try:
            yield
        finally:
            self._stages.append((name, time.monotonic() - begin))
            if self._reference.plan.large:
                # What was compared here would be missed by the next process.
                torch.cuda.empty_cache()

    def _limit(self, name: str) -> float:
        """Return after how many seconds in a stage something other than the candidate must be broken."""
        run_s, build_s = float(self._settings["run_timeout_s"]), float(self._settings["build_timeout_s"])
        if name == "time":
            turns = int(self._settings["final_rounds" if self.final else "rounds"])
            compile_s = float(self._settings["compile_timeout_s"]) * max(1, len(self._compiled))
            return run_s * 3 * (turns + 4) + compile_s + build_s
        return START_LIMIT_S + 2 * build_s + run_s * (len(self._reference.cases) + len(self._reference.special) + 8)

    def _ask(self, stage: str, command: str, **params: Any) -> dict[str, Any]:
        """Ask the candidate's runner; what goes wrong is the candidate's failure."""
        assert self._runner is not None
        result = asking(self._runner, self._settings, self._path)(stage, command, **params)
        if command == "rebuild":
            self._weights = os.path.join(os.path.dirname(self._weights), os.path.basename(params["weights"]))
        if command == "forward":
            self._forwarded = True
        return result

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Use the device in the block; waits while somebody is timed on it."""
        with self._work:
            self._work.enter_context(self._bench.turns.working())
            self._works = True
            try:
                yield
            finally:
                self._works = False

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Let others time on the device in the block, where this attempt only works on it.

        Where it is timed it goes on holding it: waiting to work would be waiting for its own timing to end.
        """
        if self._reference.device != "cuda" or not self._works:
            yield
            return
        self._work.close()
        try:
            yield
        finally:
            self._work.enter_context(self._bench.turns.working())

    def _start(self) -> RunnerProcess:
        """Take a runner and give it the candidate."""
        runner = self._runner = self.judge.pool.take(RUNNER)
        self._rest = RestWatch(runner.watch_rest)
        self._cached = self.judge.triton.fill(self._source, runner.files.triton)
        return runner

    def _load(self, runner: RunnerProcess) -> str:
        """Load the candidate with the reference's weights; returns why they do not load, empty if they do."""
        told = self._loading(runner)
        self._path = self._path or told["path"]
        answer = self._ask("load", **told)
        message = claims.text(answer.get("weights_message"))
        if not message and self._reference.gradients and self._settings["special_inputs"]:
            problem = training.begins_otherwise(self._reference.begun, answer.get("begun"))
            if problem:
                raise Failed(Finding("WRONG_RESULT", problem))
        return message

    def _load_again(self, runner: RunnerProcess, seconds: float, *, weights: str = "") -> None:
        """Load the candidate into a further process."""
        runner.ask(run_s=seconds, build_s=seconds, **self._loading(runner, weights))

    def _without_tf32(self) -> list[torch.Tensor] | None:
        run_s = float(self._settings["run_timeout_s"])

        def load(runner: RunnerProcess) -> None:
            # Other weights may be in place by now.
            self._load_again(runner, run_s, weights=self._reference.weights_path)

        with self._aside():
            runner = self.judge.pool.take(RUNNER)
        # Compiling the kernels of a whole model once more would take longer than all else here.
        if self._runner is not None and not self._cached:
            self.judge.triton.keep(self._source, self._runner.files.triton)
        self.judge.triton.fill(self._source, runner.files.triton)
        try:
            return ieee.outputs_of(runner, load, self._reference, run_s)
        finally:
            self.judge.pool.end(runner)

    def _loading(self, runner: RunnerProcess, weights: str = "") -> dict[str, Any]:
        """Hand the candidate to a runner, and return the command to load it with all that goes with that."""
        runner.builds = lambda request: self._build(runner, request)
        how = loading(self._reference, runner, self.judge.threads, weights or self._weights)
        name = self.candidate["class_name"]
        context = self._reference.path
        how["context"] = context
        how["served"] = runner.files.write("served.py", self._reference.text) if by_package(context) else ""
        if self.document:
            path = runner.files.write("document.py", self._source)
            return {"command": "load_document", "path": path, "document": self.document, "qualname": name, **how}
        # Named after nothing that leads to the expected outputs.
        path = runner.files.write("candidate.py", self.told.judged)
        return {"command": "load_candidate", "path": path, "class_name": name, **how}

    def _build(self, runner: RunnerProcess, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a runner's request to build."""
        # The runner waits for the compiler, so others may time on the device.
        with self._aside():
            if not self._works:
                self._bench.wake()
            return self._asked.answer(runner, {**request, "stock": self._stock}, timed=not self._works)

    def _time(self, runner: RunnerProcess) -> timing.Measured:
        """Time it, taking turns with the reference."""
        beside = self._compiled
        timed = timing.Timing(self._bench, runner, self._settings, self.final, beside, self._path, self._weights)
        with self._bench.turn(lambda text: self.progress(text, WAITING_S)), self._bench.trimmed():
            self.progress(STAGES["time"], self._limit("time"))
            return timed.run()

    def _examine(self, runner: RunnerProcess) -> dict[str, Any] | None:
        """Look at what it launches; of a finalist also at memory errors.

        Returns what its process tells of a pass; None where no profile is wanted.
        """
        if not self._settings["profile"]:
            return None
        inputs = self._reference.cases[0].inputs_path
        claimed = self._ask("forward", "profile", inputs=runner.give(inputs))
        kernels = self.told.kernels
        if never_launched(kernels, claimed):
            names = ", ".join(sorted(kernels)[:3])
            self._notes.append(
                f"A forward pass launches none of its kernels ({names}): what is fast is PyTorch's own work."
            )
        if self._watched and self._settings["sanitizer"]:
            self.progress("Looking for memory errors", self._limit("profile"))
            checker, self._checker = self._checker, None
            if checker is not None:
                # Compilers are slow under the tool.
                self._keep_compiled()
                self.judge.triton.fill(self._source, checker.files.triton)
            self._notes += finalist.check_memory(
                self.judge, checker, self._load_again, kernels, lambda: self._asked.resources
            )
        return claimed

    @property
    def _watched(self) -> bool:
        """Whether it runs under tools as well."""
        return bool(self.final and self.tools and self._settings["profile"]) and self._reference.device == "cuda"

    def _device_share(self) -> float | None:
        """Return its device time over the reference's, where the search is to rank by that; None if unknown."""
        ours, theirs = ((profile or {}).get("device_us") for profile in (self._profile, self.judge.profile))
        return ours / theirs if self._settings.get("objective") == "device" and ours and theirs else None

    def _considering_weights(self, finding: Finding) -> Finding:
        """A wrong result after the weights could not be loaded is the fault of the weights."""
        if self._weights_message and finding.status == "WRONG_RESULT":
            text = " ".join(self._weights_message.split())[:600]
            return Finding("LOAD_ERROR", f"The reference's weights do not load, and built anew it differs: {text}")
        return finding

    def _verdict(self, finding: Finding) -> dict[str, Any]:
        """Put the verdict together; the runner does nothing more by then, so that its log is complete."""
        log = finding.details
        failed_in = None if finding.status == "OK" else finding.stage or self._stages[-1][0]
        if self._runner is not None:
            if finding.status == "OK":
                # `end` waits until it is gone; a context on a GPU takes its time.
                self._runner.strike()
            else:
                self._end_runner()
            log = "\n".join(filter(None, (self._runner.log(), log)))
            self._stages.append(("build", self._runner.build_s))
        measured = self._measured if finding.status == "OK" else None
        verifier = self._verifier
        return {
            "status": finding.status,
            "message": finding.message,
            "line": finding.line,
            "compiler": finding.compiler,
            "log": cut(log, int(self._settings["log_limit"])),
            "errors": asdict(verifier.figures) if verifier and verifier.compared else None,
            **(measured.to_wire() if measured else {}),
            "device_share": self._device_share() if measured else None,
            "weights_loaded": not self._weights_message,
            "environment": self.judge.environment,
            "stages_s": stages(self._stages),
            "failed_in": failed_in,
            "profile": self._profile,
            "notes": list(dict.fromkeys([*self._notes, *self._asked.notes, *(measured.notes if measured else [])])),
        }
