"""The Python text of a library of kernels: their source, its loader, and a launcher for each.

Names of a library end in the first letters of its source's hash, so that a file may hold several libraries.
"""

from __future__ import annotations

import hashlib
import re
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
_NEEDED = {"cpu": "g++ and ninja on the PATH", "cuda": "nvcc, g++ and ninja on the PATH"}


def loader(device_type: str) -> str:
    """Return the function that builds and loads a library; needs torch and `IMPORTS`, glob on a CPU alone."""
    where = "On both", "On a CPU" if device_type == "cpu" else "On a GPU"
    parts = ["On both", *re.split(r" +# (On .*):\n", handwritten.written("library"))]
    text = "".join(part for tag, part in zip(parts[::2], parts[1::2], strict=True) if tag in where)
    function, state = text.replace("NEEDED", _NEEDED[device_type]).split("\n\n\n")
    return f"{state}\n\n{function}\n"


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
    helping = {"_stark_rows(": launcher.ROWS_OF, "_StarkDifferentiable.": handwritten.differentiable(device_type)}
    called = [text for name, text in helping.items() if any(name in one for one in texts)]
    return "\n\n".join(["\n".join(head) + loader(device_type), *called, *texts])
