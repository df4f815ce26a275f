"""A design: which kernels a candidate has, each in which variant.

A candidate carries its design in a comment of its source, so that the agents can work on any node of a resumed run
without a memory of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = "# Kernels by the playbook: "
_LINE = re.compile(rf"^{re.escape(MARK)}(?P<strategy>[\w-]+)(?P<rest>(?: \| [^|\n]+)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Design:
    """What a candidate is made of."""

    strategy: str
    """Name of the strategy whose kernels it starts from."""
    kernels: tuple[tuple[str, str], ...]
    """(kernel, label of its variant), in the strategy's order; a kernel that is left to PyTorch is not there."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its kernels."""
        return tuple(name for name, _ in self.kernels)

    def label(self, name: str) -> str | None:
        """The label of a kernel's variant, None if it has no such kernel."""
        return dict(self.kernels).get(name)

    def with_label(self, name: str, label: str) -> Design:
        """Return the design with one kernel in another variant."""
        return Design(self.strategy, tuple((n, label if n == name else have) for n, have in self.kernels))

    def without(self, name: str) -> Design:
        """Return the design with one kernel left to PyTorch."""
        return Design(self.strategy, tuple(item for item in self.kernels if item[0] != name))

    def comment(self) -> str:
        """Return the comment line that `read_design` reads."""
        return MARK + " | ".join([self.strategy, *(f"{name} = {label}" for name, label in self.kernels)])


def read_design(source: str) -> Design | None:
    """Return the design that a candidate's source names, None if it names none."""
    lines = list(_LINE.finditer(source))
    if not lines:
        return None
    found = lines[-1]
    parts = [part for part in found["rest"].split(" | ") if part]
    pairs = tuple((name.strip(), label.strip()) for name, _, label in (part.partition(" = ") for part in parts))
    return Design(found["strategy"], pairs)
