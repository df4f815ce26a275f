"""Kernels for the CPU without a reduction: one pass over flat tensors, or over matrices with their own strides."""

from __future__ import annotations

from stark_lsp.playbook.kernels.cpu_kernel import CpuKernel
from stark_lsp.playbook.kernels.program import Layout
from stark_lsp.playbook.kernels.text import indent


class CpuPointwise(CpuKernel):
    """Writes one kernel without a reduction."""

    def lines(self) -> list[str]:
        """The statements of the function."""
        return self._flat() if self.program.layout is Layout.FLAT else self._matrix()

    def _flat(self) -> list[str]:
        (one,) = self.program.passes
        reads = self.program.reads(one)
        values = self.row_values()
        outs = [self.names[f"out {k}"] for k in self.outputs(False)]
        if self.variant.streaming:
            lines = self._team("n", self._streamed(one, 0, "0", "n"), str(self._block))
        elif self.variant.block:
            inner = [f"const int64_t end = n - begin < {self._block} ? n : begin + {self._block};"]
            inner += self._loop(one, 0, "begin", "end")
            loop = [f"for (int64_t begin = 0; begin < n; begin += {self._block}) {{", *indent(inner), "}"]
            lines = self._team("n", loop, str(self._block))
        else:
            lines = [self._parallel("n", " for simd schedule(static)"), *self._loop(one, 0, "0", "n")[1:]]
        return _plain([*values, *lines], [*(self.names[o] for o in reads), *outs])

    def _matrix(self) -> list[str]:
        (one,) = self.program.passes
        reads = self.program.reads(one)
        rows = self.places.rows()
        inside = [
            *self.places.decode((*reads, *self.program.row_reads)),
            *self._row_pointers(reads),
            *self._output_pointers(),
            *self.row_values(),
        ]
        if self.variant.streaming:
            inside += [f"const int64_t width = cols - begin < {self._block} ? cols - begin : {self._block};"]
            inside += self._stream_block(one, 0)
        else:
            inside += [
                f"const int64_t end = cols - begin < {self._block} ? cols : begin + {self._block};",
                *self._loop(one, 0, "begin", "end"),
            ]
        loop = [
            f"for (int64_t row = 0; row < {rows}; ++row)",
            *indent([f"for (int64_t begin = 0; begin < cols; begin += {self._block}) {{", *indent(inside), "}"]),
        ]
        task = f"cols < {self._block} ? cols : {self._block}"
        return self._team(f"{rows} * cols", loop, task, " collapse(2)")


def _plain(lines: list[str], names: list[str]) -> list[str]:
    """In a flat kernel a row is the whole tensor: `x_row` is just `x`."""
    for name in names:
        lines = [line.replace(f"{name}_row", name) for line in lines]
    return lines
