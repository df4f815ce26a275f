"""What candidates and compilers are kept in: the layer that works here, and what they may touch."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import machinery

from .. import sandbox
from ..reference import loading
from ..sandbox import Layer
from .folders import Folder

Tool = Callable[[list[str], Folder], list[str]]
"""Returns a command that runs another one under a tool, such as a memory checker; the tool may write to `out`."""

CODE = (*machinery.SOURCE_SUFFIXES, *machinery.BYTECODE_SUFFIXES)


@dataclass(eq=False)
class Confinement:
    """How a child is kept apart from the rest of the machine."""

    layer: Layer
    """The layer that works here."""
    gpu: bool
    """Whether candidates compute on a GPU."""
    read: Iterable[str] = ()
    """Files of the user's project that a candidate may import."""

    @property
    def wraps(self) -> bool:
        """Whether a sandbox program stands around the child."""
        return self.layer is Layer.BUBBLEWRAP

    @property
    def separates_files(self) -> bool:
        """Whether the child can change nothing but its own `out` folder."""
        return self.layer is not Layer.PROCESS

    def apply(
        self,
        role: str,
        command: list[str],
        environment: dict[str, str],
        folder: Folder,
        *,
        arguments: Iterable[str] = (),
        tool: Tool | None = None,
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command and environment that start a child confined.

        Parameters
        ----------
        role
            `runner` or `builder`; a builder gets no GPU.
        arguments
            Of the child, besides what it is told of its confinement.
        tool
            Puts a tool that watches the child before its command; it runs inside as well.
        """
        if role == "builder":
            policy = sandbox.build_policy(folder.path)
        else:
            policy = sandbox.run_policy(folder.path, gpu=self.gpu, watched=tool is not None, read=self.read)
        told = [*command, sandbox.instructions(self.layer, policy), *arguments]
        watched = tool(told, folder) if tool is not None else told
        return sandbox.wrap(self.layer, policy, watched), private_environment(environment, folder)


def project_files(path: str) -> list[str]:
    """Return the files of the project around `path` that are imported now, without `path` itself, or that it has read.

    Call it once the reference is loaded: what the reference imports, a candidate may import as well, and so may it read
    what the reference reads while it is loaded and constructed, unless that is hidden. Nothing else of the project can
    be seen from inside, neither its secrets nor its data.
    """
    root = os.path.realpath(loading.project_root(path))
    own = os.path.realpath(path)
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    elsewhere = tuple(os.path.join(os.path.realpath(path), "") for path in (sys.prefix, sys.base_prefix, ours))
    # By folder: torch alone has a thousand files in a hundred of them, and each step of a path is asked of the system.
    real = functools.cache(os.path.realpath)
    found = set()
    named = [(getattr(module, "__file__", None), True) for module in list(sys.modules.values())]
    # Python itself reads what it imports, and the document among it.
    named += [(file, False) for file in loading.files_read() if not file.endswith(CODE)]
    for file, imported in named:
        if not isinstance(file, str):
            continue
        folder, name = os.path.split(file)
        file = os.path.join(real(folder), name)
        file = real(file) if os.path.islink(file) else file
        inside = file.startswith(root + os.sep) and not file.startswith(elsewhere)
        seen = imported or f"{os.sep}." not in file[len(root) :]
        if inside and seen and file != own and os.path.isfile(file):
            found.add(file)
    return sorted(found)


def private_environment(environment: dict[str, str], folder: Folder) -> dict[str, str]:
    """Return an environment whose home, caches and temporary files lie in the child's own folder."""
    return {
        **environment,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": folder.out,
        "TMPDIR": folder.temporary,
        "XDG_CACHE_HOME": os.path.join(folder.out, "cache"),
        "TORCH_EXTENSIONS_DIR": os.path.join(folder.out, "extensions"),
        "TRITON_CACHE_DIR": folder.triton,
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder.out, "inductor"),
    }
