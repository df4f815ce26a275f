"""Kernels for CUDA that reduce: some threads share a row, or a few columns.

A row that fits into the registers of its threads is read once; a longer one is read again in each pass, mostly from the
L2 cache.
"""

from __future__ import annotations

from stark_lsp.playbook.kernels.cuda_kernel import CudaKernel, each
from stark_lsp.playbook.kernels.expressions import combine, identity
from stark_lsp.playbook.kernels.program import Group, Pass
from stark_lsp.playbook.kernels.text import indent, plus
from stark_lsp.playbook.spec import Step

LIGHT = 16
"""Up to so many registers of a row in each thread, the kernel is kept to 42 registers in all."""


class CudaReduction(CudaKernel):
    """Writes one kernel with reductions."""

    def text(self) -> str:
        """The kernel and its exported launcher, with a comment above."""
        return self.whole(self._reduction(), self._reduction_launch())

    def prologue(self) -> list[str]:
        """Row-wide operands and steps; for columns they are read where they are used."""
        return self.row_step_lines(self.program.before) if self.columns else self.row_values()

    def held(self) -> tuple[str, ...]:
        """Operands that more than one pass reads: they stay in registers if the row is short enough."""
        counted = [o for one in self.program.passes for o in self.program.reads(one)]
        return tuple(o for o in self.program.operands if counted.count(o) > 1 and (self.columns or self._whole(o)))

    def _whole(self, operand: str) -> bool:
        return all(self.program.advances(operand, g) for g in self.program.reduced)

    def address(self, operand: str) -> str:
        """Where an operand's vector lies, for the loop's `j` (rows) or `r` and `col` (columns)."""
        name = self.names[operand]
        index: dict[Group, str] = {}
        if self.columns:
            (reduced,) = self.program.reduced
            index = {reduced: "r"}
            own = "col" if self.moves(operand) else ""
        elif self.segmented and not self._whole(operand):
            index = self.places.segment_index()
            own = "within" if self.moves(operand) else ""
        else:
            own = "j"
        return plus(name, self.places.operand_row(operand, index), own)

    def fetch(self, operand: str, into: str) -> str:
        """Read an operand's vector, or its single value where it does not advance along the last group."""
        if self.moves(operand):
            return f"{into} = _stark_load<V>({self.address(operand)});"
        return f"{into}.at[0] = *({self.address(operand)});"

    def value(self, operand: str, vector: str) -> str:
        """Declare an operand's value in the innermost loop."""
        return self.load(operand, f"{vector}.at[{'k' if self.moves(operand) else 0}]")

    def where(self, first: str = "tile") -> list[str]:
        """Statements that give an item its place, and leave the loop when it lies outside."""
        if self.columns:
            down = self.variant.row_threads
            return [f"const int64_t r = {first} + item * {down} + down;"]
        return [f"const {self.index} j = {first} + (item * {self.variant.row_threads} + lane) * V;"]

    def inside(self, end: str) -> str:
        """The condition that an item lies within the row."""
        return f"r < {end}" if self.columns else f"j < {end}"

    def _segment_lines(self, one: Pass) -> list[str]:
        if not self.segmented or all(self._whole(o) for o in self.program.reads(one)):
            return []
        return ["const int64_t segment = j / cols;", "const int64_t within = j % cols;", *self.places.segment_lines()]

    def start_lines(self, step: Step) -> list[str]:
        """Declare a thread's share of a reduction."""
        name, c_type = self.names[step.name], self.writer.c_types[step.name]
        if not self.columns:
            return [f"{c_type} {name} = {identity(step.op, c_type)};"]
        self.writer.names[step.name] = f"{name}[k]"
        return [f"{c_type} {name}[V];", *each("k", "V", [f"{name}[k] = {identity(step.op, c_type)};"])]

    def add_lines(self, one: Pass) -> list[str]:
        """Add an element to a thread's shares."""
        lines = []
        for step in one.reductions:
            name = self.names[step.name] + ("[k]" if self.columns else "")
            value = self.reduction_value(step)
            lines.append(f"{name} = {combine(step.op, name, value)};")
        return lines

    def join_line(self, step: Step) -> str:
        """Join the threads' shares of a reduction."""
        name, c_type = self.names[step.name], self.writer.c_types[step.name]
        joined = combine(step.op, "a", "b")
        function = f"[]({c_type} a, {c_type} b) {{ return {joined}; }}"
        across = self.variant.row_threads
        if self.columns:
            return f"_stark_stack_join<{self.variant.threads}, {across}>({name}, {function});"
        if self.variant.cluster > 1:
            return f"{name} = _stark_cluster_join<{self.variant.threads}, {self.variant.cluster}>({name}, {function});"
        kind = "block" if across > 32 else "warp"
        return f"{name} = _stark_{kind}_join<{across}>({name}, {function});"

    def row_step_lines(self, steps: tuple[Step, ...]) -> list[str]:
        """Steps on whole results of columns."""
        if not steps:
            return []
        lines, arrays = self.column_reads({a for s in steps for a in s.args if isinstance(a, str)}), []
        for step in steps:
            c_type, value = self.writer.assign(step)
            name = self.names[step.name]
            arrays.append(f"{c_type} {name}[V];")
            lines.append(f"{name}[k] = {value};")
            self.writer.names[step.name] = f"{name}[k]"
        return [*arrays, *each("k", "V", lines)]

    def column_reads(self, used: set[str]) -> list[str]:
        """Columns: declare the operands that do not advance along the reduction, in a loop over k."""
        lines = []
        for operand in self.program.row_reads if self.columns else ():
            if operand in used:
                place = plus(self.places.operand_row(operand, {}), "col + k" if self.moves(operand) else "")
                lines.append(self.load(operand, f"{self.names[operand]}[{place}]"))
        return lines

    def pass_lines(self, one: Pass, begin: str, end: str, held: tuple[str, ...], seen: set[str]) -> list[str]:
        """The loop over tiles that one pass is; what is held and was seen before is read again only if it has to be."""
        reads = self.program.reads(one)
        tile = f"ITEMS * {self.variant.row_threads}" + ("" if self.columns else " * V")
        segment = self._segment_lines(one)
        again = [o for o in reads if o in held and o in seen]
        fresh = [o for o in reads if o not in again]
        loads = [f"{self.vector_type(o)} {self.names[o]}_v[ITEMS];" for o in reads if o not in held]
        loads += self._load_loop(fresh, segment, end)
        if again:
            loads += ["if (!fits) {", *indent(self._load_loop(again, [], end)), "}"]
        work = [self.value(o, f"{self.names[o]}_v[item]") for o in reads]
        used = {a for s in (*one.elements, *one.reductions) for a in s.args if isinstance(a, str)}
        if not one.reductions:
            used |= set(self.program.element_outputs)
        work += [*self.column_reads(used), *self.compute(one.elements), *self.add_lines(one)]
        item = [*self.where(), f"if (!({self.inside(end)})) break;"]
        if one.reductions:
            item += each("k", "V", work)
        else:
            declare, fill, write = self.stores(self.outputs(False), self._output_place())
            item += [*declare, *each("k", "V", [*work, *fill]), *write]
        return [
            f"for ({self.index} tile = {begin}; tile < {end}; tile += {tile}) {{",
            *indent([*loads, *each("item", "ITEMS", item)]),
            "}",
        ]

    def _load_loop(self, operands: list[str], segment: list[str], end: str) -> list[str]:
        if not operands:
            return []
        lines = [*self.where(), f"if (!({self.inside(end)})) break;", *segment]
        return each("item", "ITEMS", [*lines, *[self.fetch(o, f"{self.names[o]}_v[item]") for o in operands]])

    def _output_place(self) -> str:
        if self.columns:
            (reduced,) = self.program.reduced
            return f"{self.places.output_row(False, {reduced: 'r'})} + col"
        return plus(self.places.output_row(False, {}), "j")

    def store_results(self) -> list[str]:
        """Write the reduced outputs; one thread of those that share a result does it."""
        numbers = self.outputs(True)
        if not numbers:
            return []
        base = self.places.output_row(True, {})
        if not self.columns:
            writes = [f"{self.names[f'out {k}']}[{base or '0'}] = {self.output_value(k)};" for k in numbers]
            return ["if (lane == 0) {", *indent(writes), "}"]
        declare, fill, write = self.stores(numbers, plus(base, "col"))
        used = {self.program.spec.outputs[k].step for k in numbers}
        return [
            "if (down == 0) {",
            *indent([*declare, *each("k", "V", [*self.column_reads(used), *fill]), *write]),
            "}",
        ]

    def position(self) -> list[str]:
        """Which row (and columns) a thread works on."""
        threads, across = self.variant.threads, self.variant.row_threads
        decode = self.places.decode(tuple(self.program.operands))
        if self.columns:
            wide = threads // across
            return [
                f"const int64_t blocks = (cols + {wide} * V - 1) / ({wide} * V);",
                f"const int down = threadIdx.x / {wide};",
                "const int64_t row = blockIdx.x / blocks;",
                f"const int64_t mine = (blockIdx.x % blocks * {wide} + threadIdx.x % {wide}) * V;",
                "const int64_t col = mine < cols ? mine : cols - V;  // the last threads repeat the last columns",
                *decode,
            ]
        if (blocks := self.variant.cluster) > 1:
            return [
                f"const int64_t row = blockIdx.x / {blocks};",
                f"const int lane = blockIdx.x % {blocks} * {threads} + threadIdx.x;",
                *decode,
            ]
        if not self.program.outer:
            return ["const int lane = threadIdx.x;"]
        if across == threads:
            return ["const int64_t row = blockIdx.x;", "const int lane = threadIdx.x;", *decode]
        return [
            f"const int64_t row = int64_t(blockIdx.x) * {threads // across} + threadIdx.x / {across};",
            f"const int lane = threadIdx.x % {across};",
            f"if (row >= {self.places.rows()}) return;",
            *decode,
        ]

    def _reduction(self) -> list[str]:
        program = self.program
        held = self.held()
        if self.narrow:
            self.index = "Index"
        if not self.columns and self._registers(held) <= LIGHT:
            # Three quarters of the threads a multiprocessor can hold, so that the phases of rows overlap.
            self.bounds = f"{self.variant.threads}, {max(1, 1536 // self.variant.threads)}"
        lines = [*self.position(), *self.prologue()]
        if held:
            tile = f"ITEMS * {self.variant.row_threads}" + ("" if self.columns else " * V")
            lines.append(f"const bool fits = {self.walked} <= {tile};  // then it is read once and stays in registers")
            lines += [f"{self.vector_type(o)} {self.names[o]}_v[ITEMS];" for o in held]
        seen: set[str] = set()
        together, last = self.variant.cluster > 1, [one for one in program.passes if one.reductions][-1]
        for one in program.passes:
            lines.append(self.title(one))
            for step in one.reductions:
                lines += self.start_lines(step)
            lines += self.pass_lines(one, "0", self.walked, held, seen)
            seen |= set(program.reads(one))
            lines += [self.join_line(s) for s in one.reductions]
            if together and one is last:
                lines.append("auto arrived = cooperative_groups::this_cluster().barrier_arrive();")
            lines += self.row_step_lines(one.after) if self.columns else self.after(one)
        lines += self.store_results()
        if together:
            lines.append("cooperative_groups::this_cluster().barrier_wait(std::move(arrived));")
        template = "int V, int ITEMS, class Index" if self.narrow else "int V, int ITEMS"
        return self.kernel(f"_stark_{program.spec.name}_kernel", template, lines, self.index)

    @property
    def narrow(self) -> bool:
        """Whether the place in a row is counted in 32 bits where that is enough."""
        return not self.columns and not self.segmented

    def _registers(self, held: tuple[str, ...]) -> float:
        """Registers that a thread needs for what it holds of a row."""
        sizes = {"float64": 2.0, "int64": 2.0, "float16": 0.5, "bfloat16": 0.5, "bool": 0.25, "uint8": 0.25}
        words = sum(sizes.get(self.program.operands[o].dtype, 1.0) for o in held)
        return words * self.variant.items * self.variant.vector

    def _reduction_launch(self) -> list[str]:
        threads, across = self.variant.threads, self.variant.row_threads
        rows = self.places.rows()
        index = ", {index}" if self.narrow else ""
        name = f"_stark_{self.program.spec.name}_kernel<{{v}}, {{items}}{index}>"
        if self.columns:
            wide = threads // across
            blocks = f"unsigned({rows} * ((cols + {wide} * {{v}} - 1) / ({wide} * {{v}})))"
        elif self.variant.cluster > 1:
            blocks = f"unsigned({self.variant.cluster} * ({rows}))"
        elif across == threads:
            blocks = f"unsigned({rows})"
        else:
            blocks = f"unsigned(({rows} + {threads // across - 1}) / {threads // across})"
        call = f"{name}<<<{blocks}, {threads}, 0, stream>>>({self.arguments()}, {self.sizes()});"
        if not self.narrow:
            return self.choose(call)
        v, items = self.variant.vector, self.variant.items
        most = 32 - self.variant.cluster.bit_length()
        huge = " || ".join([*([f"{rows} >> {most}"] if self.program.outer else []), f"{self.walked} >> 30"])
        return [
            f"if ({huge})",
            *indent([call.format(v=1, items=items * v, index="int64_t")]),
            *self._otherwise(self.choose(call.replace("{index}", "int32_t"))),
        ]

    @staticmethod
    def _otherwise(lines: list[str]) -> list[str]:
        return [f"else {lines[0]}", *lines[1:]] if len(lines) > 1 else ["else", *indent(lines)]
