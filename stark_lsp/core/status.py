"""Enums for everything that has a status or a kind; a sentence for each member."""

from __future__ import annotations

from enum import Enum


class VerdictStatus(str, Enum):
    """What evaluation says about one candidate: `OK`, or exactly one reason against it."""

    OK = "OK"
    """Compiled, ran, matched the reference on every seed, and was timed."""
    REFUSED = "REFUSED"
    """The static check refused the source, which was never run; or it asked for a build that is not allowed."""
    COMPILE_ERROR = "COMPILE_ERROR"
    """A compiler rejected a kernel of the candidate."""
    LOAD_ERROR = "LOAD_ERROR"
    """The candidate file, its class, or the reference's weights could not be loaded."""
    RUNTIME_ERROR = "RUNTIME_ERROR"
    """The forward pass raised."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    """Host or device memory ran out."""
    TIMED_OUT = "TIMED_OUT"
    """A deadline passed and the process tree was killed."""
    WRONG_SHAPE = "WRONG_SHAPE"
    """An output differs in structure or shape."""
    WRONG_DTYPE = "WRONG_DTYPE"
    """An output differs in dtype or device."""
    WRONG_RESULT = "WRONG_RESULT"
    """An output differs in value beyond the tolerance."""
    NOT_FINITE = "NOT_FINITE"
    """An output holds NaN or infinity where the reference does not."""
    MUTATED_INPUT = "MUTATED_INPUT"
    """An input was changed, which the reference does not do."""
    NONDETERMINISTIC = "NONDETERMINISTIC"
    """Two calls with equal inputs gave different outputs beyond the tolerance."""
    CHEATED = "CHEATED"
    """The candidate tampered with the judge or did not do the work it was timed for."""
    CRASHED = "CRASHED"
    """The candidate's process died, for instance by a segmentation fault."""
    NO_CANDIDATE = "NO_CANDIDATE"
    """The agent gave nothing to judge: it declined, was cut off, or its answer could not be read."""

    @property
    def failed(self) -> bool:
        """Whether a node with this verdict counts as failed in the search."""
        return self is not VerdictStatus.OK

    @property
    def early(self) -> bool:
        """Whether it says nothing of the idea yet, so that whoever wrote the candidate may correct it at once.

        What is found names its place, seldom takes the judge more than a build, and can be mended by whoever reads it:
        no kernel was compared with the original. Wrong values, crashes, races and deadlines are not early, since they
        need another thought and the window of other attempts, which the debug agent has; nor is what was caught
        cheating, which nobody is asked to hide better.
        """
        return self in _EARLY


_EARLY = frozenset(
    {
        VerdictStatus.NO_CANDIDATE,
        VerdictStatus.REFUSED,
        VerdictStatus.COMPILE_ERROR,
        VerdictStatus.LOAD_ERROR,
        VerdictStatus.RUNTIME_ERROR,
        VerdictStatus.WRONG_SHAPE,
        VerdictStatus.WRONG_DTYPE,
    }
)


class Dialect(str, Enum):
    """How a kernel is embedded in a candidate file."""

    RAW = "raw"
    """`extern "C"` launchers without torch headers, called through ctypes."""
    INLINE = "inline"
    """`load_inline` with `torch/extension.h`, as in the paper."""
    TRITON = "triton"
    """`@triton.jit` functions in the file."""
    TORCH = "torch"
    """No kernel of its own: PyTorch operators only."""


class AgentRole(str, Enum):
    """Who made a node."""

    ROOT = "root"
    """The reference itself."""
    CODE = "code"
    """A plan agent's advice, written down by the code agent."""
    DEBUG = "debug"
    """A repair of a failed parent by the debug agent."""
    SAMPLING = "sampling"
    """Written by a single agent that sees the reference alone."""
    REFLEXION = "reflexion"
    """Written by a single agent that refines what it is shown."""


class ModelRole(str, Enum):
    """In which role a model is asked; each has settings and templates of its own."""

    PLAN = "plan"
    """Proposes one optimization and marks its lines."""
    CODE = "code"
    """Carries a plan out."""
    DEBUG = "debug"
    """Repairs a failed candidate."""
    SAMPLING = "sampling"
    """Writes a candidate from the reference alone (the sampling baseline)."""
    REFLEXION = "reflexion"
    """Refines or repairs a candidate by its observations (the reflexion baseline and the search agent)."""


class StopReason(str, Enum):
    """How a model's answer ended."""

    COMPLETE = "complete"
    """It came to its own end."""
    MAX_TOKENS = "max_tokens"
    """It was cut off at the limit of tokens."""
    REFUSAL = "refusal"
    """The model declined to answer."""
    OTHER = "other"
    """Something else, which the answer's message names."""


class Grounding(str, Enum):
    """What anchors bind the code agent to (paper, section 4.3)."""

    OFF = "off"
    """Anchors are stripped before the code agent sees the plan; for the ablation."""
    REPORT = "report"
    """Edits outside the anchored spans are noted with the candidate."""
    REFUSE = "refuse"
    """A candidate with edits outside the anchored spans is not judged."""


class RunState(str, Enum):
    """Where a run stands."""

    PREPARING = "preparing"
    """Loading the reference, checking it and taking the baselines."""
    RUNNING = "running"
    """Attempts are being made."""
    FINISHED = "finished"
    """Ended by its budget or because the agents have nothing more to propose."""
    CANCELLED = "cancelled"
    """Stopped by the user; can be resumed."""
    INTERRUPTED = "interrupted"
    """Its process died before the end; can be resumed."""
    FAILED = "failed"
    """Could not go on: bad input, or a fault that the message explains."""

    @property
    def over(self) -> bool:
        """Whether the run is at an end (a cancelled or interrupted one may be resumed)."""
        return self not in (RunState.PREPARING, RunState.RUNNING)


class Limit(str, Enum):
    """What ended a search: a part of its budget, or its agents."""

    ATTEMPTS = "attempts"
    SECONDS = "seconds"
    TOKENS = "tokens"
    DOLLARS = "dollars"
    IDEAS = "ideas"
    """Nothing was left to try."""
    CANDIDATES = "candidates"
    """Attempts in a row left nothing to judge."""


class Decision(str, Enum):
    """What the user did with a proposal."""

    OPEN = "open"
    """Not decided yet."""
    ACCEPTED = "accepted"
    """The edit was applied."""
    REJECTED = "rejected"
    """The user said no; the reason is remembered."""
    KEPT = "kept"
    """Not decided, and not offered by itself any more: dismissed, or a better one took its place, or the run was
    imported. Whoever names the run can still accept it."""


class DeviceChoice(str, Enum):
    """Where the user asks to optimize."""

    AUTO = "auto"
    """CUDA when torch sees a GPU, else the CPU."""
    CPU = "cpu"
    CUDA = "cuda"


class Mode(str, Enum):
    """Module mode in which reference and candidate are compared and timed."""

    EVAL = "eval"
    """`module.eval()`; the editor's default."""
    AS_CONSTRUCTED = "as-constructed"
    """As the constructor left it; the convention of KernelBench suites."""
    TRAINING = "training"
    """`module.train()` with gradients: gradients are compared too, and forward with backward is timed."""


class Objective(str, Enum):
    """What the search ranks candidates by."""

    LATENCY = "latency"
    """What the caller of one call waits for, launches included."""
    DEVICE = "device"
    """What the device is busy for, as in a model that keeps it busy."""


class Isolation(str, Enum):
    """How strictly candidates must be kept apart from the rest of the machine."""

    AUTO = "auto"
    """The strongest layer that works here; refused where there is none."""
    STRICT = "strict"
    """Only in a sandbox with namespaces of its own (bubblewrap)."""
    OFF = "off"
    """Plain processes under the user's account; only for code the user trusts."""


class IsolationLayer(str, Enum):
    """What kept a candidate apart when a verdict was taken."""

    BUBBLEWRAP = "bubblewrap"
    """Layer A: bubblewrap namespaces and seccomp."""
    LANDLOCK = "landlock"
    """Layer B: Landlock and seccomp."""
    PROCESS = "process"
    """Layer C: a plain process; nothing kept it apart."""


class WriteMode(str, Enum):
    """Where an accepted proposal goes."""

    BESIDE = "beside"
    """A new class right after the original one."""
    REPLACE = "replace"
    """The new class takes the place and the name of the original one."""
    MODULE = "module"
    """A new file next to the original one."""


class KernelPlace(str, Enum):
    """Where what builds and loads kernels goes."""

    INLINE = "inline"
    """Into each file that has kernels, once."""
    PACKAGE = "package"
    """Into one `_stark_kernels.py` of the package."""


class InputSource(str, Enum):
    """Where a class's inputs come from."""

    FUNCTIONS = "functions"
    """`get_inputs()` and `get_init_inputs()` in the file (KernelBench format)."""
    TABLE = "table"
    """A `[[tool.stark.input]]` table in `pyproject.toml` or `[[stark.input]]` in `stark.toml`."""
    NONE = "none"
    """Nowhere yet; the editor offers to write `get_inputs`."""


class SteeringKind(str, Enum):
    """One thing a user may tell a run."""

    PIN = "pin"
    """Go on from this node as long as it may be expanded."""
    UNPIN = "unpin"
    """Let the policy choose again."""
    PRUNE = "prune"
    """Give up this node and all below it."""
    RESTORE = "restore"
    """Take a prune back."""
    HINT = "hint"
    """Tell the agents something: for one node and what comes of it, or for the whole run."""
    BUDGET = "budget"
    """Change what the run may spend."""
    PAUSE = "pause"
    """Begin no further attempt; those under way are finished."""
    RESUME = "resume"
    """Go on after a pause."""
