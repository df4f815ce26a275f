"""Candidate: a proposed source with the new class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stark_lsp.core.status import Dialect


@dataclass(frozen=True)
class Candidate:
    """One self-contained Python file that defines `class_name` and needs torch (and triton) alone."""

    source: str
    dialect: Dialect = Dialect.RAW
    class_name: str = "ModelNew"
    """The class in `source` that stands in for the reference."""
    remark: str = ""
    """What its author did against the plan, in a sentence, such as edits outside the anchors; empty if nothing."""

    summary: str = ""
    """What its author says it does, or of a repair why the attempt before it failed; may be empty."""

    model: str = ""
    """The language model that wrote it; empty if none did."""

    @property
    def digest(self) -> str:
        """SHA-256 of the source, in hex: the same text is the same candidate."""
        return hashlib.sha256(self.source.encode()).hexdigest()
