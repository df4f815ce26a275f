import _thread
import contextlib
import ctypes
import glob
import warnings

import torch


def _stark_library(name, source, types):
    """Kernels by name, built when they are first needed; none, after one warning, where they cannot be built."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack():
        return None  # who compiles, traces or watches is to see operators
    if name in _stark_libraries:
        return _stark_libraries[name]
    with _stark_lock:
        if name not in _stark_libraries:
            options = {"no_implicit_headers": True} if torch.__version__ >= (2, 8) else {}
            # On a CPU:
            # torch brings its own OpenMP; the kernels share it, and so its threads.
            openmp = glob.glob(f"{torch.__path__[0]}/lib/libgomp*.so*")[:1] or ["-lgomp"]
            flags = ["-O3", "-march=native", "-fopenmp", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
            flags += ["-mprefer-vector-width=512"] if torch.backends.cpu.get_cpu_capability() == "AVX512" else []
            # On both:
            path, told = None, f"PyTorch replaces {name}, which takes NEEDED to build: "
            with contextlib.ExitStack() as stack:
                stack.push(lambda _, why, at: isinstance(why, Exception) and not warnings.warn(told + str(why)[-300:]))
                from torch.utils.cpp_extension import load_inline

                # On a CPU:
                path = load_inline(
                    name, [source], extra_cflags=flags, extra_ldflags=openmp, is_python_module=False, **options
                )
                # On a GPU:
                path = load_inline(name, [], [source], extra_cuda_cflags=["-O3"], is_python_module=False, **options)
            # On both:
            library = ctypes.CDLL(path) if path else None
            _stark_libraries[name] = {kernel: types[kernel]((kernel, library)) for kernel in types if library}
    return _stark_libraries[name]


_stark_libraries, _stark_lock = {}, _thread.allocate_lock()
