"""Judge candidates of one problem: what is made once, and one attempt after another."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch

from ...contract.errors import Bad, Broken
from .. import sandbox
from ..building.cache import TritonCache, use_inductor_cache
from ..building.service import BuildService
from ..correctness import stepping
from ..device import capabilities, fingerprint, observe, toolkit, turns, vectors
from ..processes import confinement
from ..processes.environment import cpu_threads, runner_environment
from ..processes.failures import RunnerError, RunnerFailure
from ..processes.limits import Limits, memory_limit
from ..processes.pool import Pool, spares
from ..processes.runners import RunnerProcess
from ..processes.spawning import BUILDER, RUNNER, Started
from ..profile import cost, roofline
from ..profile.assemble import make_profile
from ..profile.launches import profile_call
from ..reference import modules
from ..reference.original import Original
from ..reference.reference import Reference
from ..timing import timing
from ..timing.problem_runners import COMPILED, Bench, Progress, timing_inputs
from ..transport import handover, tensorfile
from . import early, edited
from .attempt import WAITING_S, Attempt
from .early import MANY_CORES
from .told import Told
from .writer import Writer

REFERENCE_RUNNERS = 2 + len(COMPILED)
"""Eager, a second process of it, and what torch.compile makes."""
WANTED = {"compile": "compile_baseline", "max_autotune": "max_autotune"}
"""Of each side that torch.compile makes, the setting that asks for it."""
LATE = "{} was still at work when nobody waited for it any more."
WRONG = 0.1
"""Share of its size by which a result of torch.compile is off that has no time: no rounding explains it."""
PENDING, UNWANTED = "It is being compiled beside the search.", "Switched off."
EXTENSIONS = "cpp_extension"
"""Named by every candidate that has something built."""
BESIDE_LIMIT = 64 << 20
"""Bytes of a case's inputs up to which there is room for as much beside its outputs."""
SPARE_S = 30.0
"""Longest wait for the first spare; the others come up once the first candidate is judged, or while it is built."""


class Judge:
    """Everything that is made once for a problem, and the judging of one candidate after another.

    Parameters
    ----------
    problem, settings
        `core.Problem` and `core.EvaluationSettings` in wire form.
    folder
        Private folder, removed by whoever made it.
    writing
        Whether `written` will be asked, so that it may come up already.
    begun
        What `early.begun` gave.
    """

    def __init__(
        self,
        problem: dict[str, Any],
        settings: dict[str, Any],
        folder: str,
        cache_dir: str,
        progress: Progress,
        *,
        writing: bool = False,
        begun: Future[tuple[Started, ...]] | None = None,
    ) -> None:
        self.settings, self._begun = settings, begun
        load_s = float(settings["load_timeout_s"])
        busy = fingerprint.load_notes()
        os.makedirs(cache_dir, exist_ok=True)
        if problem.get("device") != "cpu":
            observe.look_around()
        self.reference = Reference(
            problem,
            int(settings["seeds"]),
            folder,
            lambda text: progress(text, load_s),
            special_inputs=bool(settings["special_inputs"]),
            gradients=bool(settings["gradients"]),
            loaded=lambda original: self._begin(original, cache_dir, writing, progress),
        )
        reference, on_gpu = self.reference, self.reference.device == "cuda"
        self.parallel = min(int(settings["parallel"]) or _parallel(reference.device), reference.plan.parallel)
        self.pool.prepared(self._gpu(), confinement.project_files(reference.path))
        progress("Looking at the machine", 60.0)
        self.environment = fingerprint.environment(reference.device, self.threads, reference.cases[0].forms)
        parts = ("python", "interpreter", "torch", "cuda", "compiler", "device")
        toolchain = [str(self.environment[key]) for key in parts]
        self.triton = TritonCache(cache_dir, toolchain)
        self._inductor = use_inductor_cache(cache_dir)
        layer = self.pool.confinement.layer
        self.environment["isolation"] = layer.value
        self.environment["gradients"] = reference.gradients
        self.environment["weights_dtype"] = reference.weights_dtype
        self.environment["autocast"] = reference.autocast
        if reference.unconverted:
            reference.notes.append(reference.unconverted)
        if reference.autocast:
            how = f'torch.autocast("{reference.device}", torch.{reference.autocast})'
            reference.notes.append(f"The class and its candidates are called under {how}.")
        if reference.weights_dtype:
            how = f".to(torch.{reference.weights_dtype})"
            reference.notes.append(f"The class and its candidates are converted by {how} once they are constructed.")
        if layer is sandbox.Layer.PROCESS:
            reference.notes.append("Isolation is off: candidates run as plain processes under your account.")
        reference.notes += busy
        jobs = max(1, min(8, (os.cpu_count() or 1) - 1))
        self.builds = BuildService(self._take_builder, cache_dir, toolchain, jobs, self.pool.end)
        if on_gpu and (os.cpu_count() or 1) >= MANY_CORES:
            threading.Thread(target=self.builds.warm, args=(True,), name="stark-aids", daemon=True).start()
        self.bench = Bench(reference, settings, self.pool, self.threads, self.pool.turns)
        self.writer = Writer(self.bench)
        if on_gpu and toolkit.find("nvcc") is None:
            reference.notes.append("nvcc was not found: only Triton kernels can be built.")
        self._baselines: dict[str, Any] = {"eager": self._time_eager(progress, writing), **dict.fromkeys(COMPILED)}
        self._baselines |= {f"{name}_message": PENDING if self._wanted(name) else UNWANTED for name in COMPILED}
        self._compiling = threading.Lock()
        if not reference.plan.compiled or not any(map(self._wanted, COMPILED)):
            # Gigabytes have no room beside a candidate; where nothing is wanted there is nothing to wait for.
            self.baselines(progress)
        self.cost: dict[str, Any] = {}
        self.calibration: dict[str, Any] | None = None
        self.profile = self._take_profile(cache_dir, progress) if settings["profile"] else None
        measured = self.calibration
        reliable = measured is not None and roofline.BUSY not in measured["notes"]
        self.capabilities = capabilities.describe(reference.device, measured if reliable else None)
        reference.release()
        self.pool.fill(1)
        if on_gpu:
            # What is under way now would be waited for by the first candidate.
            progress("Getting ready for the first candidate", SPARE_S)
            self.pool.await_spares(RUNNER, SPARE_S)

    def _begin(self, original: Original, cache_dir: str, writing: bool, progress: Progress) -> None:
        """Have processes come up that are wanted once the reference has been run; importing torch takes them longest.

        Raises `Bad` where candidates cannot be kept apart as it is wanted.
        """
        device, settings = original.device, self.settings
        self.threads = cpu_threads(device, torch.get_num_threads())
        torch.set_num_threads(self.threads)
        vectors.look_up()
        progress("Finding out how candidates can be kept apart", 180.0)
        try:
            chosen = sandbox.choose(str(settings["isolation"]), gpu=device == "cuda")
        except sandbox.Refused as error:
            raise Bad(error.reason, error.cure) from error
        locks = turns.user_folder(os.path.join(os.path.dirname(os.path.abspath(cache_dir)), "slots"))
        on_device = turns.Turns(locks, fingerprint.device_key(device))
        observe.STRANGERS.judges = on_device.judges
        self.pool = Pool(
            runner_environment(self.threads, cache_dir, fingerprint.architecture(device)),
            original.folder,
            int(settings["log_limit"]),
            confinement.Confinement(chosen.layer, device == "cuda", confinement.project_files(original.path)),
            Limits(memory_limit(float(settings["memory_share"]))),
            on_device,
            spares=spares(device),
            early=self._begun.result() if self._begun is not None else (),
        )
        self.pool.begin(*early.roles(settings, writing=writing))
        # The next candidate finds processes that have imported torch already.
        self.pool.fill(1)

    def _gpu(self) -> handover.Gpu | None:
        """Return what runners share with the judge on the GPU; None on a CPU."""
        reference = self.reference
        if reference.device != "cuda":
            return None
        cases = [*reference.cases, *reference.special]
        paths = [path for case in cases for path in (case.inputs_path, case.cotangents_path) if path]
        rotating = handover.size_of(timing_inputs(reference))
        children = REFERENCE_RUNNERS + self.parallel + spares(reference.device)
        total = torch.cuda.mem_get_info()[1]
        # Beside the outputs, small inputs that were changed and gradients come back.
        answered = [2 * case.outputs.nbytes + min(case.inputs_nbytes, BESIDE_LIMIT) for case in cases]
        nbytes = handover.exchange_bytes(
            [rotating, *(handover.size_of([path]) for path in paths)],
            answered,
            children=children,
            resident=handover.size_of(paths),
            total=total,
        )
        if nbytes:
            return handover.Gpu(handover.Resident(paths), nbytes, 0)
        piece = handover.piece_bytes(answered, children=children, total=total)
        return handover.Gpu(handover.Resident([]), piece, 2 * max(answered) + tensorfile.ROOM)

    def _take_builder(self) -> RunnerProcess:
        builder = self.pool.take(BUILDER)
        self.pool.building()
        return builder

    def describe(self) -> dict[str, Any]:
        """Return `core.Reference` in wire form."""
        return {
            "environment": self.environment,
            "baselines": self._baselines,
            "outputs": list(map(tensorfile.layout_of, self.reference.cases[0].outputs.tensors)),
            "notes": list(self.reference.notes),
            "profile": self.profile,
            "device": self.capabilities,
        }

    def _time_eager(self, progress: Progress, writing: bool) -> dict[str, Any]:
        """Start the processes of eager and time it; what comes after it begins to come up."""
        progress("Timing the reference", self._timing_s)
        many = (os.cpu_count() or 1) >= MANY_CORES
        # While nobody times, so that the first spare comes up beside them.
        with self.bench.turns.working():
            self.bench.start_eager(at_once=many)
        if self.reference.plan.compiled and self._wanted("compile"):
            self.bench.begin("compile")
            if writing and many and self.reference.device == "cuda":
                self.writer.begin()
        self.pool.await_spares(RUNNER, SPARE_S)
        return dict(self._timed(["eager"], progress)["eager"])

    def _timed(self, names: list[str], progress: Progress) -> dict[str, Any]:
        """Return `core.Timing`s in wire form of sides of the reference, timed by turns; the first is eager."""
        progress("Timing the reference", self._timing_s)
        with self.bench.turn(lambda text: progress(text, WAITING_S)):
            times, notes = timing.baselines(self.bench, self.settings, names)
            # What is large could leave too little memory for what comes next.
            for name in names[1:] if not self.reference.plan.compiled else ():
                self.bench.drop(name)
        self.reference.notes += notes
        return {name: times.timing(name) for name in names}

    @property
    def _timing_s(self) -> float:
        return 2 * float(self.settings["run_timeout_s"]) * int(self.settings["rounds"]) + 300.0

    def baselines(self, progress: Progress) -> dict[str, Any]:
        """Return `core.Baselines` in wire form; what torch.compile makes is made and timed when this is first called.

        Candidates may be judged meanwhile.

        Raises
        ------
        Broken
            The reference could not be timed.
        """
        with self._compiling:
            for names in groups(list(COMPILED), self.reference.plan.beside + 1):
                untimed = [name for name in self._make(names, progress) if self._baselines[name] is None]
                if untimed:
                    self._baselines |= self._timed(["eager", *untimed], progress)
        return self._baselines

    def compiled(self, progress: Progress) -> list[str]:
        """Have torch.compile make what is wanted; returns which of `COMPILED` are timed beside finalists."""
        with self._compiling:
            return self._make(list(COMPILED), progress)[: self.reference.plan.beside]

    def _make(self, names: list[str], progress: Progress) -> list[str]:
        """Have torch.compile make those that are wanted and not made yet; returns which of `names` can be timed."""
        for name in names:
            if self._baselines[f"{name}_message"] == PENDING:
                self._baselines[f"{name}_message"] = self._compile(name, progress)
        return [name for name in names if not self._baselines[f"{name}_message"]]

    def learn(self, measured: timing.Measured) -> None:
        """Take the times of the reference in a finalist's rounds for what was not timed before."""
        untimed = [name for name in measured.beside if self._baselines[name] is None]
        if untimed:
            self._baselines |= {name: measured.times.timing(name) for name in ["eager", *untimed]}

    def _wanted(self, name: str) -> bool:
        return bool(self.settings.get(WANTED[name]))

    def _compile(self, name: str, progress: Progress) -> str:
        """Have torch.compile make one of `COMPILED`; returns why there is none, nothing if there is."""
        words = "torch.compile" if COMPILED[name] == "default" else f"torch.compile ({COMPILED[name]})"
        if self.bench.gave_up:
            return LATE.format(words)
        progress(f"Compiling the reference with {words}", 4 * float(self.settings["compile_timeout_s"]) + 300.0)
        try:
            self.bench.compile(name)
            off = self.bench.off(name)
        except RunnerFailure as error:
            if self.bench.gave_up:
                return LATE.format(words)
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            kind = error.report["types"][0] if isinstance(error, RunnerError) else type(error).__name__
            return f"{words} failed: {kind}: {lines[0][:300]}" if lines else f"{words} failed: {kind}"
        if off > WRONG:
            self.bench.drop(name)
            by = f"off by {100 * off:.2g} % of its size" if math.isfinite(off) else "not finite in other places"
            return f"{words} gives another result than the class itself, {by}, so nothing is compared with it."
        return ""

    def _take_profile(self, cache_dir: str, progress: Progress) -> dict[str, Any]:
        """Count what the reference needs, calibrate the device, and return the reference's profile."""
        progress("Profiling the reference", 300.0)
        device, reference = self.reference.device, self.reference
        with self.bench.turn():
            module = reference.module.to(device)
            arguments = reference.arguments(reference.cases[0].inputs_path)
            training, step = reference.mode == modules.TRAINING, stepping.TimedStep()

            def call() -> Any:
                if training:
                    return step(module, arguments)
                with modules.forward_context(reference.mode, gradients=reference.gradients):
                    return module(*arguments[0], **arguments[1])

            if training:
                # What flows into its outputs is made by the first one.
                call()
            self.cost = cost.measure(module, call, arguments)
            self.calibration = roofline.calibration(cache_dir, device)
            claimed = profile_call(call, device)
        return make_profile(claimed, None, self.cost, self.calibration, float(self._baselines["eager"]["median_ms"]))

    def analyze(self, progress: Progress) -> dict[str, Any]:
        """Return the playbook's analysis of the reference."""
        from .. import analysis

        if self.reference.autocast:
            # Its graph has no casts; what torch.compile writes has them.
            return {"untraceable": {"message": "its own kernels are not for autocast", "path": None, "line": None}}
        if self.reference.kept:
            return {"untraceable": {"message": self._keeps(), "path": None, "line": None}}
        self.reference.module.to(self.reference.device)
        args, kwargs = self.reference.arguments(self.reference.cases[0].inputs_path)
        try:
            with modules.forward_context():
                found = dict(analysis.analyze(self.reference.module, args, kwargs))
        except analysis.NotTraceable as error:
            found = {"untraceable": {"message": str(error), "path": error.path, "line": error.line}}
        finally:
            self.reference.release()
        return found

    def _keeps(self) -> str:
        """Say what forward does that no rewritten one would."""
        return f"forward keeps something on the module or in the file ({', '.join(self.reference.kept[:3])})"

    def written(
        self, recipe: dict[str, Any], progress: Progress, cancelled: Callable[[], bool] = bool
    ) -> dict[str, Any]:
        """Return what torch.compile writes for the reference, or Inductor by a recipe; `none` says why not."""
        if not self.settings["compile_baseline"]:
            return {"none": ""}
        if self.reference.kept:
            return {"none": self._keeps()}
        limit = float(self.settings["compile_timeout_s"]) + float(self.settings["load_timeout_s"])

        def begin() -> None:
            progress("Reading what torch.compile writes", limit)

        begin()
        return self.writer.written(recipe, lambda text: progress(text, WAITING_S), begin, cancelled)

    def clear(self) -> None:
        """Wait until nothing is left of the candidates before.

        Raises
        ------
        Broken
            Something cannot be ended.
        """
        self.pool.await_ends()
        stuck = self.pool.stuck()
        if stuck:
            raise Broken(
                f"Process {stuck[0]} cannot be ended: it hangs in the system, most likely in the driver of the device. "
                "Nothing more is started there.",
                "Wait until the process is gone (ps shows it), or restart the machine.",
            )

    def check_edit(self, path: str, text: str, qualname: str, told: Told, progress: Progress) -> dict[str, Any]:
        """Return `core.EditCheck` in wire form for a file as it would stand after an accept, see `edited.check`."""
        with self.pool.judging():
            return edited.check(self, path, text, qualname, told, progress)

    def judge(
        self,
        candidate: dict[str, Any],
        final: bool,
        progress: Progress,
        told: Told | None = None,
        tools: bool = False,
        until: str = "",
    ) -> dict[str, Any]:
        """Return `core.Verdict` in wire form; parameters as of `Attempt`.

        Raises
        ------
        Broken
            The machine or the reference failed, not the candidate.
        """
        if EXTENSIONS in candidate["source"]:
            self.pool.keep_spares(BUILDER, 1)
        attempt = Attempt(self, candidate, final, progress, told or Told(candidate["source"]), tools, until)
        with self.pool.judging(), contextlib.ExitStack() as ending:
            ending.callback(attempt.end)
            verdict = attempt.run()
            if verdict["status"] == "OK":
                # It did what it was asked and rests; whatever else happened is over with its verdict.
                self.pool.end_behind(ending.pop_all().close)
            return verdict

    def count(self, candidate: dict[str, Any], kernel: str, progress: Progress, told: Told) -> dict[str, Any]:
        """Return hardware counters of a kernel of a verified candidate, see `Attempt.count`."""
        with self.pool.judging():
            return Attempt(self, candidate, False, progress, told).count(kernel)


def groups(names: list[str], most: int) -> list[list[str]]:
    """Return names in groups of at most `most`, in order."""
    return [names[begin : begin + most] for begin in range(0, len(names), most)]


def _parallel(device: str) -> int:
    """Return how many candidates this machine judges well at the same time.

    Timing is one at a time in any case; building and verifying go on meanwhile. On a CPU they would disturb it, so
    there is little to gain there.
    """
    cores = os.cpu_count() or 1
    return max(1, min(4, cores // 4)) if device == "cuda" else 1 + (cores >= 4)
