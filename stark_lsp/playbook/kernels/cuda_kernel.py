"""What all kernels for CUDA have in common."""

from __future__ import annotations

from stark_lsp.playbook.kernels.expressions import Writer
from stark_lsp.playbook.kernels.kernel import Kernel
from stark_lsp.playbook.kernels.program import Layout, Program
from stark_lsp.playbook.kernels.text import folded, indent, signature, without_unused
from stark_lsp.playbook.kernels.variant import Variant


class CudaKernel(Kernel):
    """Writes one kernel for CUDA."""

    def __init__(self, program: Program, variant: Variant) -> None:
        super().__init__(program, variant, Writer("cuda", shifted=program.shifted))
        self.columns = program.layout is Layout.COLUMNS
        self.last = program.groups[-1]
        self.segmented = bool(self.places.segments())
        self.index = "int64_t"
        self.bounds = str(variant.threads)
        self.walked = "length" if self.columns or self.segmented else "cols"

    def whole(self, kernels: list[str], launch: list[str], more: str = "") -> str:
        """The text of kernels and of their exported launcher, with a comment above."""
        return "\n".join([*self.heading(), *kernels, *self.exported(launch, more)]) + "\n"

    def kernel(self, name: str, template: str, lines: list[str], size: str = "int64_t", more: str = "") -> list[str]:
        """A `__global__` function; static, so that two libraries never mix theirs up."""
        sizes = [p.replace("int64_t", size, 1) if "_stride" not in p else p for p in self.size_parameters()]
        parameters = [*self.pointer_parameters(), *([more] if more else []), *sizes]
        together = f"__cluster_dims__({self.variant.cluster}, 1, 1) " if self.variant.cluster > 1 else ""
        return [
            f"template <{template}>",
            *signature(f"static __global__ void {together}__launch_bounds__({self.bounds}) {name}", parameters),
            *indent(folded(without_unused([*self._derived(size), *lines]))),
            "}",
        ]

    def _derived(self, size: str) -> list[str]:
        lines = []
        if self.segmented:
            lines.append(f"const {size} length = {self.places.count()};")
        if self.counts:
            lines.append(f"const int64_t count = {self.places.count()};")
        return lines

    def exported(self, launch: list[str], more: str = "") -> list[str]:
        """The C function that Python calls."""
        parameters = [*self.pointer_parameters(), *([more] if more else []), *self.size_parameters()]
        parameters += ["int device", "cudaStream_t stream"]
        return [
            "",
            *signature(f'extern "C" int _stark_{self.program.spec.name}', parameters),
            *indent(["const _stark_on_device guard(device);"]),
            *indent(launch),
            *indent(["return cudaGetLastError();"]),
            "}",
        ]

    def arguments(self) -> str:
        """The kernel's arguments as the launcher passes them on."""
        spec = self.program.spec
        found = [self.names[o.name] for o in spec.operands]
        found += [self.names[f"out {k}"] for k in range(len(spec.outputs))]
        return ", ".join(found)

    def sizes(self) -> str:
        """The extents and strides as the launcher passes them on."""
        found = [name for name, _ in self.places.parameters] + [
            f"{self.names[o]}_stride" for o in self.places.strided()
        ]
        return ", ".join(found)

    def wide(self) -> str:
        """The condition for vectors of `variant.vector` elements."""
        vector = self.variant.vector
        extent = self.places.extents[self.last]
        pointers = [self.names[o] for o in self.program.operands if self.moves(o) and o in self.program.element_values]
        if self.columns:
            pointers = [self.names[o] for o in self.program.operands if self.moves(o)]
        numbers = self.outputs(False) + (self.outputs(True) if self.columns else [])
        pointers += [self.names[f"out {k}"] for k in numbers]
        strides = [f"{self.names[o]}_stride % {vector} == 0" for o in self.places.strided()]
        parts = [f"{extent} % {vector} == 0", *strides]
        if pointers:
            parts.append(f"_stark_aligned<{vector}>({', '.join(pointers)})")
        return " && ".join(parts)

    def choose(self, *calls: str) -> list[str]:
        """Launch with vectors, or else element by element; calls have {v} for the width and {items}.

        Across rows a tile keeps its size: single elements come in more items. Down columns the items stay.
        """
        v, items = self.variant.vector, self.variant.items
        narrow = [call.format(v=1, items=items if self.columns else items * v) for call in calls]
        if v == 1:
            return narrow
        wide = [call.format(v=v, items=items) for call in calls]
        if len(calls) == 1:
            return [f"if ({self.wide()})", *indent(wide), "else", *indent(narrow)]
        return [f"if ({self.wide()}) {{", *indent(wide), "} else {", *indent(narrow), "}"]

    def moves(self, operand: str) -> bool:
        """Whether an operand advances along the last group."""
        return self.program.advances(operand, self.last)

    def vector_type(self, operand: str) -> str:
        """The C type of a vector of an operand's elements."""
        return f"_stark_vec<{self.operand_type(operand)}, V>"

    def stores(self, numbers: list[int], place: str) -> tuple[list[str], list[str], list[str]]:
        """Declaring, filling and writing the vectors of some outputs; `place` is formatted with the output's number."""
        types = self.output_types()
        names = {k: self.names[f"out {k}"] for k in numbers}
        declare = [f"_stark_vec<{types[k]}, V> {names[k]}_v;" for k in numbers]
        fill = [f"{names[k]}_v.at[k] = {self.output_value(k)};" for k in numbers]
        write = [f"_stark_store({names[k]} + {place}, {names[k]}_v);" for k in numbers]
        return declare, fill, write


def each(name: str, bound: str, lines: list[str]) -> list[str]:
    """An unrolled loop."""
    return ["#pragma unroll", f"for (int {name} = 0; {name} < {bound}; ++{name}) {{", *indent(lines), "}"]
