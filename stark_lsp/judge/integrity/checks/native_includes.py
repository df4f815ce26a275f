"""What C++ and CUDA sources may include."""

from __future__ import annotations

from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..words import Refusal, listed

STANDARD = listed(
    "algorithm any array atomic bit bitset cassert cctype cerrno cfenv cfloat charconv cinttypes climits "
    "cmath compare complex concepts condition_variable cstdarg cstddef cstdint cstdio cstdlib cstring ctime "
    "chrono deque exception execution expected format forward_list functional initializer_list iomanip ios "
    "iosfwd iostream istream iterator limits list locale map memory memory_resource mutex new numbers numeric "
    "optional ostream queue random ranges ratio regex set shared_mutex source_location span sstream stack "
    "stdexcept streambuf string string_view system_error tuple type_traits typeindex typeinfo unordered_map "
    "unordered_set utility valarray variant vector version assert.h ctype.h errno.h fenv.h float.h inttypes.h "
    "limits.h math.h stdalign.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h tgmath.h "
    "time.h complex.h malloc.h alloca.h omp.h immintrin.h x86intrin.h xmmintrin.h emmintrin.h pmmintrin.h "
    "tmmintrin.h smmintrin.h nmmintrin.h avxintrin.h arm_neon.h arm_sve.h cpuid.h cuda.h cuda_runtime.h "
    "cuda_runtime_api.h cuda_fp16.h cuda_fp16.hpp cuda_bf16.h cuda_bf16.hpp cuda_fp8.h cuda_fp6.h cuda_fp4.h "
    "cuda_pipeline.h cuda_pipeline_primitives.h cuda_awbarrier.h cuda_awbarrier_primitives.h "
    "cuda_texture_types.h cooperative_groups.h mma.h device_launch_parameters.h device_functions.h "
    "device_atomic_functions.h math_constants.h math_functions.h vector_types.h vector_functions.h "
    "builtin_types.h host_defines.h driver_types.h channel_descriptor.h cublas_v2.h cublas.h cublasLt.h "
    "cublas_api.h cusparse.h cusparseLt.h cudnn.h cufft.h curand.h curand_kernel.h cusolverDn.h cuComplex.h "
    "library_types.h sm_60_atomic_functions.h crt/math_functions.h nvtx3/nvToolsExt.h nvToolsExt.h Python.h"
)
"""Headers of the C++ library, of the CPU's instructions, of the CUDA toolkit."""
FOLDERS = (
    "torch/",
    "ATen/",
    "c10/",
    "caffe2/",
    "pybind11/",
    "cub/",
    "thrust/",
    "cuda/",
    "cooperative_groups/",
    "cutlass/",
    "cute/",
    "nv/",
    "crt/",
    "mkl",
    "oneapi/",
    "cudnn_",
    "nvtx3/",
    "TH/",
    "THC/",
    "hip/",
    "device/",
    "experimental/simd",
)
_DANGEROUS = {
    "thread": "threads",
    "future": "threads",
    "pthread.h": "threads",
    "semaphore": "threads",
    "threads.h": "threads",
    "barrier": "threads",
    "latch": "threads",
    "stop_token": "threads",
    "coroutine": "work done later",
    "fstream": "files",
    "filesystem": "files",
    "fcntl.h": "files",
    "unistd.h": "the system",
    "dlfcn.h": "other libraries",
    "signal.h": "signals",
    "csignal": "signals",
    "setjmp.h": "jumps out of the call",
    "csetjmp": "jumps out of the call",
    "cupti.h": "profiling",
    "spawn.h": "processes",
    "cudaProfiler.h": "profiling",
    "nvml.h": "the driver",
}


def includes(candidate: Candidate) -> Iterator[Refusal]:
    """Headers that a kernel has no use for, and files that are no headers."""
    for native in candidate.natives:
        yield from includes_of(native)


def includes_of(native: Native) -> Iterator[Refusal]:
    """As `includes`, for one source."""
    for include in native.unit.includes:
        name, line = include.name, native.line(include.token)
        if include.directive == "embed":
            yield Refusal("It embeds a file (#embed).", line)
        elif not name:
            yield Refusal("It includes a file whose name is only known to the compiler.", line)
        elif name.startswith(("/", "\\")) or ":" in name:
            yield Refusal(f"It includes {name[:80]}: only headers by name are allowed.", line)
        elif ".." in name.split("/") or name.startswith(("~", ".")):
            yield Refusal(f"It includes {name[:80]}, outside of the folders for headers.", line)
        elif name in _DANGEROUS or name.startswith(
            ("sys/", "linux/", "asm/", "net", "arpa/", "bits/", "python", "cpython/")
        ):
            why = _DANGEROUS.get(name, "the system")
            if name == "bits/stdc++.h":
                continue
            yield Refusal(f"It includes <{name[:80]}>, for {why}; a kernel needs none.", line)
        elif name not in STANDARD and not name.startswith(FOLDERS):
            yield Refusal(f"It includes {name[:80]}, which is no header of C++, torch, CUDA or CUTLASS.", line)
