"""Kernels for the CPU that reduce rows: a thread takes a row, or all threads share one."""

from __future__ import annotations

from stark_lsp.playbook.kernels.cpu_kernel import CpuKernel
from stark_lsp.playbook.kernels.expressions import combine, identity
from stark_lsp.playbook.kernels.program import Pass
from stark_lsp.playbook.kernels.text import indent
from stark_lsp.playbook.spec import Step

CHUNK = 16384
"""Elements of a shared row that one partial result is taken over."""


class CpuRows(CpuKernel):
    """Writes one kernel that reduces rows."""

    def lines(self) -> list[str]:
        """The statements of the function."""
        return self._rows_split() if self.variant.split else self._rows()

    def _keep(self, one: Pass, number: int) -> list[str]:
        earlier = {s.name for p in self.program.passes[:number] for s in p.elements}
        fresh = [n for n in self.kept if n in {s.name for s in one.elements} and n not in earlier]
        return [f"{self.names[n]}_kept[j] = {self.names[n]};" for n in fresh]

    def _accumulate(self, one: Pass, number: int, begin: str, end: str) -> list[str]:
        """Visit the elements of a row (or a piece of one) and add them to the lanes."""
        loads, steps = self._value_of(one, number, "j")
        adds = []
        for step in one.reductions:
            lane = f"{self.names[step.name]}_lanes[lane]"
            value = self.reduction_value(step)
            adds.append(f"{lane} = {combine(step.op, lane, value)};")
        return [
            f"_stark_walk<{self.variant.vector}>({begin}, {end}, [&](int64_t j, int lane) STARK_INLINE {{",
            *indent([*loads, *self.compute(steps), *self._keep(one, number), *adds]),
            "});",
        ]

    def _lanes(self, step: Step) -> list[str]:
        name, c_type = self.names[step.name], self.writer.c_types[step.name]
        return [
            f"{c_type} {name}_lanes[{self.variant.vector}];",
            f"_stark_fill({name}_lanes, {identity(step.op, c_type)});",
        ]

    def _join(self, step: Step) -> str:
        c_type = self.writer.c_types[step.name]
        function = f"[]({c_type} a, {c_type} b) {{ return {combine(step.op, 'a', 'b')}; }}"
        return f"_stark_join({self.names[step.name]}_lanes, {function})"

    def _write(self, one: Pass, number: int, begin: str, end: str) -> list[str]:
        return (self._streamed if self.variant.streaming else self._loop)(one, number, begin, end)

    def _store_rows(self) -> list[str]:
        return [
            f"{self.names[f'out {k}']}[{self.places.output_row(True, {}) or '0'}] = {self.output_value(k)};"
            for k in self.outputs(True)
        ]

    def _segments(self, lines: list[str]) -> list[str]:
        """Wrap a walk over a row that consists of several pieces."""
        extents = [self.places.extents[g] for g in self.places.segments()]
        return [
            f"for (int64_t segment = 0; segment < {' * '.join(extents)}; ++segment) {{",
            *indent([*self.places.segment_lines(), *lines]),
            "}",
        ]

    def _rows(self) -> list[str]:
        program = self.program
        index = self.places.segment_index()
        inside = self.places.decode((*program.element_reads, *program.row_reads))
        if not index:
            inside += [*self._row_pointers(program.element_reads), *self._output_pointers()]
        inside += self.row_values()
        for number, one in enumerate(program.passes):
            inside.append(self.title(one))
            for step in one.reductions:
                inside += self._lanes(step)
            walk = (self._accumulate if one.reductions else self._write)(one, number, "0", "cols")
            if index:
                outputs = [] if one.reductions else self._output_pointers(index)
                walk = self._segments([*self._row_pointers(program.reads(one), index), *outputs, *walk])
            inside += walk
            for step in one.reductions:
                inside.append(f"const {self.writer.c_types[step.name]} {self.names[step.name]} = {self._join(step)};")
            inside += self.after(one)
        inside += self._store_rows()
        buffers = [f"std::vector<{self._kept_type(n)}> {self.names[n]}_kept(cols);" for n in self.kept]
        if not program.outer:
            end = ["_stark_stream_end();"] if self.variant.streaming else []
            return [*buffers, *inside, *end]
        rows = self.places.rows()
        loop = [f"for (int64_t row = 0; row < {rows}; ++row) {{", *indent(inside), "}"]
        return self._team(f"{rows} * {self.places.count()}", loop, self.places.count(), buffers=buffers)

    def _kept_type(self, name: str) -> str:
        c_type = self.writer.c_types[name]
        return "char" if c_type == "bool" else c_type

    def _rows_split(self) -> list[str]:
        """Few long rows: all threads share one, chunk by chunk; partial results are joined in the chunks' order."""
        program = self.program
        inside = self.places.decode((*program.element_reads, *program.row_reads))
        inside += [*self._row_pointers(program.element_reads), *self._output_pointers(), *self.row_values()]
        share = self._parallel("cols", " for schedule(static)")
        lines = [f"const int64_t chunks = (cols + {CHUNK - 1}) / {CHUNK};"]
        for number, one in enumerate(program.passes):
            inside.append(self.title(one))
            if one.reductions:
                work = [
                    f"const int64_t begin = chunk * {CHUNK}, end = begin + {CHUNK} < cols ? begin + {CHUNK} : cols;"
                ]
                for step in one.reductions:
                    work += self._lanes(step)
                    lines.append(f"std::vector<{self._part_type(step)}> {self.names[step.name]}_parts(chunks);")
                work += self._accumulate(one, number, "begin", "end")
                work += [f"{self.names[s.name]}_parts[chunk] = {self._join(s)};" for s in one.reductions]
            else:
                end = f"last = first + {CHUNK} < cols ? first + {CHUNK} : cols"
                work = [f"const int64_t first = chunk * {CHUNK}, {end};", *self._write(one, number, "first", "last")]
                work += ["_stark_stream_end();"] if self.variant.streaming else []
            inside += [share, "for (int64_t chunk = 0; chunk < chunks; ++chunk) {", *indent(work), "}"]
            for step in one.reductions:
                inside += self._join_parts(step)
            inside += self.after(one)
        inside += self._store_rows()
        if not program.outer:
            return [*lines, *inside]
        return [*lines, f"for (int64_t row = 0; row < {self.places.rows()}; ++row) {{", *indent(inside), "}"]

    def _part_type(self, step: Step) -> str:
        c_type = self.writer.c_types[step.name]
        return "double" if c_type == "float" and step.op == "sum" else "char" if c_type == "bool" else c_type

    def _join_parts(self, step: Step) -> list[str]:
        name, c_type, wide = self.names[step.name], self.writer.c_types[step.name], self._part_type(step)
        wide = "bool" if wide == "char" else wide
        joined = combine(step.op, f"{name}_all", f"{wide}({name}_parts[chunk])")
        return [
            f"{wide} {name}_all = {identity(step.op, wide)};",
            f"for (int64_t chunk = 0; chunk < chunks; ++chunk) {name}_all = {joined};",
            f"const {c_type} {name} = {c_type}({name}_all);",
        ]
