"""The Python text of a library of kernels: their source, its loader, and a launcher for each.

Names of a library end in the first letters of its source's hash, so that a file may hold several libraries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stark_lsp.playbook import handwritten
from stark_lsp.playbook.kernels import cpu, cuda, launcher
from stark_lsp.playbook.kernels.launcher import Launcher
from stark_lsp.playbook.kernels.naming import with_safe_operands
from stark_lsp.playbook.kernels.program import Program
from stark_lsp.playbook.kernels.support import supports
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import KernelSpec

IMPORTS = ["_thread", "contextlib", "ctypes", "glob", "warnings"]
_LIBRARY = '''\
_stark_libraries, _stark_lock = {}, _thread.allocate_lock()


def _stark_library(name, source, types):
    """Kernels by name, built when they are first needed; none, after one warning, where they cannot be built."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack():
        return None  # who compiles, traces or watches is to see operators
    if name in _stark_libraries:
        return _stark_libraries[name]
    with _stark_lock:
        if name not in _stark_libraries:
            options = {"no_implicit_headers": True} if torch.__version__ >= (2, 8) else {}
<prepare>            path, told = None, f"PyTorch replaces {name}, which takes <needed> to build: "
            with contextlib.ExitStack() as stack:
                stack.push(lambda _, why, at: isinstance(why, Exception) and not warnings.warn(told + str(why)[-300:]))
                from torch.utils.cpp_extension import load_inline

<build>            library = ctypes.CDLL(path) if path else None
            _stark_libraries[name] = {kernel: types[kernel]((kernel, library)) for kernel in types if library}
    return _stark_libraries[name]
'''
"""The same for all libraries of a device, so that a file holds it once."""

_CPU = {
    "needed": "g++ and ninja",
    "prepare": """\
            # torch brings its own OpenMP; the kernels share it, and so its threads.
            openmp = glob.glob(f"{torch.__path__[0]}/lib/libgomp*.so*")[:1] or ["-lgomp"]
            flags = ["-O3", "-march=native", "-fopenmp", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
            flags += ["-mprefer-vector-width=512"] if torch.backends.cpu.get_cpu_capability() == "AVX512" else []
""",
    "build": """\
                path = load_inline(
                    name, [source], extra_cflags=flags, extra_ldflags=openmp, is_python_module=False, **options
                )
""",
}
_CUDA = {
    "needed": "nvcc, g++ and ninja",
    "prepare": "",
    "build": """\
                path = load_inline(
                    name, [], [source], extra_cuda_cflags=["-O3"], is_python_module=False, **options
                )
""",
}


def loader(device_type: str) -> str:
    """Return the function that builds and loads a library; needs torch and `IMPORTS`, glob on a CPU alone."""
    text = _LIBRARY
    for name, part in (_CPU if device_type == "cpu" else _CUDA).items():
        text = text.replace(f"<{name}>", part)
    return text


def render(kernels: Sequence[tuple[KernelSpec, Variant, str]], device_type: str) -> str:
    """Write kernels as Python text: imports, the kernels' source, its loader, one launcher for each kernel.

    Parameters
    ----------
    kernels
        Spec, variant, and the name of the fallback function, which takes the launcher's arguments.
    device_type
        `cpu` or `cuda`.

    Returns
    -------
    str
        Python source that needs torch alone. It defines a function `spec.name(operand, ...)` for each kernel, which
        returns its output, or a tuple of them.

    Raises
    ------
    ValueError
        If a spec is not supported; `supports` tells beforehand.
    """
    device = cpu if device_type == "cpu" else cuda
    functions: list[str] = []
    launchers: list[Launcher] = []
    for spec, variant, fallback in kernels:
        reason = supports(spec, device_type)
        if reason:
            raise ValueError(f"{spec.name}: {reason}")
        program = Program(with_safe_operands(spec))
        functions.append(device.kernel(program, variant).text())
        launchers.append(Launcher(program, variant, fallback, device_type))
    return _assemble(device.source("\n".join(functions)), launchers, device_type)


def constants(source: str, types: Sequence[str]) -> tuple[str, list[str], str]:
    """Return a tag, lines of Python that hold a library under it, and the arguments of `_stark_library` for it.

    Parameters
    ----------
    source
        The library's source.
    types
        Items of a dictionary: the types of its functions by their names.
    """
    digest = hashlib.sha256(source.encode()).hexdigest()
    tag = digest[:6]
    lines = [f'_STARK_SOURCE_{tag} = r"""', *source.splitlines(), '"""', f"_STARK_TYPES_{tag} = {{", *types, "}"]
    return tag, lines, f'"stark_{digest[:16]}", _STARK_SOURCE_{tag}, _STARK_TYPES_{tag}'


def _assemble(source: str, launchers: list[Launcher], device_type: str) -> str:
    types = [line for one in launchers for line in one.prototype()]
    types += ['    "_stark_error": ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int),'] if device_type == "cuda" else []
    _, lines, arguments = constants(source, types)
    texts = [one.text(arguments) for one in launchers]
    imports = [f"import {name}" for name in IMPORTS if device_type == "cpu" or name != "glob"]
    head = [*imports, "", "import torch", "", *lines, ""]
    helping = {"_stark_rows(": launcher.ROWS_OF, "_StarkDifferentiable.": handwritten.written("differentiable")}
    called = [text for name, text in helping.items() if any(name in one for one in texts)]
    return "\n\n".join(["\n".join(head) + loader(device_type), *called, *texts])
