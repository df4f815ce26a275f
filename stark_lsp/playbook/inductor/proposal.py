"""The playbook's first proposal on a CPU: what torch.compile makes of the module, without torch.compile."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Problem, Span
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor.emit import emit, short
from stark_lsp.playbook.inductor.reader import CannotEmit, Program, read
from stark_lsp.playbook.lines import UserLines
from stark_lsp.playbook.source import CannotEdit

STRATEGY = "as-compiled"
"""Also the name of its advice."""
TITLE = "Run the kernels that torch.compile writes"


class AsCompiled:
    """That proposal for one problem.

    Parameters
    ----------
    made
        What `judge/analysis/inductor.program` returned.
    Raises
    ------
    CannotEmit, CannotEdit
        It cannot be written.
    """

    def __init__(self, problem: Problem, made: Mapping[str, Any]) -> None:
        self._lines = UserLines(problem)
        self._rows = [line - 1 for line in made["lines"]]
        self._program: Program = read(made["code"])
        self.candidate: Candidate = emit(problem, made, Design(STRATEGY, ()).comment())

    def anchors(self) -> tuple[Anchor, ...]:
        """Return the lines that it is about."""
        count = len(self._program.kernels)
        note = "part of one C++ function" if count == 1 else f"part of {count} C++ functions"
        return self._lines.anchors([(Span(row, row), note) for row in self._rows])

    def advice(self, prompts: PromptLibrary) -> str:
        """Return the advice in Markdown."""
        kept = {
            word
            for step in self._program.steps
            if not step.kernel
            for word in re.findall(
                r"\btorch\.(?!empty_strided|float|int|bool)[\w.]+(?=\()", ast.unparse(step.statement)
            )
        }
        kernels = [f"`{short(name)}`" for name in self._program.kernels]
        return prompts.render(f"advice/{STRATEGY}", kernels=kernels, kept=sorted(f"`{word}`" for word in kept))


__all__ = ["STRATEGY", "TITLE", "AsCompiled", "CannotEdit", "CannotEmit"]
