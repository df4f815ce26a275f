"""CUDA C++: one kernel and one exported launcher for each spec (a split reduction has a kernel for each pass).

Loads are 16 bytes wide where all pointers and sizes allow it; the host falls back to single elements where they do
not. A thread has `items` loads in flight.
"""

from __future__ import annotations

from stark_lsp.playbook.kernels.cuda_kernel import CudaKernel
from stark_lsp.playbook.kernels.cuda_pointwise import CudaPointwise
from stark_lsp.playbook.kernels.cuda_reduction import CudaReduction
from stark_lsp.playbook.kernels.cuda_split import CudaSplitReduction
from stark_lsp.playbook.kernels.helpers import helper_text
from stark_lsp.playbook.kernels.program import Program
from stark_lsp.playbook.kernels.variant import Variant


def kernel(program: Program, variant: Variant) -> CudaKernel:
    """What writes the kernel of a program; see `CudaKernel`."""
    if not program.spec.reduce_dims:
        return CudaPointwise(program, variant)
    return (CudaSplitReduction if variant.split else CudaReduction)(program, variant)


def source(text: str) -> str:
    """A whole CUDA file of kernels."""
    helpers = helper_text(text, "cuda")
    head = ["#include <cmath>", "#include <cstdint>"]
    if "cooperative_groups" in helpers:
        head.append("#include <cooperative_groups.h>")
    if "__half" in text or "__half" in helpers:
        head.append("#include <cuda_fp16.h>")
    if "__nv_bfloat16" in text or "bfloat16" in helpers:
        head.append("#include <cuda_bf16.h>")
    error = 'extern "C" const char* _stark_error(int status) { return cudaGetErrorString(cudaError_t(status)); }\n'
    return "\n".join(head) + f"\n\n{helpers}\n{text}\n{error}"
