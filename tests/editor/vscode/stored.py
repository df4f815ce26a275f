"""Writes a run into a state folder, with an open proposal and verdicts that were made up: a search takes a minute.

python tests/editor/vscode/stored.py FILE FOLDER
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "cli"))

from cli_runs import finished_run, plan

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Span
from stark_lsp.core.run import Node
from stark_lsp.core.status import Dialect
from stark_lsp.core.verdict import Launch, Profile
from stark_lsp.store import RunStore

SOURCE = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # attempt {number}
        return nn.functional.gelu(x, approximate="tanh")
"""
TITLES = {1: "One pass over memory", 2: "One pass, blocks of 16", 3: "One pass on one thread"}
LINES = Span(10, 11)
"""Of `forward` in the module of `project.mjs`."""


def main() -> None:
    """Take the run that the tests of the terminal show, on this file."""
    file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    run, nodes = finished_run(file)
    if run.reference is None:
        raise AssertionError("it was made with one")
    bytes_moved = 16 << 20
    launched = (Launch("aten::mul", 4, 12e3), Launch("aten::tanh", 1, 9e3), Launch("aten::pow", 1, 6e3))
    slow = Profile(launched, 27e3, bytes_moved, floor_us=2e3, bandwidth_share=0.07, bound="memory")
    fast = Profile((Launch("aten::gelu", 1, 14e3),), 14e3, bytes_moved, floor_us=2e3, bandwidth_share=0.13)
    run = replace(run, reference=replace(run.reference, profile=slow))
    anchor = Anchor(LINES, "\n".join(run.problem.text.splitlines()[LINES.start : LINES.end + 1]))

    def of_this_class(node: Node) -> Node:
        verdict = node.verdict
        if verdict is not None and verdict.ok:
            verdict = replace(verdict, profile=slow if node.id == 0 else fast)
        if node.id == 0:
            return replace(node, verdict=verdict)
        made = replace(plan(TITLES[node.id]), anchors=(anchor,))
        return replace(
            node, candidate=Candidate(SOURCE.format(number=node.id), Dialect.TORCH), plan=made, verdict=verdict
        )

    RunStore(folder / "runs.sqlite3").create(run, [of_this_class(node) for node in nodes.values()])


if __name__ == "__main__":
    main()
