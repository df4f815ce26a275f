"""Kernels for CUDA without a reduction: one pass over flat tensors, or over matrices with their own strides."""

from __future__ import annotations

from stark_lsp.playbook.kernels.cuda_kernel import CudaKernel, each
from stark_lsp.playbook.kernels.program import Layout
from stark_lsp.playbook.kernels.text import indent, plus


class CudaPointwise(CudaKernel):
    """Writes one kernel without a reduction."""

    def text(self) -> str:
        """The kernel and its exported launcher, with a comment above."""
        if self.program.layout is Layout.FLAT:
            return self.whole(self._flat(), self._flat_launch())
        return self.whole(self._matrix(), self._matrix_launch())

    def _flat(self) -> list[str]:
        (one,) = self.program.passes
        reads = self.program.reads(one)
        threads = self.variant.threads
        lines = self.row_values()
        declare, fill, write = self.stores(self.outputs(False), "j")
        lines.append(f"const int64_t first = (int64_t(blockIdx.x) * {threads} * ITEMS + threadIdx.x) * V;")
        lines += [f"{self.vector_type(o)} {self.names[o]}_v[ITEMS];" for o in reads]
        at = f"const int64_t j = first + item * {threads} * V;"
        load = [f"if (j < n) {self.names[o]}_v[item] = _stark_load<V>({self.names[o]} + j);" for o in reads]
        work = [self.load(o, f"{self.names[o]}_v[item].at[k]") for o in reads]
        work += [*self.compute(one.elements), *fill]
        lines += [*each("item", "ITEMS", [at, *load])]
        lines += each("item", "ITEMS", [at, "if (j >= n) break;", *declare, *each("k", "V", work), *write])
        return self.kernel(f"_stark_{self.program.spec.name}_kernel", "int V, int ITEMS", lines)

    def _flat_launch(self) -> list[str]:
        call = (
            f"_stark_{self.program.spec.name}_kernel<{{v}}, {{items}}>"
            f"<<<unsigned((n + tile - 1) / tile), {self.variant.threads}, 0, stream>>>"
            f"({self.arguments()}, {self.sizes()});"
        )
        tile = self.variant.threads * self.variant.vector * self.variant.items
        return [f"const int64_t tile = {tile};", *self.choose(call)]

    def _matrix(self) -> list[str]:
        (one,) = self.program.passes
        reads = self.program.reads(one)
        threads = self.variant.threads
        declare, fill, write = self.stores(self.outputs(False), f"{self.places.output_row(False, {})} + j")
        inside = [
            f"const Index at = (Index(blockIdx.x) * ITEMS + item) * {threads} + threadIdx.x;",
            f"if (at >= {self.places.rows()} * (cols / V)) break;",
            "const Index row = at / (cols / V);",
            "const Index j = (at - row * (cols / V)) * V;",
            *[line.replace("int64_t", "Index") for line in self.places.decode((*reads, *self.program.row_reads))],
        ]
        inside += self.row_values()
        for operand in reads:
            name = self.names[operand]
            place = plus(name, self.places.operand_row(operand, {}), "j")
            inside.append(f"const {self.vector_type(operand)} {name}_v = _stark_load<V>({place});")
        work = [self.load(o, f"{self.names[o]}_v.at[k]") for o in reads]
        work += [*self.compute(one.elements), *fill]
        inside += [*declare, *each("k", "V", work), *write]
        lines = each("item", "ITEMS", inside)
        return self.kernel(f"_stark_{self.program.spec.name}_kernel", "int V, int ITEMS, class Index", lines, "Index")

    def _matrix_launch(self) -> list[str]:
        call = (
            f"_stark_{self.program.spec.name}_kernel<{{v}}, {{items}}, Index>"
            f"<<<unsigned((total + tile - 1) / tile), {self.variant.threads}, 0, stream>>>"
            f"({self.arguments()}, {self.sizes()});"
        )
        tile = self.variant.threads * self.variant.vector * self.variant.items
        return [
            f"const int64_t total = {self.places.rows()} * cols, tile = {tile};",
            "const auto launch = [&](auto narrow) {  // dividing 32-bit numbers is several times faster",
            *indent(["using Index = decltype(narrow);", *self.choose(call)]),
            "};",
            "if (total < (int64_t(1) << 31)) launch(uint32_t(0)); else launch(int64_t(0));",
        ]
