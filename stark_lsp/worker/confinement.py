"""How a child is kept apart from the rest of the machine; see `sandbox` for the layers."""

from __future__ import annotations

import os

from .folders import Folder


class Confinement:
    """The layer that works here, and what a confined child may touch."""

    wraps = False
    """Whether a sandbox program stands around the child."""
    separates_files = False
    """Whether the child can change nothing but its own `out` folder."""

    def apply(
        self, role: str, command: list[str], environment: dict[str, str], folder: Folder
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command and environment that start a child confined.

        Parameters
        ----------
        role
            `runner` or `builder`; a builder gets no GPU.
        """
        return command, private_environment(environment, folder)


def private_environment(environment: dict[str, str], folder: Folder) -> dict[str, str]:
    """Return an environment whose home, caches and temporary files lie in the child's own folder."""
    return {
        **environment,
        "HOME": folder.out,
        "TMPDIR": folder.temporary,
        "XDG_CACHE_HOME": os.path.join(folder.out, "cache"),
        "TORCH_EXTENSIONS_DIR": os.path.join(folder.out, "extensions"),
        "TRITON_CACHE_DIR": os.path.join(folder.out, "triton"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder.out, "inductor"),
    }
