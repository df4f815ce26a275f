"""Judge candidates of one problem: build, verify, time."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

import torch

from . import compare, fingerprint, integrity, rounds, tensorfile
from .bench import RUNNER_FAILURES, Bench, Progress, reference_timed, time_round
from .builds import Build, BuildCache
from .classify import Finding, classify, stages
from .errors import Broken
from .reference import Reference, unchanged
from .runner import cut
from .runners import RunnerError, RunnerProcess

ROOM = 1 << 20
"""Bytes an output file may be longer than the reference's."""


class Failed(Exception):
    """The candidate failed; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Judge:
    """Everything that is made once for a problem, and the judging of one candidate after another.

    Parameters
    ----------
    problem, settings
        `core.Problem` and `core.EvaluationSettings` in wire form.
    folder
        Private folder, removed by whoever made it.
    cache_dir
        Folder that is kept between runs.
    progress
        Told what begins and how long it may take.
    """

    def __init__(
        self, problem: dict[str, Any], settings: dict[str, Any], folder: str, cache_dir: str, progress: Progress
    ) -> None:
        self._settings = settings
        load_s = float(settings["load_timeout_s"])
        load = fingerprint.load_average()
        os.makedirs(cache_dir, exist_ok=True)
        self.reference = Reference(problem, int(settings["seeds"]), folder, lambda text: progress(text, load_s))
        self._threads = torch.get_num_threads()
        inputs = self.reference.input_tensors()
        progress("Looking at the machine", 60.0)
        self.environment = fingerprint.environment(self.reference.device, self._threads, inputs)
        toolchain = [
            str(self.environment[key]) for key in ("python", "interpreter", "torch", "cuda", "compiler", "device")
        ]
        self._cache = BuildCache(cache_dir, toolchain)
        self.reference.notes += fingerprint.load_notes(load)
        self._bench = Bench(self.reference, settings, folder, cache_dir, self._threads)
        self._bench.household.settle()
        if self.reference.device == "cuda" and fingerprint.find_nvcc() is None:
            self.reference.notes.append("nvcc was not found: only Triton kernels can be built.")
        self._compile_message = "" if settings["compile_baseline"] else "Switched off."
        self._baselines = self._take_baselines(progress)
        self.reference.release()
        self._bench.keep_spare()

    def describe(self) -> dict[str, Any]:
        """Return `core.Reference` in wire form."""
        return {
            "environment": self.environment,
            "baselines": self._baselines,
            "outputs": list(tensorfile.describe(self.reference.cases[0].outputs)),
            "notes": list(self.reference.notes),
        }

    def _take_baselines(self, progress: Progress) -> dict[str, Any]:
        """Time eager and, if wanted, torch.compile, taking turns."""
        run_s = float(self._settings["run_timeout_s"])
        progress("Timing the reference", 2 * run_s * int(self._settings["rounds"]) + 300.0)
        try:
            sides = {"eager": self._bench.side("eager")}
        except RUNNER_FAILURES as error:
            details = error.report.get("traceback", "") if isinstance(error, RunnerError) else ""
            raise Broken(f"The reference could not be timed: {error}.", "Try again.", details=details) from error
        if not self._compile_message:
            limit = float(self._settings["compile_timeout_s"])
            progress("Compiling the reference with torch.compile", 4 * limit + 300.0)
            try:
                sides["compile"] = self._bench.side("compile")
            except RUNNER_FAILURES as error:
                self._compile_message = f"torch.compile failed: {self._first_line(error)}"
        progress("Timing the reference", 2 * run_s * int(self._settings["rounds"]) + 300.0)
        count = int(self._settings["rounds"])
        seconds = float(self._settings["timing_s"])
        times = reference_timed(
            self._bench, lambda: rounds.interleave(self._sides(list(sides)), count, seconds=seconds)
        )
        compiled = times.timing("compile") if "compile" in sides else None
        if os.path.getsize(self.reference.cases[0].inputs_path) > 1 << 28:
            # Two resident copies of a large problem could leave too little memory for a candidate.
            self._bench.drop("compile")
        return {"eager": times.timing("eager"), "compile": compiled, "compile_message": self._compile_message}

    @staticmethod
    def _first_line(error: Exception) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        kind = error.report["types"][0] if isinstance(error, RunnerError) else type(error).__name__
        return f"{kind}: {lines[0][:300]}" if lines else str(kind)

    def _sides(self, names: list[str]) -> dict[str, rounds.Side]:
        return {name: self._bench.side(name) for name in names}

    def analyze(self) -> dict[str, Any]:
        """Return the playbook's analysis of the reference."""
        from . import analysis, modules

        self.reference.module.to(self.reference.device)
        args, kwargs = self.reference.arguments(self.reference.cases[0].inputs_path)
        try:
            with modules.forward_context():
                return dict(analysis.analyze(self.reference.module, args, kwargs))
        except analysis.NotTraceable as error:
            return {"untraceable": {"message": str(error), "path": error.path, "line": error.line}}
        finally:
            self.reference.release()

    def judge(self, candidate: dict[str, Any], final: bool) -> dict[str, Any]:
        """Return `core.Verdict` in wire form.

        Parameters
        ----------
        candidate
            `core.Candidate` in wire form.
        final
            Time it longer, and against torch.compile as well.

        Raises
        ------
        Broken
            The machine or the reference failed, not the candidate.
        """
        attempt = _Attempt(self, candidate, final)
        try:
            return attempt.run()
        finally:
            attempt.end()
            self._bench.keep_spare()


class _Attempt:
    """The judging of one candidate."""

    def __init__(self, judge: Judge, candidate: dict[str, Any], final: bool) -> None:
        self._judge = judge
        self._bench = judge._bench
        self._reference = judge.reference
        self._settings = judge._settings
        self._source: str = candidate["source"]
        self._class_name: str = candidate["class_name"]
        self._final = final
        self._runner: RunnerProcess | None = None
        self._build: Build | None = None
        self._built = False
        self._folder = self._bench.fresh_folder()
        # Named after nothing that leads to the expected outputs.
        self._path = os.path.join(self._folder, "candidate.py")
        self._figures = compare.Figures()
        self._compared = False
        self._weights_message = ""
        self._trained = False
        self._last = 0
        self._stages: list[Any] = []
        self._times: rounds.RoundTimes | None = None

    def run(self) -> dict[str, Any]:
        """Go through all steps up to the first failure."""
        try:
            with self._stage("check"):
                refusal = integrity.check(self._source, self._class_name)
            if refusal is not None:
                return self._verdict(Finding("REFUSED", *refusal))
            self._load()
            with self._stage("verify"):
                self._verify()
            with self._stage("time"):
                self._time()
        except Failed as failure:
            return self._verdict(self._considering_weights(failure.finding))
        return self._verdict(Finding("OK", self._praise()))

    def end(self) -> None:
        """Kill the runner, release the build folder, remove what was written."""
        self._bench.household.end(self._runner)
        if self._build is not None:
            self._build.finish(self._built or self._build.cached)
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self._stages.append((name, time.monotonic() - begin))

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
        return result

    def _load(self) -> None:
        """Start the runner and load the candidate with the reference's weights."""
        with self._stage("start"):
            with open(self._path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self._source)
            self._build = self._judge._cache.open(self._source)
            self._runner = self._bench.start()
        with self._stage("load"):
            self._weights_message = self._ask(
                "load",
                "load_candidate",
                path=self._path,
                context=self._reference.path,
                class_name=self._class_name,
                init=self._reference.init_path,
                weights=self._reference.weights_path,
                device=self._reference.device,
                mode=self._reference.mode,
                threads=self._judge._threads,
                environment=self._build.environment(),
            )["weights_message"]

    def _forward(self, index: int, *, keep_inputs: bool = False) -> tuple[tensorfile.Loaded, tensorfile.Loaded | None]:
        """Run one case; returns outputs and, if wanted, the inputs afterwards."""
        case = self._reference.cases[index]
        outputs = os.path.join(self._folder, "outputs.raw")
        after = os.path.join(self._folder, "inputs-after.raw") if keep_inputs else ""
        for path in filter(None, (outputs, after)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._ask("forward", "forward", inputs=case.inputs_path, outputs=outputs, inputs_after=after)
        self._built = True
        expected = sum(tensor.numel() * tensor.element_size() for tensor in case.outputs.tensors)
        try:
            found = tensorfile.load(outputs, 4 * expected + ROOM)
            inputs = tensorfile.load(after, 2 * os.path.getsize(case.inputs_path) + ROOM) if after else None
        except tensorfile.Damaged as error:
            raise Failed(Finding("WRONG_SHAPE", f"The outputs could not be read back: {error}.")) from error
        return found, inputs

    def _verify(self) -> None:
        """Compare on every seed; on the first also twice, and with a look at the inputs afterwards.

        The later cases have other weights than the constructor gives.
        """
        for index, case in enumerate(self._reference.cases):
            if case.trained and self._weights_message:
                # It matches, if at all, only when built from the same seed.
                break
            if case.trained and not self._trained:
                self._ask("load", "rebuild", weights=self._reference.trained_path)
                self._trained = True
            self._last = index
            outputs, after = self._forward(index, keep_inputs=index == 0)
            self._compare(index, outputs)
            if after is not None:
                self._check_inputs(after)
                if self._reference.exact is not None:
                    errors = compare.relative_errors(self._reference.exact, outputs.tensors)
                    self._figures.float64 = max(errors) if errors else None
                again, _ = self._forward(index)
                self._repeat(index, again, "Called again with equal inputs, it gave another result: ")

    def _compare(self, index: int, outputs: tensorfile.Loaded) -> None:
        try:
            compare.compare(self._reference.cases[index].outputs, outputs, self._figures, self._reference.own_errors)
            self._compared = True
        except compare.Mismatch as error:
            self._compared = self._compared or error.status == "WRONG_RESULT"
            where = "" if index == 0 else f" (with other inputs, number {index + 1})"
            if self._trained:
                where = f" (with other weights than the constructor gives, inputs number {index + 1})"
            raise Failed(Finding(error.status, f"{error}{where}")) from error

    def _repeat(self, index: int, outputs: tensorfile.Loaded, words: str) -> None:
        """Compare once more; what matched before and does not now is not deterministic."""
        try:
            compare.compare(self._reference.cases[index].outputs, outputs, self._figures, self._reference.own_errors)
        except compare.Mismatch as error:
            raise Failed(Finding("NONDETERMINISTIC", words + str(error))) from error

    def _check_inputs(self, after: tensorfile.Loaded) -> None:
        """See that the inputs are as the reference leaves them."""
        wanted = self._reference.inputs_after
        if wanted is None:
            before = tensorfile.load(self._reference.cases[0].inputs_path)
            if unchanged(before, after):
                return
            changed = "its inputs"
            for number, (a, b) in enumerate(zip(before.tensors, after.tensors)):  # noqa: B905 - Python 3.9
                if a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()):
                    changed = f"its input number {number + 1}, {tensorfile.text_of(a)}"
                    break
            raise Failed(Finding("MUTATED_INPUT", f"It changed {changed}, which the reference leaves as it is."))
        try:
            compare.compare(wanted, after, compare.Figures(), None, "changed input")
        except compare.Mismatch as error:
            raise Failed(Finding("MUTATED_INPUT", f"It changes its inputs unlike the reference: {error}")) from error

    def _time(self) -> None:
        """Time it, taking turns with eager (and torch.compile), and check what it gives afterwards."""
        runner = self._runner
        assert runner is not None
        limit = float(self._settings["run_timeout_s"])
        try:
            self._bench.hold(runner, run_s=limit, build_s=float(self._settings["build_timeout_s"]))
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, "time", self._path)) from error
        names = ["eager"]
        if self._final and not self._judge._compile_message:
            names.append("compile")

        def candidate() -> list[float]:
            try:
                return time_round(runner, limit)
            except RUNNER_FAILURES as error:
                raise Failed(classify(error, "time", self._path)) from error

        def run() -> rounds.RoundTimes:
            try:
                sides = self._judge._sides(names)
            except RUNNER_FAILURES as error:
                raise Broken(f"The reference could not be timed: {error}.", "Try again.") from error
            sides["candidate"] = candidate
            if self._final:
                count, seconds = int(self._settings["final_rounds"]), float(self._settings["final_timing_s"])
                return rounds.interleave(sides, count, seconds=seconds)
            count, seconds = int(self._settings["rounds"]), float(self._settings["timing_s"])
            return rounds.interleave(sides, count, seconds=seconds, candidate="candidate")

        self._times = reference_timed(self._bench, run)
        outputs, _ = self._forward(self._last)
        self._repeat(self._last, outputs, "After it was timed, it gave another result: ")

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
        if self._times is not None and self._times.early:
            notes.append(f"Timing stopped early: it is more than {rounds.LOSER:g} times slower.")
        return " ".join(notes)

    def _verdict(self, finding: Finding) -> dict[str, Any]:
        """Put the verdict together; the runner is dead afterwards, so that its log is complete."""
        log = finding.details
        if self._runner is not None:
            self._bench.household.end(self._runner)
            captured = self._runner.log()
            log = f"{captured}\n{log}" if captured and log else captured or log
            self._stages.append(("build", self._runner.build_s))
        ok = finding.status == "OK"
        times = self._times if ok else None
        with_compile = times is not None and self._final and not self._judge._compile_message
        return {
            "status": finding.status,
            "message": finding.message,
            "line": finding.line,
            "compiler": finding.compiler,
            "log": cut(log, int(self._settings["log_limit"])),
            "errors": self._figures.to_wire() if self._compared else None,
            "runtime": times.timing("candidate") if times else None,
            "speedup_vs_eager": times.ratio("eager", "candidate") if times else None,
            "speedup_vs_compile": times.ratio("compile", "candidate") if times and with_compile else None,
            "weights_loaded": not self._weights_message,
            "environment": self._judge.environment,
            "stages_s": stages(self._stages),
        }
