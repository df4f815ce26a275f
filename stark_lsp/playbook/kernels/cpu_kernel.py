"""What all kernels for the CPU have in common."""

from __future__ import annotations

from stark_lsp.playbook.kernels.expressions import Writer
from stark_lsp.playbook.kernels.kernel import Kernel
from stark_lsp.playbook.kernels.program import Group, Pass, Program
from stark_lsp.playbook.kernels.text import folded, indent, plus, signature, without_unused
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import Step

SMALL = 32768
"""Fewer elements than this stay on one thread: waking the others would cost more."""
BLOCK = 2048
"""Elements of a streamed block; it stays in the first-level cache."""
SHARE = 16384
"""Elements that a thread takes at a time when tasks are handed out on demand."""


class CpuKernel(Kernel):
    """Writes one kernel for the CPU."""

    def __init__(self, program: Program, variant: Variant) -> None:
        super().__init__(program, variant, Writer("cpu"))
        self.kept = program.kept if variant.keep and not variant.split and not self.places.segments() else ()

    def text(self) -> str:
        """The C++ function with the comment above it."""
        parameters = [*self.pointer_parameters(), *self.size_parameters(), "int threads"]
        counted = [f"const int64_t count = {self.places.count()};"] if self.counts else []
        lines = [
            *self.heading(),
            *signature(f'extern "C" void _stark_{self.program.spec.name}', parameters),
            *indent(folded(without_unused([*counted, *self.lines()]))),
            "}",
        ]
        return "\n".join(lines) + "\n"

    def lines(self) -> list[str]:
        """The statements of the function."""
        raise NotImplementedError

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
            start = plus(self.names[operand], self.places.operand_row(operand, index or {}))
            lines.append(f"const {self.operand_type(operand)}* {self.names[operand]}_row = {start};")
        return lines

    def _output_pointers(self, index: dict[Group, str] | None = None) -> list[str]:
        lines = []
        for k in self.outputs(False):
            name = self.names[f"out {k}"]
            start = plus(name, self.places.output_row(False, index or {}))
            lines.append(f"{self.output_types()[k]}* {name}_row = {start};")
        return lines

    def _value_of(self, one: Pass, number: int, at: str) -> tuple[list[str], tuple[Step, ...]]:
        """Loads, and the steps still to compute, for the element at an index; kept values are read back."""
        kept_before = {
            name
            for name in self.kept
            if any(name in {s.name for s in earlier.elements} for earlier in self.program.passes[:number])
        }
        roots = {a for s in one.reductions for a in s.args if isinstance(a, str)}
        roots |= set(self.program.element_outputs) if not one.reductions else set()
        known = self.program.row_values | kept_before
        used = (self.program.closure(roots - known, known) | roots) & self.program.element_values
        lines = [self.load(o, f"{self._element(o, at)}") for o in self.program.operands if o in used]
        for name in self.kept:
            if name in used and name in kept_before:
                lines.append(f"const {self.writer.c_types[name]} {self.names[name]} = {self.names[name]}_kept[{at}];")
        return lines, tuple(s for s in one.elements if s.name in used and s.name not in kept_before)

    def _loop(self, one: Pass, number: int, begin: str, end: str) -> list[str]:
        """The loop over elements that stores the element outputs."""
        loads, steps = self._value_of(one, number, "j")
        stores = [f"{self.names[f'out {k}']}_row[j] = {self.output_value(k)};" for k in self.outputs(False)]
        return [
            "#pragma omp simd",
            f"for (int64_t j = {begin}; j < {end}; ++j) {{",
            *indent([*loads, *self.compute(steps), *stores]),
            "}",
        ]

    def _streamed(self, one: Pass, number: int, begin: str, end: str) -> list[str]:
        """The same, block by block and past the cache."""
        return [
            f"for (int64_t begin = {begin}; begin < {end}; begin += {self._block}) {{",
            *indent([f"const int64_t width = {end} - begin < {self._block} ? {end} - begin : {self._block};"]),
            *indent(self._stream_block(one, number)),
            "}",
        ]

    def _element(self, operand: str, at: str) -> str:
        moves = self.program.advances(operand, self.program.groups[-1])
        return f"{self.names[operand]}_row[{at if moves else 0}]"

    def _stream_block(self, one: Pass, number: int) -> list[str]:
        loads, steps = self._value_of(one, number, "begin + j")
        types = self.output_types()
        numbers = self.outputs(False)
        names = {k: self.names[f"out {k}"] for k in numbers}
        return [
            *[f"alignas(64) {types[k]} {names[k]}_block[{self._block}];" for k in numbers],
            "#pragma omp simd",
            "for (int64_t j = 0; j < width; ++j) {",
            *indent([*loads, *self.compute(steps)]),
            *indent([f"{names[k]}_block[j] = {self.output_value(k)};" for k in numbers]),
            "}",
            *[f"_stark_stream({names[k]}_row + begin, {names[k]}_block, width * sizeof({types[k]}));" for k in numbers],
        ]
