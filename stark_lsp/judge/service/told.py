"""What the server read in a source: it reads candidates, the judge runs them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple


class Told(NamedTuple):
    """What is known of a source from its text; `integrity.Told` of the server."""

    judged: str
    """What is run in its place: where it would go on without a kernel that does not build, it raises."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that it defines: at least one of them must be launched."""
    alternatives: tuple[str, ...] = ()
    """Names of extensions that take each other's place when one does not build; `*` stands for any text."""

    @classmethod
    def read(cls, wire: Mapping[str, Any]) -> Told:
        """Read what the server sent."""
        return cls(wire["judged"], tuple(wire["kernels"]), tuple(wire["alternatives"]))

    def may_replace(self, name: str) -> bool:
        """Whether an extension is one of the alternatives."""
        return any(fnmatchcase(name, pattern) for pattern in self.alternatives)
