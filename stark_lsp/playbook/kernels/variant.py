"""Variant: the choices in writing a kernel that change its speed and never its result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One way to write a kernel. Fields that a device or a layout has no use for keep their default."""

    split: bool = False
    """Several workers share a row, with a partial result each; otherwise a row belongs to one worker."""
    threads: int = 0
    """CUDA: threads in a block. CPU: 0 for as many threads as torch uses, 1 for one."""
    row_threads: int = 0
    """CUDA: threads that share a row; a block does `threads / row_threads` rows."""
    vector: int = 1
    """CUDA: elements a thread loads with one instruction. CPU: sums kept apart in a reduction."""
    items: int = 1
    """CUDA: vectors a thread has in flight; a row of at most row_threads * items * vector elements is read once."""
    parts: int = 1
    """CUDA: blocks that share a row when it is split."""
    streaming: bool = False
    """CPU: write the outputs past the cache."""
    keep: bool = False
    """CPU: keep costly values of a row for the next pass instead of computing them again."""

    block: int = 0
    """CPU: elements that a pointwise task works on, or neighbouring results of the columns layout; 0: default."""
    dynamic: bool = False
    """CPU: threads take their next task when they are free, instead of an equal share at the start."""

    @property
    def label(self) -> str:
        """A few words that tell the variant from the others of its kernel."""
        return ", ".join(f"{name} {value}" if value not in ("yes",) else name for name, value in self.describe())

    def describe(self) -> tuple[tuple[str, str], ...]:
        """The choices as (name, value) for a person."""
        found: list[tuple[str, str]] = []
        if self.split:
            found.append(("shared rows", "yes"))
        if self.threads:
            found.append(("threads", str(self.threads)))
        if self.row_threads:
            found.append(("threads a row", str(self.row_threads)))
        found.append(("vector", str(self.vector)))
        if self.items > 1:
            found.append(("items", str(self.items)))
        if self.parts > 1:
            found.append(("blocks a row", str(self.parts)))
        if self.block:
            found.append(("block", str(self.block)))
        if self.dynamic:
            found.append(("tasks on demand", "yes"))
        if self.streaming:
            found.append(("streaming stores", "yes"))
        if self.keep:
            found.append(("values kept", "yes"))
        return tuple(found)
