"""Which variants of a kernel are worth trying, best guess first; what to retreat to after a failure."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from stark_lsp.playbook.kernels.program import Layout, Program
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import ITEM_BYTES, KernelSpec

LARGE_CPU = 1 << 18
"""Outputs of fewer elements than this stay in the cache: streaming stores would only lose."""
FEW_ROWS_CPU = 16
"""Fewer rows than this may leave threads without work."""
FEW_ROWS_CUDA = 128
"""Fewer rows than this leave multiprocessors without work."""
HELD_CUDA = 64
"""Elements that a thread of a cluster, in blocks of 512, has registers for, and half as many more where a row is summed
once; measured on an H200."""
LONG_CUDA = 16384
"""Rows of at least this many elements are worth sharing among blocks."""


def variants(spec: KernelSpec, device_type: str, *, clusters: bool = False) -> tuple[Variant, ...]:
    """Variants worth trying, best guess first, each valid for the spec.

    Parameters
    ----------
    clusters
        Whether blocks of the GPU may read each other's shared memory, as from compute capability 9.0 on.
    """
    program = Program(spec)
    found = _cpu(program) if device_type == "cpu" else _cuda(program, clusters)
    return tuple(dict.fromkeys(found))


def plain(spec: KernelSpec, device_type: str) -> Variant:
    """The variant that asks least of compiler and machine, for where another one failed."""
    if device_type == "cpu":
        return Variant(threads=1, vector=16 if spec.reduce_dims else 1)
    across = {Layout.ROWS: 128, Layout.COLUMNS: 8}
    return Variant(threads=128, row_threads=across.get(Program(spec).layout, 0))


# ---------------------------------------------------------------- CPU


def _cpu(program: Program) -> list[Variant]:
    large = any(not o.reduced for o in program.spec.outputs) and prod(program.spec.space) >= LARGE_CPU
    streams = [False, True] if large and program.layout is not Layout.COLUMNS else [False]
    if program.layout in (Layout.FLAT, Layout.MATRIX):
        return _cpu_pointwise(program, large)
    if program.layout is Layout.COLUMNS:
        return _cpu_columns(program)
    splittable = len(program.reduced) == 1
    few = splittable and program.rows < FEW_ROWS_CPU and program.length > 65536
    keeps = [True, False] if program.kept and program.length <= 65536 else [False]
    whole = [Variant(vector=64, streaming=s, keep=k) for s in streams for k in keeps]
    whole.insert(1, replace(whole[0], vector=32))
    shared = [Variant(split=True, vector=64, streaming=s) for s in streams]
    if few:
        return [*shared, whole[0]]
    return [*whole, shared[0]] if splittable and program.rows < 4 * FEW_ROWS_CPU else whole


def _cpu_pointwise(program: Program, large: bool) -> list[Variant]:
    """Measured on two cores: no choice wins everywhere, and other work on the machine favours tasks on demand."""
    longest = prod(program.spec.space) if program.layout is Layout.FLAT else program.cols
    found = [Variant()]
    if large:
        found += [Variant(streaming=True), Variant(streaming=True, dynamic=True)]
    else:
        found.append(Variant(threads=1))
    found.append(Variant(block=16384 if longest >= 4 * 16384 else 4096, dynamic=True))
    found += [Variant(block=b) for b in (512, 8192) if b < longest]
    if large and longest > 512:
        found[-1] = Variant(block=512, streaming=True)
    return found


def _cpu_columns(program: Program) -> list[Variant]:
    """Measured on two cores: 128 to 256 neighbouring results at a time, more where each has few elements."""
    found = [Variant(), *(Variant(block=b) for b in (128, 512, 64, 1024) if b < 2 * program.cols)]
    if len(found) < 5:
        found += [Variant(dynamic=True), Variant(block=32), Variant(threads=1)][: 5 - len(found)]
    return found


# ---------------------------------------------------------------- CUDA


def _vector(program: Program) -> int:
    """Elements of the widest dtype that fit into 16 bytes."""
    dtypes = [o.dtype for o in program.spec.operands if program.advances(o.name, program.groups[-1])]
    dtypes += [o.dtype for o in program.spec.outputs]
    return min(8, 16 // max(ITEM_BYTES[d] for d in dtypes))


def _cuda(program: Program, clusters: bool) -> list[Variant]:
    if program.layout in (Layout.FLAT, Layout.MATRIX):
        return _cuda_pointwise(program)
    if program.layout is Layout.COLUMNS:
        return _cuda_columns(program)
    return _cuda_rows(program, clusters)


def _cuda_pointwise(program: Program) -> list[Variant]:
    v = _vector(program) if program.cols > 1 else 1
    found = [Variant(threads=t, vector=v, items=i) for t, i in ((256, 1), (256, 2), (512, 1), (128, 4), (1024, 1))]
    if v > 1:
        found += [Variant(threads=256, vector=v // 2, items=2), Variant(threads=256, items=4)]
    if v < 8:
        found.append(Variant(threads=256, vector=2 * v, items=1))
    return found


def _cuda_rows(program: Program, clusters: bool) -> list[Variant]:
    v = _vector(program)
    vectors = -(-program.length // v)
    counted = [o for one in program.passes for o in program.reads(one)]
    again = sum(counted.count(o) > 1 for o in set(counted))
    cached = max(1, again)
    found = []
    if program.outer:
        for across in (8, 16, 32):
            items = -(-vectors // across)
            if items * v * cached <= 64 and (across == 32 or items <= 2):
                threads = 128 if across == 32 else 256
                found.append(Variant(threads=threads, row_threads=across, vector=v, items=items))
    blocks = []
    for threads in (128, 256, 512, 1024):
        items = -(-vectors // threads)
        if threads <= 2 * max(vectors, 64) and items * v * cached <= (32 if threads == 1024 else 64):
            blocks.append(Variant(threads=threads, row_threads=threads, vector=v, items=items))
    # Measured on an H200: two to four vectors for each thread in blocks of 256, then 512; rows too long for the
    # registers want as many threads as there are.
    found += sorted(blocks, key=lambda b: (not 2 <= b.items <= 4, (256, 512, 128, 1024).index(b.threads)))[:4]
    # Of halves one block is faster.
    once = sum(bool(one.reductions) for one in program.passes) == 1
    most = HELD_CUDA * 3 // 2 if once else HELD_CUDA
    together = _clusters(v, vectors, again, most) if clusters and v == 4 and not blocks else []
    found += together
    streamed = [Variant(threads=t, row_threads=t, vector=v, items=i) for t, i in ((1024, 2), (512, 4), (256, 4))]
    found += [one for one in streamed if one.threads * v <= 2 * max(program.length, 128)]
    shared = _shared_rows(program, v)
    if program.rows <= FEW_ROWS_CUDA and program.length >= LONG_CUDA:
        return [*shared, *found[: 3 + len(together)]] or found
    if program.rows <= 4 * FEW_ROWS_CUDA:
        found += shared[:1]
    return found or [Variant(threads=256, row_threads=256, items=2)]


def _clusters(v: int, vectors: int, again: int, most: int) -> list[Variant]:
    """Rows that so many operands are read again of, in the registers of as few blocks as hold them, or of more."""
    found = []
    for blocks in (2, 4, 8):
        items = -(-vectors // (512 * blocks))
        if 16 <= items * v * again <= (most if blocks == 8 else HELD_CUDA):
            found.append(Variant(threads=512, row_threads=512 * blocks, vector=v, items=items, cluster=blocks))
    return found


def _shared_rows(program: Program, v: int) -> list[Variant]:
    if len(program.reduced) > 1:
        return []
    wanted = max(2, 1056 // max(1, program.rows))
    wanted = min(wanted, max(2, program.length // (256 * v)))
    parts = min(1024, 1 << (wanted.bit_length() - 1))
    wide = Variant(split=True, threads=512, row_threads=512, vector=v, items=2, parts=max(2, parts // 2))
    return [wide, *(replace(wide, threads=256, row_threads=256, items=i, parts=parts) for i in (4, 2))]


def _cuda_columns(program: Program) -> list[Variant]:
    widest = _vector(program)
    found = []
    for v in dict.fromkeys((widest if program.cols >= 32 * widest else 1, 2 if program.cols >= 64 else 1, 1)):
        for threads, down in ((256, 8), (512, 16), (256, 4), (1024, 32)):
            if down > 2 * program.length:
                continue
            items = min(-(-program.length // down), max(1, 32 // v))
            found.append(Variant(threads=threads, row_threads=down, vector=v, items=items))
    if program.cols < 16:
        across = max(1, 1 << (program.cols - 1).bit_length())
        found.insert(0, Variant(threads=256, row_threads=256 // across, items=4))
    results = program.rows * program.cols
    parts = 1 << max(1, min(6, (program.length // 64).bit_length() - 1))
    v = 1 if program.cols < 128 else min(widest, 4)
    shared = [
        Variant(split=True, threads=256, row_threads=down, vector=v, items=4, parts=parts)
        for down in ((8, 4) if program.cols >= 32 else (max(8, 256 // max(1, 1 << (program.cols - 1).bit_length())),))
    ]
    if results <= 16384 and program.length >= 1024:
        return [*shared, *found[:6]]
    return found[:8] or [Variant(threads=256, row_threads=8, items=1)]
