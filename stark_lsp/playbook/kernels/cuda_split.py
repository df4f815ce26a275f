"""Few results, long rows: several blocks share a row, and each pass is a kernel of its own.

A block leaves its partial result in a work buffer. The next kernel begins by joining the partial results, always in the
same order, so that two runs agree to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stark_lsp.playbook.kernels.body import indent
from stark_lsp.playbook.kernels.expressions import identity
from stark_lsp.playbook.spec import Step

if TYPE_CHECKING:
    from stark_lsp.playbook.kernels.cuda import CudaKernel

_SCRATCH = "char* __restrict__ scratch"


def split_text(kernel: CudaKernel) -> str:
    """All kernels of a split reduction and their exported launcher."""
    program = kernel.program
    lines = kernel.body.heading()
    passes = list(program.passes)
    names = []
    for number, one in enumerate(passes):
        name = f"_stark_{program.spec.name}_pass{number + 1}"
        names.append(name)
        body = [*_position(kernel), *_known(kernel, number)]
        body += _share(kernel)
        for step in one.reductions:
            body += kernel.start_lines(step)
        body.append(kernel.body.title(one))
        body += kernel.pass_lines(one, "begin", "end", (), set())
        for step in one.reductions:
            body += [kernel.join_line(step), *_leave(kernel, step)]
        if not one.reductions:
            results = kernel.store_results()
            body += ["if (part == 0) {", *indent(results), "}"] if results else []
        lines += [*kernel.kernel(name, "int V, int ITEMS", body, more=_SCRATCH), ""]
    if passes[-1].reductions:
        name = f"_stark_{program.spec.name}_finish"
        names.append(name)
        body = [*_position(kernel), *_known(kernel, len(passes))]
        body += ["if (part == 0) {", *indent(kernel.store_results()), "}"]
        lines += kernel.kernel(name, "int V, int ITEMS", body, more=_SCRATCH)
    return "\n".join([*lines, *kernel.exported(_launch(kernel, names), _SCRATCH)]) + "\n"


def _results(kernel: CudaKernel) -> str:
    return f"{kernel.places.rows()} * cols" if kernel.columns else kernel.places.rows()


def _position(kernel: CudaKernel) -> list[str]:
    parts = kernel.variant.parts
    if kernel.columns:
        return ["const int64_t part = blockIdx.y;", *kernel.position()]
    return [
        f"const int64_t row = blockIdx.x / {parts}, part = blockIdx.x % {parts};",
        "const int lane = threadIdx.x;",
        *kernel.places.decode(tuple(kernel.program.operands)),
    ]


def _buffer(kernel: CudaKernel, step: Step) -> str:
    """The partial results of a reduction, as a typed pointer."""
    order = [s.name for one in kernel.program.passes for s in one.reductions]
    c_type = kernel.writer.c_types[step.name]
    at = order.index(step.name) * 8 * kernel.variant.parts
    return f"reinterpret_cast<{c_type}*>(scratch{f' + {at} * ({_results(kernel)})' if at else ''})"


def _place(kernel: CudaKernel) -> str:
    if kernel.columns:
        return f"part * ({_results(kernel)}) + row * cols + col + k"
    return f"row * {kernel.variant.parts} + part"


def _leave(kernel: CudaKernel, step: Step) -> list[str]:
    """Store a block's partial result."""
    name = kernel.names[step.name]
    if kernel.columns:
        loop = f"for (int k = 0; k < V; ++k) {_buffer(kernel, step)}[{_place(kernel)}] = {name}[k];"
        return [f"if (down == 0) {loop}"]
    return [f"if (lane == 0) {_buffer(kernel, step)}[{_place(kernel)}] = {name};"]


def _known(kernel: CudaKernel, number: int) -> list[str]:
    """Join what the kernels before this one left, and compute the steps on whole rows."""
    lines = [*kernel.prologue(), *kernel.row_step_lines(kernel.program.before)]
    if not kernel.columns:
        lines = kernel.prologue()
    for one in kernel.program.passes[:number]:
        for step in one.reductions:
            lines += _join_parts(kernel, step)
        lines += kernel.row_step_lines(one.after)
        lines += [] if kernel.columns else kernel.body.invert((*one.reductions, *one.after))
    return lines


def _join_parts(kernel: CudaKernel, step: Step) -> list[str]:
    name, c_type = kernel.names[step.name], kernel.writer.c_types[step.name]
    buffer, parts, across = f"{name}_parts", kernel.variant.parts, kernel.variant.row_threads
    lines = [f"const {c_type}* {buffer} = {_buffer(kernel, step)};"]
    place = _place(kernel).replace("part", "other", 1) if kernel.columns else f"row * {parts} + other"
    if kernel.columns:
        joined = kernel.writer.combine(step.op, f"{name}[k]", f"{buffer}[{place}]", c_type)
        lines += [
            f"{c_type} {name}[V];",
            f"for (int k = 0; k < V; ++k) {name}[k] = {identity(step.op, c_type)};",
            f"for (int64_t other = down; other < {parts}; other += {across})",
            f"    for (int k = 0; k < V; ++k) {name}[k] = {joined};",
        ]
        kernel.writer.names[step.name] = f"{name}[k]"
    else:
        joined = kernel.writer.combine(step.op, name, f"{buffer}[{place}]", c_type)
        lines += [
            f"{c_type} {name} = {identity(step.op, c_type)};",
            f"for (int64_t other = lane; other < {parts}; other += {across}) {name} = {joined};",
        ]
    return [*lines, kernel.join_line(step)]


def _share(kernel: CudaKernel) -> list[str]:
    """The piece of the row that a block works on; whole tiles, so that vectors stay aligned."""
    tile = f"(ITEMS * {kernel.variant.row_threads}{'' if kernel.columns else ' * V'})"
    parts = kernel.variant.parts
    return [
        f"const int64_t share = ({kernel.walked} + {parts} * {tile} - 1) / ({parts} * {tile}) * {tile};",
        f"const int64_t begin = part * share, end = begin + share < {kernel.walked} ? begin + share : {kernel.walked};",
    ]


def _launch(kernel: CudaKernel, names: list[str]) -> list[str]:
    threads, across, parts = kernel.variant.threads, kernel.variant.row_threads, kernel.variant.parts
    lines = []
    for name in names:
        if kernel.columns:
            wide = threads // across
            grid = f"dim3(unsigned({kernel.places.rows()} * ((cols + {wide} * {{v}} - 1) / ({wide} * {{v}}))), {parts})"
        else:
            grid = f"unsigned({kernel.places.rows()} * {parts})"
        arguments = f"{kernel.arguments()}, scratch, {kernel.sizes()}"
        lines.append(f"{name}<{{v}}, {{items}}><<<{grid}, {threads}, 0, stream>>>({arguments});")
    v, items = kernel.variant.vector, kernel.variant.items
    if v == 1:
        return [line.format(v=1, items=items) for line in lines]
    narrow = items if kernel.columns else items * v
    return [
        f"if ({kernel.wide()}) {{",
        *indent([line.format(v=v, items=items) for line in lines]),
        "} else {",
        *indent([line.format(v=1, items=narrow) for line in lines]),
        "}",
    ]
