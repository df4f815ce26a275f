"""The Python text of a library of kernels: their source, its loader, and a launcher for each.

Names of a library end in the first letters of its source's hash, so that a file may hold several libraries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stark_lsp.playbook.kernels import cpu, cuda, helpers, launcher
from stark_lsp.playbook.kernels.launcher import Launcher
from stark_lsp.playbook.kernels.naming import with_safe_operands
from stark_lsp.playbook.kernels.program import Program
from stark_lsp.playbook.kernels.support import supports
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.spec import KernelSpec

_LOADER = '''\
_stark_library_{tag} = None
_stark_lock_{tag} = threading.Lock()


def _stark_kernels_{tag}():
    """Build the kernels when they are first needed, and load them."""
    global _stark_library_{tag}
    if _stark_library_{tag} is None:
        with _stark_lock_{tag}:
            if _stark_library_{tag} is None:
                _stark_library_{tag} = _stark_build_{tag}()
    return _stark_library_{tag}
'''

_BUILD_CPU = """\
def _stark_build_{tag}():
    from torch.utils.cpp_extension import load_inline

    # torch brings its own OpenMP; the kernels share it, and so its threads.
    openmp = glob.glob(os.path.join(os.path.dirname(torch.__file__), "lib", "libgomp*.so*"))
    flags = ["-O3", "-march=native", "-fopenmp", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
    if platform.machine() in ("x86_64", "AMD64"):
        flags.append("-mprefer-vector-width=512")
    known = inspect.signature(load_inline).parameters
    options = {{"no_implicit_headers": True}} if "no_implicit_headers" in known else {{}}
    path = load_inline(
        "{name}",
        cpp_sources=[_STARK_SOURCE_{tag}],
        extra_cflags=flags,
        extra_ldflags=openmp[:1] or ["-lgomp"],
        is_python_module=False,
        **options,
    )
    library = ctypes.CDLL(path)
"""

_BUILD_CUDA = """\
def _stark_build_{tag}():
    from torch.utils.cpp_extension import load_inline

    known = inspect.signature(load_inline).parameters
    options = {{"no_implicit_headers": True}} if "no_implicit_headers" in known else {{}}
    path = load_inline(
        "{name}",
        cpp_sources=[],
        cuda_sources=[_STARK_SOURCE_{tag}],
        extra_cuda_cflags=["-O3"],
        is_python_module=False,
        **options,
    )
    library = ctypes.CDLL(path)
    library._stark_error.argtypes = [ctypes.c_int]
    library._stark_error.restype = ctypes.c_char_p
"""

_FAIL = """\
def _stark_fail_{tag}(kernel, status):
    text = _stark_kernels_{tag}()._stark_error(status).decode()
    raise RuntimeError(f"The kernel {{kernel}} could not be launched: {{text}}.")
"""


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
    called: set[str] = set()
    functions: list[str] = []
    launchers: list[Launcher] = []
    for spec, variant, fallback in kernels:
        reason = supports(spec, device_type)
        if reason:
            raise ValueError(f"{spec.name}: {reason}")
        program = Program(with_safe_operands(spec))
        functions.append(device.kernel(program, variant, called).text())
        launchers.append(Launcher(program, variant, fallback, device_type))
    body = "\n".join(functions)
    source = device.source(body, helpers.helper_text(called, device_type, body))
    return _assemble(source, launchers, device_type)


def _assemble(source: str, launchers: list[Launcher], device_type: str) -> str:
    digest = hashlib.sha256(source.encode()).hexdigest()
    tag = digest[:6]
    texts = [one.text(tag) for one in launchers]
    build = (_BUILD_CPU if device_type == "cpu" else _BUILD_CUDA).format(name=f"stark_{digest[:16]}", tag=tag)
    for one in launchers:
        build += f"    library._stark_{one.spec.name}.argtypes = [{', '.join(one.argument_types())}]\n"
        if device_type == "cpu":
            build += f"    library._stark_{one.spec.name}.restype = None\n"
    build += "    return library\n"
    modules = ["ctypes", "inspect", "threading"] + (["glob", "os", "platform"] if device_type == "cpu" else [])
    imports = "".join(f"import {name}\n" for name in sorted(modules)) + "\nimport torch\n"
    used = set().union(*(one.helpers for one in launchers)) if launchers else set()
    parts = [f'{imports}\n_STARK_SOURCE_{tag} = r"""\n{source}"""\n\n{_LOADER.format(tag=tag)}', build]
    if device_type == "cuda":
        parts.append(_FAIL.format(tag=tag))
    if "same order" in used:
        parts.append(launcher.SAME_ORDER)
    if "rows" in used:
        parts.append(launcher.ROWS_OF)
    return "\n\n".join([*parts, *texts])
