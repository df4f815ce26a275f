"""C++ with OpenMP: one exported function for each kernel."""

from __future__ import annotations

import re

from stark_lsp.playbook.kernels.cpu_columns import CpuColumns
from stark_lsp.playbook.kernels.cpu_kernel import CpuKernel
from stark_lsp.playbook.kernels.cpu_pointwise import CpuPointwise
from stark_lsp.playbook.kernels.cpu_rows import CpuRows
from stark_lsp.playbook.kernels.helpers import helper_text
from stark_lsp.playbook.kernels.program import Layout, Program
from stark_lsp.playbook.kernels.variant import Variant

_KERNELS: dict[Layout, type[CpuKernel]] = {
    Layout.FLAT: CpuPointwise,
    Layout.MATRIX: CpuPointwise,
    Layout.ROWS: CpuRows,
    Layout.COLUMNS: CpuColumns,
}
_MATH = re.compile(
    r"\b(NAN|INFINITY|(fabs|sqrt|exp|exp2|expm1|log|log2|log1p|sin|cos|tan|tanh|atan|sinh|cosh|erf|pow|fmod|floor|ceil"
    r"|trunc|nearbyint|copysign)f?(?=\())"
)


def kernel(program: Program, variant: Variant) -> CpuKernel:
    """What writes the kernel of a program; see `CpuKernel`."""
    return _KERNELS[program.layout](program, variant)


def source(text: str) -> str:
    """A whole C++ file of kernels."""
    helpers = helper_text(text, "cpu")
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
