"""A problem of the suite as one line of a table, and the file that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True)
class Problem:
    """What a problem's file is made from."""

    name: str
    sizes: str
    """Constants of the file, for a GPU: `N = 4096; D = 8192`."""
    small: str
    """Those of them that are others on a CPU."""
    forward: str
    """Statements, or one expression that is returned."""
    inputs: str
    """Elements of `get_inputs()`."""
    init: str = ""
    """Statements of the constructor."""
    takes: str = ""
    """Constants that are arguments of the constructor, where they have lower case: `C, D`."""
    arguments: str = "x"
    before: str = ""
    """Imports and classes before `Model`."""
    cpu: bool = False
    """Whether it is among those that `--small` writes."""

    @property
    def package(self) -> str:
        """The package beside torch that it needs, if any."""
        return self.before.split()[1].partition(".")[0] if self.before.startswith("from ") else ""

    def source(self, small: bool = False) -> str:
        """Return the problem's file."""
        constants = dict(part.split(" = ") for part in self.sizes.split("; "))
        if small and self.small:
            constants |= dict(part.split(" = ") for part in self.small.split("; "))
        head = ["import torch", "import torch.nn as nn", "import torch.nn.functional as F", self.before.strip(), ""]
        lines = [*head, *(f"{name} = {value}" for name, value in constants.items())]
        forward = self.forward if "return " in self.forward else f"return {self.forward}"
        body = f"super().__init__()\n{self.init}"
        return f"""{chr(10).join(lines)}


class Model(nn.Module):
    def __init__({", ".join(["self", *filter(None, self.takes.lower().split(", "))])}):
{indent(body, "        ")}

    def forward(self, {self.arguments}):
{indent(forward, "        ")}


def get_inputs():
    return [{self.inputs}]


def get_init_inputs():
    return [{self.takes}]
"""
