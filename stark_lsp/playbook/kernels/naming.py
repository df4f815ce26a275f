"""Names of operands that the text around a kernel uses for itself are changed before anything is written."""

from __future__ import annotations

import builtins
import keyword
from dataclasses import replace

from stark_lsp.playbook.names import unused
from stark_lsp.playbook.spec import KernelSpec

_LAUNCHER = "fits shape scratch status kernels error torch ctypes glob contextlib warnings out"
_TAKEN = frozenset({*_LAUNCHER.split(), *keyword.kwlist, *dir(builtins)})


def with_safe_operands(spec: KernelSpec) -> KernelSpec:
    """Return the spec with operands that may be parameters of its launcher.

    The launcher's own variables, the modules it uses, Python's words, names of other values and names that begin as
    ours do (`_stark_`) are not free. Operands are passed by position, so a caller sees no difference.
    """
    steps = {step.name for step in spec.steps}
    taken = {operand.name for operand in spec.operands} | steps | {spec.name}
    changed: dict[str, str] = {}
    for operand in spec.operands:
        clash = operand.name in _TAKEN or operand.name.startswith("_") or operand.name.endswith("_stride")
        if not clash and operand.name != spec.name and not (operand.name[:3] == "out" and operand.name[3:].isdigit()):
            continue
        changed[operand.name] = unused(f"{operand.name.strip('_') or 'value'}_in", taken)
        taken.add(changed[operand.name])
    if not changed:
        return spec
    return replace(
        spec,
        operands=tuple(replace(o, name=changed.get(o.name, o.name)) for o in spec.operands),
        steps=tuple(
            replace(s, args=tuple(changed.get(a, a) if isinstance(a, str) else a for a in s.args)) for s in spec.steps
        ),
        outputs=tuple(replace(o, step=changed.get(o.step, o.step)) for o in spec.outputs),
    )
