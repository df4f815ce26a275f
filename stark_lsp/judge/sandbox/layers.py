"""What can keep a child apart from the rest of the machine, and which of it was chosen."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Layer(str, Enum):
    """One way to confine a child."""

    BUBBLEWRAP = "bubblewrap"
    """Layer A: namespaces of its own (bubblewrap), a file system with nothing but what it needs, seccomp."""
    LANDLOCK = "landlock"
    """Layer B: the kernel refuses other files (Landlock) and the network (seccomp); needs no namespaces."""
    PROCESS = "process"
    """Layer C: a plain process with limits. It can read what the user can read."""


class Choice(NamedTuple):
    """The layer that candidates run in, and why."""

    layer: Layer
    reason: str
    """Why this one, one sentence."""
    cure: str = ""
    """What the user can do to get a better one; empty if there is none."""


class Refused(Exception):
    """No layer that the settings allow works here; `reason` says to a person what does not, `cure` what mends it."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cure = cure


class ConfinementFailed(Exception):
    """A child found that it is not confined as it should be; it must not load anything foreign."""
