"""Verdict: what evaluation says about one candidate, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from stark_lsp.core.status import VerdictStatus


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
    """Isolation layer of build and run."""


@dataclass(frozen=True)
class Baselines:
    """Times of the reference itself, taken once for each problem."""

    eager: Timing
    compile: Timing | None = None
    """`torch.compile` default, or None when it failed."""
    compile_message: str = ""
    """Why there is no `torch.compile` time."""


@dataclass(frozen=True)
class Reference:
    """What preparing a problem found out."""

    environment: Environment
    baselines: Baselines
    outputs: tuple[str, ...] = ()
    """Outputs as text, for instance `float32[8x128]`."""
    notes: tuple[str, ...] = ()
    """Things a user should know, such as a loaded machine."""


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
    speedup_vs_compile: Interval | None = None
    weights_loaded: bool = True
    """False if the candidate only matches when built with the same seed (`load_state_dict` failed)."""
    environment: Environment | None = None
    stages_s: tuple[tuple[str, float], ...] = ()
    """Seconds spent in each stage of judging."""

    @property
    def ok(self) -> bool:
        """Whether the candidate was verified."""
        return self.status is VerdictStatus.OK

    @property
    def runtime_ms(self) -> float | None:
        """Median runtime in milliseconds, None unless `OK`."""
        return self.runtime.median_ms if self.runtime is not None else None
