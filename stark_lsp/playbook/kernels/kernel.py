"""What all kernels have in common, whatever device they are for."""

from __future__ import annotations

from stark_lsp.playbook.kernels.body import Body
from stark_lsp.playbook.kernels.expressions import Writer
from stark_lsp.playbook.kernels.program import Program
from stark_lsp.playbook.kernels.variant import Variant


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
        self.body = Body(program, writer)
        self.places = self.body.places
        self.names = self.places.names

    def text(self) -> str:
        """All functions of the kernel, with a comment above; the last one is exported."""
        raise NotImplementedError

    def row_values(self) -> list[str]:
        """Operands that have one value for a row, and steps on such."""
        places = {o: self.places.operand_row(o, {}) or "0" for o in self.program.row_reads}
        loads = [self.body.load(operand, f"{self.names[operand]}[{at}]") for operand, at in places.items()]
        return loads + self.body.compute(self.program.before)
