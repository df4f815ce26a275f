"""Kernels for the CPU that reduce columns."""

from __future__ import annotations

from stark_lsp.playbook.kernels.cpu_kernel import CpuKernel
from stark_lsp.playbook.kernels.expressions import combine, identity
from stark_lsp.playbook.kernels.program import Group
from stark_lsp.playbook.kernels.text import indent, plus
from stark_lsp.playbook.spec import Step

WIDTH = 256
"""Neighbouring results that the columns layout works on at a time."""


class CpuColumns(CpuKernel):
    """Writes one kernel that reduces columns."""

    def lines(self) -> list[str]:
        """Results lie next to each other: walk down `width` columns at a time, a row of them for each step."""
        program = self.program
        wide = self.variant.block or WIDTH
        inner = program.groups[-1]
        (reduced,) = program.reduced
        results = {o.step for o in program.spec.outputs if o.reduced}

        def at(operand: str, index: dict[Group, str]) -> str:
            own = "begin + j" if program.advances(operand, inner) else ""
            return f"{self.names[operand]}[{plus(self.places.operand_row(operand, index), own)}]"

        def row_loads(steps: tuple[Step, ...], outputs: bool) -> list[str]:
            used = {a for s in steps for a in s.args} | (results if outputs else set())
            return [self.load(o, at(o, {})) for o in program.row_reads if o in used]

        def over_columns(lines: list[str]) -> list[str]:
            return ["#pragma omp simd", "for (int64_t j = 0; j < width; ++j) {", *indent(lines), "}"]

        def row_steps(steps: tuple[Step, ...]) -> list[str]:
            if not steps:
                return []
            lines = row_loads(steps, False)
            arrays = []
            for step in steps:
                name = self.names[step.name]
                c_type, value = self.writer.assign(step)
                arrays.append(f"{c_type} {name}_lanes[{wide}];")
                lines.append(f"{name}_lanes[j] = {value};")
                self.writer.names[step.name] = f"{name}_lanes[j]"
            return [*arrays, *over_columns(lines)]

        inside = [f"const int64_t width = cols - begin < {wide} ? cols - begin : {wide};"]
        inside += self.places.decode(tuple(program.operands))
        inside += row_steps(program.before)
        for one in program.passes:
            inside.append(self.title(one).replace("the row", "the columns"))
            work = [self.load(o, at(o, {reduced: "r"})) for o in program.reads(one)]
            work += row_loads((*one.elements, *one.reductions), False)
            work += self.compute(one.elements)
            start = []
            for step in one.reductions:
                name, c_type = f"{self.names[step.name]}_lanes", self.writer.c_types[step.name]
                inside.append(f"{c_type} {name}[{wide}];")
                start.append(f"{name}[j] = {identity(step.op, c_type)};")
                value = self.reduction_value(step)
                work.append(f"{name}[j] = {combine(step.op, f'{name}[j]', value)};")
            if not one.reductions:
                base = self.places.output_row(False, {reduced: "r"})
                for k in self.outputs(False):
                    work.append(f"{self.names[f'out {k}']}[{base} + begin + j] = {self.output_value(k)};")
            if start:
                inside.append(f"for (int64_t j = 0; j < width; ++j) {{ {' '.join(start)} }}")
            inside += ["for (int64_t r = 0; r < length; ++r) {", *indent(over_columns(work)), "}"]
            for step in one.reductions:
                self.writer.names[step.name] = f"{self.names[step.name]}_lanes[j]"
            inside += row_steps(one.after)
        if self.outputs(True):
            where = plus(self.places.output_row(True, {}), "begin + j")
            stores = [f"{self.names[f'out {k}']}[{where}] = {self.output_value(k)};" for k in self.outputs(True)]
            inside += over_columns([*row_loads((), True), *stores])
        rows = self.places.rows()
        blocks = [f"for (int64_t begin = 0; begin < cols; begin += {wide}) {{", *indent(inside), "}"]
        schedule = self._schedule(f"length * (cols < {wide} ? cols : {wide})")
        if not program.outer:
            return [self._parallel("length * cols", f" for{schedule}"), *blocks]
        loop = [f"for (int64_t row = 0; row < {rows}; ++row)", *indent(blocks)]
        return [self._parallel(f"{rows} * length * cols", f" for collapse(2){schedule}"), *loop]
