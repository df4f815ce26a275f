"""What all kernels have in common, whatever device they are for: reading operands, computing steps, writing outputs."""

from __future__ import annotations

from collections.abc import Iterable

from stark_lsp.playbook.kernels.expressions import Writer
from stark_lsp.playbook.kernels.places import Places
from stark_lsp.playbook.kernels.program import Pass, Program
from stark_lsp.playbook.kernels.types import COMPUTE
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import COUNT, Step


class Kernel:
    """Writes one kernel.

    Parameters
    ----------
    program
        What it computes.
    variant
        How.
    writer
        Writes its expressions.
    """

    def __init__(self, program: Program, variant: Variant, writer: Writer) -> None:
        self.program = program
        self.variant = variant
        self.writer = writer
        self.places = Places(program)
        self.names = self.places.names
        for operand in program.spec.operands:
            writer.names[operand.name] = f"{self.names[operand.name]}_i"
            writer.c_types[operand.name] = COMPUTE[operand.dtype]
        for step in program.spec.steps:
            writer.names[step.name] = self.names[step.name]
            writer.c_types[step.name] = COMPUTE[step.dtype]

    def text(self) -> str:
        """All functions of the kernel, with a comment above; the last one is exported."""
        raise NotImplementedError

    def row_values(self) -> list[str]:
        """Operands that have one value for a row, and steps on such."""
        places = {o: self.places.operand_row(o, {}) or "0" for o in self.program.row_reads}
        loads = [self.load(operand, f"{self.names[operand]}[{at}]") for operand, at in places.items()]
        return loads + self.compute(self.program.before)

    @property
    def counts(self) -> bool:
        """Whether some step asks how many elements a reduction runs over."""
        return any(COUNT in s.args for s in self.program.spec.steps if s.name in self.program.needed)

    def operand_type(self, operand: str) -> str:
        """The C type of an operand's elements in memory."""
        return self.writer.storage(self.program.operands[operand].dtype)

    def output_types(self) -> tuple[str, ...]:
        """The C types of the outputs' elements in memory."""
        return tuple(self.writer.storage(o.dtype) for o in self.program.spec.outputs)

    def pointer_parameters(self) -> list[str]:
        """Parameters for the operands and outputs."""
        found = [
            f"const {self.operand_type(o.name)}* __restrict__ {self.names[o.name]}" for o in self.program.spec.operands
        ]
        found += [f"{t}* __restrict__ {self.names[f'out {k}']}" for k, t in enumerate(self.output_types())]
        return found

    def size_parameters(self) -> list[str]:
        """Parameters for the extents and row strides."""
        found = [f"int64_t {name}" for name, _ in self.places.parameters]
        return found + [f"int64_t {self.names[o]}_stride" for o in self.places.strided()]

    def load(self, operand: str, place: str) -> str:
        """Declare an operand's value, read from a place."""
        c_type = self.writer.c_types[operand]
        value = self.writer.load(self.program.operands[operand].dtype, place)
        return f"const {c_type} {self.writer.names[operand]} = {value};"

    def compute(self, steps: Iterable[Step]) -> list[str]:
        """Declare the values of pointwise steps."""
        lines = []
        for step in steps:
            c_type, value = self.writer.assign(step)
            lines.append(f"const {c_type} {self.names[step.name]} = {value};")
        return lines

    def after(self, one: Pass) -> list[str]:
        """Declare the steps on a whole row that follow a pass; they are too few to be worth functions of our own."""
        self.writer.vectors = False
        lines = [*self.compute(one.after), *self.invert((*one.reductions, *one.after))]
        self.writer.vectors = True
        return lines

    def invert(self, steps: Iterable[Step]) -> list[str]:
        """Declare the reciprocals of row values by which elements are divided: a division costs as much as an exp."""
        lines = []
        for step in steps:
            if step.name in self.program.divisors and self.writer.c_types[step.name] == "float":
                name = self.names[step.name]
                self.writer.inverses[step.name] = f"{name}_inverse"
                lines.append(f"const float {name}_inverse = 1.0f / {name};")
        return lines

    def output_value(self, number: int) -> str:
        """What is stored for an output."""
        output = self.program.spec.outputs[number]
        return self.writer.stored(self.writer.names[output.step], self.writer.c_types[output.step], output.dtype)

    def outputs(self, reduced: bool) -> list[int]:
        """Numbers of the outputs of one kind."""
        return [k for k, o in enumerate(self.program.spec.outputs) if o.reduced == reduced]

    def reduction_value(self, step: Step) -> str:
        """The value that a reduction takes in, as its own compute type."""
        return self.writer.argument(step.args[0], self.writer.c_types[step.name])

    def heading(self) -> list[str]:
        """The comment above the kernel."""
        spec = self.program.spec
        return [f"// {spec.name}: {spec.doc}" if spec.doc else f"// {spec.name}"]

    def title(self, one: Pass) -> str:
        """What a pass is for, as a comment."""
        if one.reductions:
            return f"// Pass over the row: {', '.join(self.names[s.name] for s in one.reductions)}."
        return "// Last pass: write the result."
