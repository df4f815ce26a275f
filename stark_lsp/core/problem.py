"""Problem: what is optimized."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stark_lsp.core.status import DeviceChoice, InputSource, Mode


@dataclass(frozen=True)
class Span:
    """A range of whole lines, 0-based, both ends included."""

    start: int
    """First line."""
    end: int
    """Last line (included)."""

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start:
            raise ValueError(f"not a span: {self.start}..{self.end}")

    def __contains__(self, line: int) -> bool:
        return self.start <= line <= self.end


@dataclass(frozen=True)
class InputSpec:
    """Where a class's inputs come from."""

    source: InputSource = InputSource.NONE
    inputs_function: str | None = None
    """Name of the module-level function that returns the inputs (`FUNCTIONS`)."""
    init_function: str | None = None
    """Name of the module-level function that returns the constructor's arguments, or None."""
    table: dict[str, Any] = field(default_factory=dict)
    """The `[[stark.input]]` table as read (`TABLE`); JSON values only."""
    table_path: str | None = None
    """The file the table stands in."""


@dataclass(frozen=True)
class SourceSlice:
    """The part of a document that one class needs: imports, the class, what it refers to."""

    text: str
    """Source of the slice; parses on its own; ends with a newline."""
    line_map: tuple[int, ...]
    """For each line of `text`, its 0-based line in the document (-1 for a line that has none)."""

    def to_document(self, line: int) -> int | None:
        """Map a 0-based line of the slice to the document, None if it has no counterpart."""
        if 0 <= line < len(self.line_map) and self.line_map[line] >= 0:
            return self.line_map[line]
        return None


@dataclass(frozen=True)
class Problem:
    """One class of one document, as it stood when the run began."""

    path: str
    """Absolute path of the document."""
    qualname: str
    """Dotted name of the class (`Model`, `Outer.Block`)."""
    text: str
    """The whole document, saved or not, as the reference is loaded from it."""
    slice: SourceSlice
    """What a model is shown, and what `Candidate.source` starts from."""
    class_span: Span
    """Lines of the class in the document, decorators included."""
    inputs: InputSpec
    mode: Mode = Mode.EVAL
    device: DeviceChoice = DeviceChoice.AUTO

    @property
    def class_name(self) -> str:
        """Last part of `qualname`."""
        return self.qualname.rpartition(".")[2]

    @property
    def key(self) -> str:
        """What identifies the problem over time: path and class."""
        return f"{self.path}::{self.qualname}"

    @property
    def new_name(self) -> str:
        """Name of the optimized class in an edit: `ModelNew` for `Model`, `<Class>New` for others."""
        return f"{self.class_name}New"
