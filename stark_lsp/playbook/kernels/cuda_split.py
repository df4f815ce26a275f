"""Few results, long rows: several blocks share a row, and each pass is a kernel of its own.

A block leaves its partial result in a work buffer. The next kernel begins by joining the partial results, always in the
same order, so that two runs agree to the last bit.
"""

from __future__ import annotations

from stark_lsp.playbook.kernels.cuda_reduction import CudaReduction
from stark_lsp.playbook.kernels.expressions import combine, identity
from stark_lsp.playbook.kernels.program import Program
from stark_lsp.playbook.kernels.text import indent
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import Step

_SCRATCH = "char* __restrict__ scratch"


def scratch_bytes(program: Program, variant: Variant) -> int:
    """Bytes of work buffer for each result of a split reduction."""
    return 8 * variant.parts * sum(len(one.reductions) for one in program.passes)


class CudaSplitReduction(CudaReduction):
    """Writes the kernels of a reduction that blocks share, one for each pass."""

    def text(self) -> str:
        """All kernels of a split reduction and their exported launcher."""
        program = self.program
        lines: list[str] = []
        passes = list(program.passes)
        names = []
        for number, one in enumerate(passes):
            name = f"_stark_{program.spec.name}_pass{number + 1}"
            names.append(name)
            body = [*self._position(), *self._known(number)]
            body += self._share()
            for step in one.reductions:
                body += self.start_lines(step)
            body.append(self.title(one))
            body += self.pass_lines(one, "begin", "end", (), set())
            for step in one.reductions:
                body += [self.join_line(step), *self._leave(step)]
            if not one.reductions:
                results = self.store_results()
                body += ["if (part == 0) {", *indent(results), "}"] if results else []
            lines += [*self.kernel(name, "int V, int ITEMS", body, more=_SCRATCH), ""]
        if passes[-1].reductions:
            name = f"_stark_{program.spec.name}_finish"
            names.append(name)
            body = [*self._position(), *self._known(len(passes))]
            body += ["if (part == 0) {", *indent(self.store_results()), "}"]
            lines += self.kernel(name, "int V, int ITEMS", body, more=_SCRATCH)
        return self.whole(lines, self._launch(names), _SCRATCH)

    def _results(self) -> str:
        return f"{self.places.rows()} * cols" if self.columns else self.places.rows()

    def _position(self) -> list[str]:
        parts = self.variant.parts
        if self.columns:
            return ["const int64_t part = blockIdx.y;", *self.position()]
        return [
            f"const int64_t row = blockIdx.x / {parts}, part = blockIdx.x % {parts};",
            "const int lane = threadIdx.x;",
            *self.places.decode(tuple(self.program.operands)),
        ]

    def _buffer(self, step: Step) -> str:
        """The partial results of a reduction, as a typed pointer."""
        order = [s.name for one in self.program.passes for s in one.reductions]
        c_type = self.writer.c_types[step.name]
        at = order.index(step.name) * 8 * self.variant.parts
        return f"reinterpret_cast<{c_type}*>(scratch{f' + {at} * ({self._results()})' if at else ''})"

    def _place(self, part: str) -> str:
        if self.columns:
            return f"{part} * ({self._results()}) + row * cols + col + k"
        return f"row * {self.variant.parts} + {part}"

    def _leave(self, step: Step) -> list[str]:
        """Store a block's partial result."""
        name, left = self.names[step.name], f"{self._buffer(step)}[{self._place('part')}]"
        if self.columns:
            return [f"if (down == 0) for (int k = 0; k < V; ++k) {left} = {name}[k];"]
        return [f"if (lane == 0) {left} = {name};"]

    def _known(self, number: int) -> list[str]:
        """Join what the kernels before this one left, and compute the steps on whole rows."""
        lines = self.prologue()
        for one in self.program.passes[:number]:
            for step in one.reductions:
                lines += self._join_parts(step)
            lines += self.row_step_lines(one.after) if self.columns else self.after(one)
        return lines

    def _join_parts(self, step: Step) -> list[str]:
        name, c_type = self.names[step.name], self.writer.c_types[step.name]
        buffer, parts, across = f"{name}_parts", self.variant.parts, self.variant.row_threads
        lines = [f"const {c_type}* {buffer} = {self._buffer(step)};"]
        value = f"{buffer}[{self._place('other')}]"
        if self.columns:
            joined = combine(step.op, f"{name}[k]", value)
            lines += [
                f"{c_type} {name}[V];",
                f"for (int k = 0; k < V; ++k) {name}[k] = {identity(step.op, c_type)};",
                f"for (int64_t other = down; other < {parts}; other += {across})",
                f"    for (int k = 0; k < V; ++k) {name}[k] = {joined};",
            ]
            self.writer.names[step.name] = f"{name}[k]"
        else:
            joined = combine(step.op, name, value)
            lines += [
                f"{c_type} {name} = {identity(step.op, c_type)};",
                f"for (int64_t other = lane; other < {parts}; other += {across}) {name} = {joined};",
            ]
        return [*lines, self.join_line(step)]

    def _share(self) -> list[str]:
        """The piece of the row that a block works on; whole tiles, so that vectors stay aligned."""
        tile = f"(ITEMS * {self.variant.row_threads}{'' if self.columns else ' * V'})"
        parts = self.variant.parts
        return [
            f"const int64_t share = ({self.walked} + {parts} * {tile} - 1) / ({parts} * {tile}) * {tile};",
            f"const int64_t begin = part * share, end = begin + share < {self.walked} ? begin + share : {self.walked};",
        ]

    def _launch(self, names: list[str]) -> list[str]:
        threads, across, parts = self.variant.threads, self.variant.row_threads, self.variant.parts
        lines = []
        for name in names:
            if self.columns:
                wide = threads // across
                blocks = f"((cols + {wide} * {{v}} - 1) / ({wide} * {{v}}))"
                grid = f"dim3(unsigned({self.places.rows()} * {blocks}), {parts})"
            else:
                grid = f"unsigned({self.places.rows()} * {parts})"
            arguments = f"{self.arguments()}, scratch, {self.sizes()}"
            lines.append(f"{name}<{{v}}, {{items}}><<<{grid}, {threads}, 0, stream>>>({arguments});")
        return self.choose(*lines)
