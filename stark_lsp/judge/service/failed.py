"""The exception by which any step of judging ends it: the candidate failed."""

from __future__ import annotations

from .classify import Finding


class Failed(Exception):
    """The candidate failed; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding
