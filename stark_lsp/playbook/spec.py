"""KernelSpec: what one fused kernel computes, independent of device and of how it is written.

A spec is a straight-line program in single-assignment form over an *iteration space*. Every operand
is aligned to the space from the right with broadcasting, as in PyTorch. A step is a pointwise
operation or one of the four primitive reductions over `reduce_dims`; a reduction's result has size 1
in those dims and broadcasts back when it is used again. Compound operations (softmax, layer_norm,
mean, var, logsumexp, …) never appear: `playbook/canonical/` writes them out in these primitives.

`strategies` build specs, `kernels` turn them into code; neither side knows the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ITEM_BYTES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
    "uint8": 1, "int8": 1, "bool": 1,
}  # fmt: skip
"""Bytes of one element by dtype."""

REDUCTIONS = frozenset({"sum", "amax", "amin", "prod"})
"""Primitive reductions, over all of `KernelSpec.reduce_dims`."""

COUNT = "@count"
"""As an argument: the number of elements a reduction runs over, known at run time."""

POINTWISE: dict[str, int] = {
    # arithmetic: name -> number of arguments
    "add": 2, "sub": 2, "mul": 2, "div": 2, "floor_div": 2, "remainder": 2, "pow": 2, "neg": 1, "abs": 1,
    "reciprocal": 1, "sqrt": 1, "rsqrt": 1, "square": 1, "sign": 1, "floor": 1, "ceil": 1, "round": 1,
    "trunc": 1, "maximum": 2, "minimum": 2, "fma": 3,
    # transcendental
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log1p": 1, "sin": 1, "cos": 1, "tan": 1, "tanh": 1,
    "atan": 1, "sinh": 1, "cosh": 1, "erf": 1, "sigmoid": 1, "softplus": 1, "log_sigmoid": 1,
    # comparison and logic; the result is a bool
    "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2, "logical_and": 2, "logical_or": 2, "logical_not": 1,
    "isnan": 1, "isinf": 1,
    # selection and conversion
    "where": 3, "cast": 1, "identity": 1,
}  # fmt: skip
"""Primitive pointwise operations and how many arguments each takes; semantics are torch's, NaN included.

`maximum`/`minimum`/`amax`/`amin` propagate NaN. `softplus` is log(1+exp(x)), stable for large |x|.
`cast` converts to the step's dtype. `div` is true division.
"""


@dataclass(frozen=True)
class Operand:
    """A tensor the kernel reads."""

    name: str
    """Python identifier; the launcher's parameter."""
    dtype: str
    """`float32`, `float64`, `float16`, `bfloat16`, `int64`, `int32`, `uint8` or `bool`."""
    shape: tuple[int, ...]
    """Example shape, broadcastable to the space from the right."""
    strided: bool = False
    """Whether the example is not contiguous, such as half of `chunk(2, -1)`; the kernel then takes rows that lie
    apart, and copies anything else first."""


@dataclass(frozen=True)
class Step:
    """One assignment `name = op(*args)`."""

    name: str
    op: str
    """A key of `POINTWISE` or a member of `REDUCTIONS`."""
    args: tuple[str | float | int | bool, ...]
    """Names of operands or of earlier steps, `COUNT`, or numbers (written as they are)."""
    dtype: str
    """dtype of the result by torch's rules; half types are computed in float32 in between."""


@dataclass(frozen=True)
class Output:
    """A step whose value leaves the kernel as a tensor."""

    step: str
    dtype: str
    reduced: bool = False
    """Whether the value has been reduced (size 1 in `reduce_dims`)."""
    keepdim: bool = True
    """For a reduced value: keep the reduced dims with size 1, or drop them."""
    leads: bool = True
    """Whether gradients lead back from it."""


@dataclass(frozen=True)
class KernelSpec:
    """What one fused kernel computes."""

    name: str
    """Python identifier, for instance `fused_gelu`; names the launcher and the C symbol."""
    space: tuple[int, ...]
    """Example shape of the iteration space; only its rank and the broadcast pattern may be relied on."""
    operands: tuple[Operand, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    reduce_dims: tuple[int, ...] = ()
    """Dims of the space, non-negative and ascending; empty for a purely pointwise kernel."""
    doc: str = ""
    """One line that says what it computes, for the comment above the kernel."""
    source_lines: tuple[str, ...] = field(default=())
    """The user's lines it stands for, for the comment above the kernel."""

    def __post_init__(self) -> None:
        known = {operand.name for operand in self.operands} | {COUNT}
        for step in self.steps:
            if step.op not in POINTWISE and step.op not in REDUCTIONS:
                raise ValueError(f"{self.name}: unknown operation {step.op!r}")
            missing = [arg for arg in step.args if isinstance(arg, str) and arg not in known]
            if missing:
                raise ValueError(f"{self.name}: {step.name} uses {missing} before they are known")
            known.add(step.name)
        if not self.outputs:
            raise ValueError(f"{self.name}: no outputs")
        for output in self.outputs:
            if output.step not in known:
                raise ValueError(f"{self.name}: output {output.step!r} is not known")
        if any(not 0 <= dim < len(self.space) for dim in self.reduce_dims):
            raise ValueError(f"{self.name}: reduce_dims {self.reduce_dims} outside the space {self.space}")
