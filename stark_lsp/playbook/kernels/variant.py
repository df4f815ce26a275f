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
    cluster: int = 1
    """CUDA: blocks that hold a row together and read each other's results; `row_threads` counts the threads of all."""
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
        counted = {
            "threads": self.threads,
            "threads a row": self.row_threads,
            "vector": self.vector,
            "items": self.items if self.items > 1 else 0,
            "blocks a row": self.parts if self.parts > 1 else 0,
            "blocks that hold a row": self.cluster if self.cluster > 1 else 0,
            "block": self.block,
        }
        found = ["shared rows"] if self.split else []
        found += [f"{name} {value}" for name, value in counted.items() if value]
        chosen = {"tasks on demand": self.dynamic, "streaming stores": self.streaming, "values kept": self.keep}
        return ", ".join([*found, *(name for name, value in chosen.items() if value)])
