"""Verdict: what evaluation says about one candidate, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from stark_lsp.core.device import Device
from stark_lsp.core.status import VerdictStatus


class Stage(str, Enum):
    """Where judging a candidate stands, in this order; a kernel is built while it loads or when it is first called."""

    CHECK = "check"
    """Its source is read."""
    START = "start"
    """A process for it is started."""
    LOAD = "load"
    """Its file is run, its class constructed, and the weights loaded."""
    BUILD = "build"
    """Compilers are at work for it."""
    VERIFY = "verify"
    """It runs and is compared with the reference."""
    TIME = "time"
    """It takes turns with the reference."""
    PROFILE = "profile"
    """It is looked at by tools."""


NOT_BUILT = frozenset({Stage.CHECK, Stage.START, Stage.LOAD, Stage.BUILD})
"""Stages in which an attempt that failed, whatever its verdict, does not count as compiled."""


@dataclass(frozen=True)
class Interval:
    """A median or ratio with its 95 % interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"not an interval: {self.low} <= {self.value} <= {self.high}")


@dataclass(frozen=True)
class Timing:
    """Time of one call in milliseconds: median of n samples with a 95 % interval of the median."""

    median_ms: float
    low_ms: float
    high_ms: float
    n: int


@dataclass(frozen=True)
class CompilerMessage:
    """One diagnostic of a compiler."""

    line: int
    """1-based line in the kernel source that was compiled; 0 if unknown."""
    column: int
    text: str


@dataclass(frozen=True)
class ErrorFigures:
    """How far the candidate's outputs are from the reference's, worst over all outputs and seeds."""

    max_abs: float
    """Largest absolute difference."""
    max_rel: float
    """Largest absolute difference divided by max|reference|."""
    tolerance: float
    """The bound that `max_rel` was held against."""
    float64_max_rel: float | None = None
    """The same against a float64 reference, where one was affordable."""
    widened: bool = False
    """Whether float32 results differ by more than 1e-4 and 1e-4 of a value, which evaluators with a fixed tolerance
    (KernelBench's) call wrong, and which the original's own distance from float64 allows here."""


@dataclass(frozen=True)
class Environment:
    """Fingerprint of where a verdict was taken."""

    device: str
    """Human name, for instance "NVIDIA H100 80GB HBM3" or the CPU's model name."""
    device_type: str
    """`cpu` or `cuda`."""
    python: str
    interpreter: str
    """Path of the interpreter the worker runs under."""
    torch: str
    cuda: str | None = None
    driver: str | None = None
    compiler: str | None = None
    threads: int = 1
    """CPU threads torch uses."""
    dtypes: tuple[str, ...] = ()
    """Dtypes of the input tensors, without repetition."""
    shapes: tuple[str, ...] = ()
    """Shapes of the input tensors in order, for instance `8x128x768`."""
    isolation: str = "process"
    """Isolation layer of build and run: a value of `IsolationLayer`."""
    gradients: bool = False
    """Whether calls were timed where gradients are recorded; else under `torch.no_grad()`."""
    weights_dtype: str = ""
    """The dtype that the class is converted to after it was constructed, empty for none."""
    autocast: str = ""
    """The dtype that calls are cast to (`torch.autocast`), empty for none."""


@dataclass(frozen=True)
class Launch:
    """One kernel (on a CPU: one operator) that a forward pass ran, all its launches together."""

    name: str
    count: int = 1
    """Launches in one forward pass."""
    time_us: float = 0.0
    """Device time in one forward pass (on a CPU: time spent in the operator itself)."""
    grid: str = ""
    """Blocks of the first launch, for instance `128x1x1`."""
    block: str = ""
    """Threads of a block."""
    registers: int | None = None
    """Registers of a thread."""
    shared_bytes: int | None = None
    """Shared memory of a block, static and dynamic."""
    spill_bytes: int | None = None
    """Bytes of registers a thread spills to local memory."""
    occupancy: float | None = None
    """Share of the device's warps that fit at once, 0 to 1."""


@dataclass(frozen=True)
class Metric:
    """One hardware counter."""

    name: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Profile:
    """What one call does on the device (for training with backward), against what this device can do."""

    launched: tuple[Launch, ...] = ()
    """Longest first."""
    device_us: float | None = None
    """Time of all launches together."""
    bytes: int | None = None
    """Inputs, weights and outputs once each."""
    flops: int | None = None
    """Floating-point operations of the reference's matrix products and convolutions."""
    floor_us: float | None = None
    """What moving `bytes` or computing `flops` takes, whichever takes longer, at this device's measured best.

    A version that skips a part of them is faster.
    """
    bandwidth_share: float | None = None
    """`bytes` over the runtime, as a share of the measured bandwidth; above 1 where caches or masks help."""
    compute_share: float | None = None
    """`flops` over the runtime, as a share of the measured rate of this dtype."""
    bound: str = ""
    """What limits it most: `memory`, `compute` or `overhead`; empty if unknown."""
    metrics: tuple[Metric, ...] = ()
    """Counters of NVIDIA Nsight Compute, where permitted."""
    scalar_loops: tuple[str, ...] = ()
    """Loops for the CPU that the compiler did not vectorize, each with its line in the kernels' source."""
    notes: tuple[str, ...] = ()
    """What could not be measured, and why."""


@dataclass(frozen=True)
class Baselines:
    """Times of the reference itself, taken once for each problem."""

    eager: Timing
    compile: Timing | None = None
    """`torch.compile` default, or None when it failed."""
    compile_message: str = ""
    """Why there is no `torch.compile` time."""
    max_autotune: Timing | None = None
    """`torch.compile` with mode max-autotune, or None when it failed or was not asked for."""
    max_autotune_message: str = ""
    """Why there is no time of it."""


@dataclass(frozen=True)
class Reference:
    """What preparing a problem found out."""

    environment: Environment
    baselines: Baselines
    outputs: tuple[str, ...] = ()
    """Outputs as text, for instance `float32[8x128]`; with strides where they are not contiguous."""
    notes: tuple[str, ...] = ()
    """Things a user should know, such as a loaded machine."""
    profile: Profile | None = None
    device: Device | None = None
    """What it was judged on; None in records of versions that did not keep it."""


@dataclass(frozen=True)
class Swept:
    """Values of the constants that a candidate left open, and what came of them."""

    values: str
    """As they stand in its source: `BLOCK = 128, WARPS = 4`."""
    status: VerdictStatus
    speedup_vs_eager: Interval | None = None
    """From few rounds, unless they were judged in full."""


@dataclass(frozen=True)
class Verdict:
    """`OK` or exactly one failure, with the message a person needs and the figures behind it."""

    status: VerdictStatus
    message: str = ""
    line: int | None = None
    """1-based line in the candidate's source the message is about."""
    compiler: tuple[CompilerMessage, ...] = ()
    log: str = ""
    """Captured output of build and run, capped."""
    errors: ErrorFigures | None = None
    runtime: Timing | None = None
    """Present exactly when the status is `OK`."""
    speedup_vs_eager: Interval | None = None
    """Paired ratio eager / candidate, rounds interleaved in one session."""
    speedup_without_gradients: Interval | None = None
    """The same under `torch.no_grad()`, if the others are of calls that record gradients; of finalists."""
    speedup_with_backward: Interval | None = None
    """The same with backward after each call, if the others are of forward alone; of finalists."""
    device_share: float | None = None
    """Device time over the reference's, if the search ranks by that."""
    speedup_vs_compile: Interval | None = None
    speedup_vs_max_autotune: Interval | None = None
    eager: Timing | None = None
    """Time of eager in the same rounds; None in records of versions that did not keep it."""
    compiled: Timing | None = None
    """Time of torch.compile in the same rounds, None if it was not among them."""
    max_autotuned: Timing | None = None
    """The same of torch.compile with mode max-autotune."""
    weights_loaded: bool = True
    """False if the candidate only matches when built with the same seed (`load_state_dict` failed)."""
    environment: Environment | None = None
    stages_s: tuple[tuple[str, float], ...] = ()
    """Seconds spent in each stage of judging."""
    failed_in: Stage | None = None
    """Where the reason against it lies; None if `OK`, if nothing was judged, and in records of versions that did not
    keep it. `BUILD` goes before the stage that asked for the build: the status does not tell a build that was stopped
    from a run that was."""
    profile: Profile | None = None
    """What it launched, against what the device can do."""
    notes: tuple[str, ...] = ()
    """What a user should know about these figures, such as a machine that others load."""
    tuned: str = ""
    """The values that the candidate has now of what it left open; empty if it left nothing open."""
    swept: tuple[Swept, ...] = ()
    """What was tried for that, its own values first."""

    @property
    def ok(self) -> bool:
        """Whether the candidate was verified."""
        return self.status is VerdictStatus.OK

    @property
    def runtime_ms(self) -> float | None:
        """Median runtime in milliseconds, None unless `OK`."""
        return self.runtime.median_ms if self.runtime is not None else None

    def baselines(self, prepared: Baselines) -> Baselines:
        """Return the times of the reference that stand next to this runtime.

        Those of the candidate's own rounds, so that times and ratios tell the same; what is not among them is as it was
        `prepared`.
        """
        return replace(
            prepared,
            eager=self.eager or prepared.eager,
            compile=self.compiled or prepared.compile,
            max_autotune=self.max_autotuned or prepared.max_autotune,
        )


@dataclass(frozen=True)
class EditCheck:
    """What came of trying a file as it would stand after an accept."""

    works: bool
    """Whether nothing speaks against the edit: its class matched the reference, or the file could not be tried."""
    tried: bool
    """Whether the edited file was loaded; a file whose own top level does not run in the sandbox cannot be."""
    message: str = ""
    """What failed, or why it could not be tried."""
    line: int | None = None
    """1-based line of the edited file."""
