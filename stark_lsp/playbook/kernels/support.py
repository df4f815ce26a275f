"""Which specs can be written as a kernel, and why the others cannot."""

from __future__ import annotations

from stark_lsp.playbook.kernels.program import MAX_RANK, Layout, Program
from stark_lsp.playbook.kernels.types import COMPUTE, is_floating
from stark_lsp.playbook.spec import POINTWISE, REDUCTIONS, KernelSpec, Step

MAX_OPERANDS = 24
"""The most operands and outputs of one kernel; more would not fit into registers."""


def supports(spec: KernelSpec, device_type: str) -> str | None:
    """Tell whether a spec can be written as a kernel: None if so, else the reason for a person."""
    if device_type not in ("cpu", "cuda"):
        return f"there are kernels for cpu and cuda, not for {device_type}"
    if not spec.operands:
        return "it reads no tensor"
    if len(spec.operands) + len(spec.outputs) > MAX_OPERANDS:
        return f"it has more than {MAX_OPERANDS} operands and outputs"
    if len(spec.space) > MAX_RANK:
        return f"it has more than {MAX_RANK} dims"
    if 0 in spec.space:
        return "it has no elements"
    return _dtype_problem(spec) or _step_problem(spec) or _shape_problem(spec)


def _dtype_problem(spec: KernelSpec) -> str | None:
    dtypes = [o.dtype for o in spec.operands] + [s.dtype for s in spec.steps] + [o.dtype for o in spec.outputs]
    for dtype in dtypes:
        if dtype not in COMPUTE:
            return f"dtype {dtype} is not known"
    return None


def _step_problem(spec: KernelSpec) -> str | None:
    names = [o.name for o in spec.operands] + [s.name for s in spec.steps]
    if len(set(names)) != len(names):
        return "a name is used twice"
    for step in spec.steps:
        reason = _one_step(step, bool(spec.reduce_dims))
        if reason:
            return f"{step.name}: {reason}"
    if any(o.step not in {s.name for s in spec.steps} and o.reduced for o in spec.outputs):
        return "an output that is an operand cannot be reduced"
    return None


def _one_step(step: Step, reduces: bool) -> str | None:
    if step.op in REDUCTIONS:
        if not reduces:
            return "a reduction without dims"
        return "a reduction of a number" if len(step.args) != 1 or not isinstance(step.args[0], str) else None
    if len(step.args) != POINTWISE[step.op]:
        return f"{step.op} takes {POINTWISE[step.op]} arguments"
    if step.op == "pow" and not is_floating(COMPUTE[step.dtype]):
        exponent = step.args[1]
        if isinstance(exponent, str) or exponent not in (0, 1, 2, 3):
            return "integer powers are not written"
    if step.dtype == "bool" and step.op in ("sub", "neg", "div", "remainder", "floor_div", "pow"):
        return f"{step.op} of bools"
    return None


def _shape_problem(spec: KernelSpec) -> str | None:
    program = Program(spec)
    first, last = (min(spec.reduce_dims), max(spec.reduce_dims)) if spec.reduce_dims else (0, -1)
    if any(d not in spec.reduce_dims for d in range(first, last + 1)):
        return "the reduced dims are not next to each other"
    if program.layout is Layout.COLUMNS and (len(program.reduced) > 1 or len(program.inner) > 1):
        return "operands broadcast within the reduced dims or behind them"
    if program.layout is Layout.ROWS and len(program.reduced) > 1 and len(spec.operands) > MAX_OPERANDS:
        return "operands broadcast within the reduced dims"
    for dim, size in enumerate(spec.space):
        if not any(p[dim] for p in program.pattern.values()):
            return f"no operand has size {size} in dim {dim}"
    return _output_problem(spec, program)


def _output_problem(spec: KernelSpec, program: Program) -> str | None:
    covers = {name: {d for d, move in enumerate(p) if move} for name, p in program.pattern.items()}
    for step in spec.steps:
        own: set[int] = set()
        for arg in step.args:
            if isinstance(arg, str):
                own |= covers.get(arg, set())
        covers[step.name] = own - set(spec.reduce_dims) if step.op in REDUCTIONS else own
    for output in spec.outputs:
        wanted = {d for d in range(len(spec.space)) if not (output.reduced and d in spec.reduce_dims)}
        wanted = {d for d in wanted if spec.space[d] != 1}
        if not wanted <= covers[output.step]:
            return f"output {output.step} does not fill its shape"
        if output.reduced and output.step in program.element_values:
            return f"output {output.step} is not reduced"
    return None
