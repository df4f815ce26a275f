"""C++ with OpenMP: one exported function for each kernel."""

from __future__ import annotations

import re

from stark_lsp.playbook.kernels.body import Body, indent, without_unused
from stark_lsp.playbook.kernels.expressions import Writer, identity
from stark_lsp.playbook.kernels.places import take_apart
from stark_lsp.playbook.kernels.program import Group, Layout, Pass, Program
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import Step

SMALL = 32768
"""Fewer elements than this stay on one thread: waking the others would cost more."""
BLOCK = 2048
"""Elements of a streamed block; it stays in the first-level cache."""
WIDTH = 256
"""Neighbouring results that the columns layout works on at a time."""
CHUNK = 16384
"""Elements of a shared row that one partial result is taken over."""
SHARE = 16384
"""Elements that a thread takes at a time when tasks are handed out on demand."""


class CpuKernel:
    """Writes one kernel for the CPU."""

    def __init__(self, program: Program, variant: Variant, helpers: set[str]) -> None:
        self.program = program
        self.variant = variant
        self.body = Body(program, Writer("cpu", helpers=helpers))
        self.writer = self.body.writer
        self.places = self.body.places
        self.names = self.places.names
        self.kept = program.kept if variant.keep and not variant.split and not self.places.segments() else ()

    def text(self) -> str:
        """The C++ function with the comment above it."""
        make = {
            Layout.FLAT: self._flat,
            Layout.MATRIX: self._matrix,
            Layout.ROWS: self._rows_split if self.variant.split else self._rows,
            Layout.COLUMNS: self._columns,
        }[self.program.layout]
        parameters = [*self.body.pointer_parameters(), *self.body.size_parameters(), "int threads"]
        counted = [f"const int64_t count = {self.places.count()};"] if self.body.counts else []
        lines = [
            *self.body.heading(),
            f'extern "C" void _stark_{self.program.spec.name}(',
            *indent([f"{p}," for p in parameters[:-1]] + [f"{parameters[-1]}) {{"]),
            *indent(without_unused([*counted, *make()])),
            "}",
        ]
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------ pieces

    @property
    def _block(self) -> int:
        return self.variant.block or BLOCK

    def _schedule(self, task: str) -> str:
        """The clause that shares tasks among the threads; `task` is how many elements one has."""
        if not self.variant.dynamic:
            return " schedule(static)"
        return f" schedule(dynamic, 1 + {SHARE} / ({task}))"

    def _parallel(self, size: str, extra: str = "") -> str:
        return f"#pragma omp parallel{extra} num_threads(threads) if (parallel : {size} > {SMALL})"

    def _team(
        self, size: str, loop: list[str], task: str, extra: str = "", buffers: list[str] | None = None
    ) -> list[str]:
        """A loop over tasks that are shared among the threads; buffers belong to a thread."""
        schedule = self._schedule(task)
        if not buffers and not self.variant.streaming:
            return [self._parallel(size, f" for{extra}{schedule}"), *loop]
        return [
            self._parallel(size),
            "{",
            *indent([*(buffers or []), f"#pragma omp for{extra}{schedule} nowait", *loop]),
            *indent(["_stark_stream_end();"] if self.variant.streaming else []),
            "}",
        ]

    def _row_pointers(self, operands: tuple[str, ...], index: dict[Group, str] | None = None) -> list[str]:
        lines = []
        for operand in operands:
            base = self.places.operand_row(operand, index or {})
            start = f"{self.names[operand]} + {base}" if base else self.names[operand]
            lines.append(f"const {self.body.operand_type(operand)}* {self.names[operand]}_row = {start};")
        return lines

    def _output_pointers(self, index: dict[Group, str] | None = None) -> list[str]:
        lines = []
        for k in self.body.outputs(False):
            name = self.names[f"out {k}"]
            base = self.places.output_row(False, index or {})
            lines.append(f"{self.body.output_types()[k]}* {name}_row = {f'{name} + {base}' if base else name};")
        return lines

    def _row_values(self) -> list[str]:
        lines = []
        for operand in self.program.row_reads:
            lines.append(
                self.body.load(operand, f"{self.names[operand]}[{self.places.operand_row(operand, {}) or '0'}]")
            )
        return lines + self.body.compute(self.program.before)

    def _value_of(self, one: Pass, number: int, at: str) -> tuple[list[str], tuple[Step, ...]]:
        """Loads, and the steps still to compute, for the element at an index; kept values are read back."""
        kept_before = {
            name
            for name in self.kept
            if any(name in {s.name for s in earlier.elements} for earlier in self.program.passes[:number])
        }
        roots = {a for s in one.reductions for a in s.args if isinstance(a, str)}
        roots |= set(self.program.element_outputs) if not one.reductions else set()
        known = frozenset(n for n in self.program.level if n not in self.program.element_values) | kept_before
        used: set[str] = set()
        todo = [r for r in roots if r in self.program.element_values]
        while todo:
            name = todo.pop()
            if name in used:
                continue
            used.add(name)
            if name not in known and name in self.program.steps:
                args = self.program.steps[name].args
                todo += [a for a in args if isinstance(a, str) and a in self.program.element_values]
        lines = [self.body.load(o, f"{self._element(o, at)}") for o in self.program.operands if o in used]
        for name in self.kept:
            if name in used and name in kept_before:
                lines.append(f"const {self.writer.c_types[name]} {self.names[name]} = {self.names[name]}_kept[{at}];")
        return lines, tuple(s for s in one.elements if s.name in used and s.name not in kept_before)

    def _element(self, operand: str, at: str) -> str:
        moves = self.program.advances(operand, self.program.groups[-1])
        return f"{self.names[operand]}_row[{at if moves else 0}]"

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
            c_type = self.writer.c_types[step.name]
            value = self.body.reduction_value(step)
            adds.append(f"{lane} = {self.writer.combine(step.op, lane, value, c_type)};")
        self.writer.helpers.add("walk")
        return [
            f"_stark_walk<{self.variant.vector}>({begin}, {end}, [&](int64_t j, int lane) STARK_INLINE {{",
            *indent([*loads, *self.body.compute(steps), *self._keep(one, number), *adds]),
            "});",
        ]

    def _lanes(self, step: Step) -> list[str]:
        self.writer.helpers.add("walk")
        name, c_type = self.names[step.name], self.writer.c_types[step.name]
        return [
            f"{c_type} {name}_lanes[{self.variant.vector}];",
            f"_stark_fill(_lanes, {identity(step.op, c_type)});".replace("_lanes", f"{name}_lanes", 1),
        ]

    def _join(self, step: Step) -> str:
        c_type = self.writer.c_types[step.name]
        joined = self.writer.combine(step.op, "a", "b", c_type)
        lambda_text = f"[]({c_type} a, {c_type} b) {{ return {joined}; }}"
        return f"_stark_join({self.names[step.name]}_lanes, {lambda_text})"

    def _write(self, one: Pass, number: int, extent: str) -> list[str]:
        """The loop over a row that stores the element outputs."""
        if self.variant.streaming:
            return self._write_streaming(one, number, extent)
        loads, steps = self._value_of(one, number, "j")
        stores = [f"{self.names[f'out {k}']}_row[j] = {self.body.output_value(k)};" for k in self.body.outputs(False)]
        return [
            "#pragma omp simd",
            f"for (int64_t j = 0; j < {extent}; ++j) {{",
            *indent([*loads, *self.body.compute(steps), *stores]),
            "}",
        ]

    def _write_streaming(self, one: Pass, number: int, extent: str) -> list[str]:
        return [
            f"for (int64_t begin = 0; begin < {extent}; begin += {self._block}) {{",
            *indent([f"const int64_t width = {extent} - begin < {self._block} ? {extent} - begin : {self._block};"]),
            *indent(self._stream_block(one, number)),
            "}",
        ]

    def _stream_block(self, one: Pass, number: int) -> list[str]:
        self.writer.helpers.add("stream")
        loads, steps = self._value_of(one, number, "begin + j")
        types = self.body.output_types()
        numbers = self.body.outputs(False)
        names = {k: self.names[f"out {k}"] for k in numbers}
        return [
            *[f"alignas(64) {types[k]} {names[k]}_block[{self._block}];" for k in numbers],
            "#pragma omp simd",
            "for (int64_t j = 0; j < width; ++j) {",
            *indent([*loads, *self.body.compute(steps)]),
            *indent([f"{names[k]}_block[j] = {self.body.output_value(k)};" for k in numbers]),
            "}",
            *[f"_stark_stream({names[k]}_row + begin, {names[k]}_block, width * sizeof({types[k]}));" for k in numbers],
        ]

    def _store_rows(self) -> list[str]:
        return [
            f"{self.names[f'out {k}']}[{self.places.output_row(True, {}) or '0'}] = {self.body.output_value(k)};"
            for k in self.body.outputs(True)
        ]

    # ------------------------------------------------------------ layouts

    def _flat(self) -> list[str]:
        (one,) = self.program.passes
        reads = self.program.reads(one)
        values = self._row_values()
        outs = [self.names[f"out {k}"] for k in self.body.outputs(False)]
        if self.variant.streaming:
            loop = [f"for (int64_t begin = 0; begin < n; begin += {self._block}) {{"]
            loop += indent([f"const int64_t width = n - begin < {self._block} ? n - begin : {self._block};"])
            block = self._stream_block(one, 0)
            loop += [*indent(block), "}"]
            lines = [*values, *self._team("n", loop, str(self._block))]
        else:
            loads, steps = self._value_of(one, 0, "j")
            stores = [
                f"{self.names[f'out {k}']}_row[j] = {self.body.output_value(k)};" for k in self.body.outputs(False)
            ]
            work = indent([*loads, *self.body.compute(steps), *stores])
            if self.variant.block:
                inner = [
                    f"const int64_t end = n - begin < {self._block} ? n : begin + {self._block};",
                    "#pragma omp simd",
                    "for (int64_t j = begin; j < end; ++j) {",
                    *work,
                    "}",
                ]
                loop = [f"for (int64_t begin = 0; begin < n; begin += {self._block}) {{", *indent(inner), "}"]
                lines = [*values, *self._team("n", loop, str(self._block))]
            else:
                loop = ["for (int64_t j = 0; j < n; ++j) {", *work, "}"]
                lines = [*values, self._parallel("n", " for simd schedule(static)"), *loop]
        return _plain(lines, [*(self.names[o] for o in reads), *outs])

    def _matrix(self) -> list[str]:
        (one,) = self.program.passes
        reads = self.program.reads(one)
        rows = self.places.rows()
        inside = [
            *self.places.decode((*reads, *self.program.row_reads)),
            *self._row_pointers(reads),
            *self._output_pointers(),
            *self._row_values(),
        ]
        if self.variant.streaming:
            inside += [f"const int64_t width = cols - begin < {self._block} ? cols - begin : {self._block};"]
            inside += self._stream_block(one, 0)
        else:
            loads, steps = self._value_of(one, 0, "j")
            stores = [
                f"{self.names[f'out {k}']}_row[j] = {self.body.output_value(k)};" for k in self.body.outputs(False)
            ]
            inside += [
                f"const int64_t end = cols - begin < {self._block} ? cols : begin + {self._block};",
                "#pragma omp simd",
                "for (int64_t j = begin; j < end; ++j) {",
                *indent([*loads, *self.body.compute(steps), *stores]),
                "}",
            ]
        loop = [
            f"for (int64_t row = 0; row < {rows}; ++row)",
            *indent([f"for (int64_t begin = 0; begin < cols; begin += {self._block}) {{", *indent(inside), "}"]),
        ]
        task = f"cols < {self._block} ? cols : {self._block}"
        return self._team(f"{rows} * cols", loop, task, " collapse(2)")

    def _segments(self, lines: list[str], pointers: list[str]) -> list[str]:
        """Wrap a walk over a row that consists of several pieces."""
        groups = self.places.segments()
        if not groups:
            return lines
        extents = [self.places.extents[g] for g in groups]
        taken = take_apart("segment", tuple((f"s{k}", e) for k, e in enumerate(extents)), {f"s{k}" for k in range(9)})
        return [
            f"for (int64_t segment = 0; segment < {' * '.join(extents)}; ++segment) {{",
            *indent([*taken, *pointers, *lines]),
            "}",
        ]

    def _segment_index(self) -> dict[Group, str]:
        groups = self.places.segments()
        return {g: "segment" if len(groups) == 1 else f"s{k}" for k, g in enumerate(groups)}

    def _rows(self) -> list[str]:
        program = self.program
        index = self._segment_index()
        reads = tuple(o for o in program.operands if any(o in program.reads(p) for p in program.passes))
        inside = self.places.decode((*reads, *program.row_reads))
        if not index:
            inside += [*self._row_pointers(reads), *self._output_pointers()]
        inside += self._row_values()
        for number, one in enumerate(program.passes):
            inside.append(self.body.title(one))
            for step in one.reductions:
                inside += self._lanes(step)
            pointers = self._row_pointers(program.reads(one), index) if index else []
            if one.reductions:
                inside += self._segments(self._accumulate(one, number, "0", "cols"), pointers)
            else:
                pointers += self._output_pointers(index) if index else []
                inside += self._segments(self._write(one, number, "cols"), pointers)
            for step in one.reductions:
                inside.append(f"const {self.writer.c_types[step.name]} {self.names[step.name]} = {self._join(step)};")
            inside += [*self.body.compute(one.after), *self.body.invert((*one.reductions, *one.after))]
        inside += self._store_rows()
        if not program.outer:
            buffers = [f"std::vector<{self._kept_type(n)}> {self.names[n]}_kept(cols);" for n in self.kept]
            end = ["_stark_stream_end();"] if self.variant.streaming else []
            return [*buffers, *inside, *end]
        rows = self.places.rows()
        loop = [f"for (int64_t row = 0; row < {rows}; ++row) {{", *indent(inside), "}"]
        buffers = [f"std::vector<{self._kept_type(n)}> {self.names[n]}_kept(cols);" for n in self.kept]
        return self._team(f"{rows} * {self.places.count()}", loop, self.places.count(), buffers=buffers)

    def _kept_type(self, name: str) -> str:
        c_type = self.writer.c_types[name]
        return "char" if c_type == "bool" else c_type

    def _rows_split(self) -> list[str]:
        """Few long rows: all threads share one, chunk by chunk; partial results are joined in the chunks' order."""
        program = self.program
        reads = tuple(o for o in program.operands if any(o in program.reads(p) for p in program.passes))
        inside = self.places.decode((*reads, *program.row_reads))
        inside += [*self._row_pointers(reads), *self._output_pointers(), *self._row_values()]
        share = self._parallel("cols", " for schedule(static)")
        lines = [f"const int64_t chunks = (cols + {CHUNK - 1}) / {CHUNK};"]
        for number, one in enumerate(program.passes):
            inside.append(self.body.title(one))
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
                work = self._chunk_write(one, number)
            inside += [share, "for (int64_t chunk = 0; chunk < chunks; ++chunk) {", *indent(work), "}"]
            for step in one.reductions:
                inside += self._join_parts(step)
            inside += [*self.body.compute(one.after), *self.body.invert((*one.reductions, *one.after))]
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
        joined = self.writer.combine(step.op, f"{name}_all", f"{wide}({name}_parts[chunk])", wide)
        return [
            f"{wide} {name}_all = {identity(step.op, wide)};",
            f"for (int64_t chunk = 0; chunk < chunks; ++chunk) {name}_all = {joined};",
            f"const {c_type} {name} = {c_type}({name}_all);",
        ]

    def _chunk_write(self, one: Pass, number: int) -> list[str]:
        work = [f"const int64_t first = chunk * {CHUNK}, last = first + {CHUNK} < cols ? first + {CHUNK} : cols;"]
        if self.variant.streaming:
            return [
                *work,
                f"for (int64_t begin = first; begin < last; begin += {self._block}) {{",
                *indent([f"const int64_t width = last - begin < {self._block} ? last - begin : {self._block};"]),
                *indent(self._stream_block(one, number)),
                "}",
                "_stark_stream_end();",
            ]
        loads, steps = self._value_of(one, number, "j")
        stores = [f"{self.names[f'out {k}']}_row[j] = {self.body.output_value(k)};" for k in self.body.outputs(False)]
        return [
            *work,
            "#pragma omp simd",
            "for (int64_t j = first; j < last; ++j) {",
            *indent([*loads, *self.body.compute(steps), *stores]),
            "}",
        ]

    def _columns(self) -> list[str]:
        """Results lie next to each other: walk down `width` columns at a time, a row of them for each step."""
        program = self.program
        wide = self.variant.block or WIDTH
        inner = program.groups[-1]
        (reduced,) = program.reduced
        results = {o.step for o in program.spec.outputs if o.reduced}

        def at(operand: str, index: dict[Group, str]) -> str:
            base = self.places.operand_row(operand, index)
            own = "begin + j" if program.advances(operand, inner) else ""
            return f"{self.names[operand]}[{' + '.join(x for x in (base, own) if x) or '0'}]"

        def row_loads(steps: tuple[Step, ...], outputs: bool) -> list[str]:
            used = {a for s in steps for a in s.args} | (results if outputs else set())
            return [self.body.load(o, at(o, {})) for o in program.row_reads if o in used]

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
            inside.append(self.body.title(one).replace("the row", "the columns"))
            work = [self.body.load(o, at(o, {reduced: "r"})) for o in program.reads(one)]
            work += row_loads((*one.elements, *one.reductions), False)
            work += self.body.compute(one.elements)
            start = []
            for step in one.reductions:
                name, c_type = f"{self.names[step.name]}_lanes", self.writer.c_types[step.name]
                inside.append(f"{c_type} {name}[{wide}];")
                start.append(f"{name}[j] = {identity(step.op, c_type)};")
                value = self.body.reduction_value(step)
                work.append(f"{name}[j] = {self.writer.combine(step.op, f'{name}[j]', value, c_type)};")
            if not one.reductions:
                base = self.places.output_row(False, {reduced: "r"})
                for k in self.body.outputs(False):
                    work.append(f"{self.names[f'out {k}']}[{base} + begin + j] = {self.body.output_value(k)};")
            if start:
                inside.append(f"for (int64_t j = 0; j < width; ++j) {' '.join(start)}".replace(") ", ") { ", 1) + " }")
            inside += ["for (int64_t r = 0; r < length; ++r) {", *indent(over_columns(work)), "}"]
            for step in one.reductions:
                self.writer.names[step.name] = f"{self.names[step.name]}_lanes[j]"
            inside += row_steps(one.after)
        if self.body.outputs(True):
            base = self.places.output_row(True, {})
            where = " + ".join(x for x in (base, "begin + j") if x)
            stores = [
                f"{self.names[f'out {k}']}[{where}] = {self.body.output_value(k)};" for k in self.body.outputs(True)
            ]
            inside += over_columns([*row_loads((), True), *stores])
        rows = self.places.rows()
        blocks = [f"for (int64_t begin = 0; begin < cols; begin += {wide}) {{", *indent(inside), "}"]
        schedule = self._schedule(f"length * (cols < {wide} ? cols : {wide})")
        if not program.outer:
            return [self._parallel("length * cols", f" for{schedule}"), *blocks]
        loop = [f"for (int64_t row = 0; row < {rows}; ++row)", *indent(blocks)]
        return [self._parallel(f"{rows} * length * cols", f" for collapse(2){schedule}"), *loop]


def _plain(lines: list[str], names: list[str]) -> list[str]:
    """In a flat kernel a row is the whole tensor: `x_row` is just `x`."""
    for name in names:
        lines = [line.replace(f"{name}_row", name) for line in lines]
    return lines


_MATH = re.compile(
    r"\b(NAN|INFINITY|(fabs|sqrt|exp|exp2|expm1|log|log2|log1p|sin|cos|tan|tanh|atan|sinh|cosh|erf|pow|fmod|floor|ceil"
    r"|trunc|nearbyint|copysign)f?(?=\())"
)


def source(text: str, helpers: str) -> str:
    """A whole C++ file."""
    whole = helpers + text
    head = ["#include <cmath>"] if _MATH.search(whole) else []
    head.append("#include <cstdint>")
    if "memcpy" in whole:
        head.append("#include <cstring>")
    if "std::vector" in whole:
        head.append("#include <vector>")
    if "_mm_" in whole:
        head += ["#ifdef __SSE2__", "#include <immintrin.h>", "#endif"]
    if "STARK_INLINE" in text:
        head += ["", "#define STARK_INLINE __attribute__((always_inline))"]
    return "\n".join(head) + "\n\n" + (f"{helpers}\n" if helpers else "") + text
