"""Moves: from one design to the next ones worth trying, best first.

On the reference every strategy is tried with the best guess for each kernel. On a verified candidate one thing changes
at a time: a kernel's variant, or giving a kernel's lines back to PyTorch. Kernels are changed in their order, and only
behind the last one already changed, so that no design is reached twice by different ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from stark_lsp.core.verdict import Verdict
from stark_lsp.playbook.catalogue import Catalogue, KernelChoice
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.strategies import STRATEGIES


class MoveKind(Enum):
    """What a move does."""

    STRATEGY = "strategy"
    """Start a strategy."""
    TUNE = "tune"
    """Another variant of one kernel."""
    LEAVE = "leave"
    """Give one kernel's lines back to PyTorch."""


@dataclass(frozen=True)
class Move:
    """A step from one design to another."""

    kind: MoveKind
    design: Design
    kernel: str = ""
    """The kernel that changes, for `TUNE` and `LEAVE`."""


class Moves:
    """The moves that one module offers."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        # All strategies are asked at once and in order, so that kernels have the same names in every run.
        self.kernels = {name: choose(catalogue) for name, choose in STRATEGIES.items()}

    def choices(self, design: Design) -> tuple[KernelChoice, ...]:
        """Return the kernels of a design that are known."""
        found = [self.catalogue.named(name) for name in design.names]
        return tuple(choice for choice in found if choice is not None)

    def base(self, strategy: str) -> Design:
        """Return a strategy's design with the best guess for each kernel."""
        return Design(strategy, tuple((c.name, c.variants[0].label) for c in self.kernels.get(strategy, ())))

    def fitting(self, design: Design) -> Design | None:
        """Return what a design that won elsewhere is here: as it is, else its strategy's own; None if there is none."""
        if design.strategy not in self.kernels:
            return None
        variants = [(choice, design.label(choice.name)) for choice in self.choices(design)]
        known = [choice for choice, label in variants if label is not None and choice.variant(label) is not None]
        if design.kernels and len(known) == len(design.kernels):
            return design
        base = self.base(design.strategy)
        return base if base.kernels else None

    def from_reference(self) -> Iterator[Move]:
        """Yield what to try on the reference: each strategy, then variations of the first one."""
        seen: set[tuple[tuple[str, str], ...]] = set()
        first: Design | None = None
        for name in self.kernels:
            design = self.base(name)
            if not design.kernels or tuple(sorted(design.kernels)) in seen:
                continue
            seen.add(tuple(sorted(design.kernels)))
            first = first or design
            yield Move(MoveKind.STRATEGY, design)
        if first is not None:
            yield from self.from_candidate(first)

    def from_candidate(self, design: Design) -> Iterator[Move]:
        """Yield what to try on a verified candidate."""
        order = self.kernels.get(design.strategy, ())
        changed = [i for i, c in enumerate(order) if design.label(c.name) != c.variants[0].label]
        behind = order[max(changed) + 1 :] if changed else order
        for choice in behind:
            for variant in choice.variants[1:]:
                yield Move(MoveKind.TUNE, design.with_label(choice.name, variant.label), choice.name)
        if len(design.kernels) > 1:
            for choice in reversed(behind):
                yield Move(MoveKind.LEAVE, design.without(choice.name), choice.name)

    def repairs(self, design: Design, verdict: Verdict | None) -> Iterator[Move]:
        """Yield what to try on a failed candidate: plain variants, then fewer kernels."""
        choices = self.choices(design)
        blamed = self._blamed(choices, verdict)
        suspects = blamed or choices
        safe = design
        for choice in suspects:
            safe = safe.with_label(choice.name, choice.plain.label)
        if safe != design:
            yield Move(MoveKind.TUNE, safe, suspects[0].name)
        if len(design.kernels) > 1:
            for choice in [*blamed, *(c for c in reversed(choices) if c not in blamed)]:
                yield Move(MoveKind.LEAVE, design.without(choice.name), choice.name)

    @staticmethod
    def _blamed(choices: tuple[KernelChoice, ...], verdict: Verdict | None) -> list[KernelChoice]:
        """Return the kernels that the verdict names."""
        if verdict is None:
            return []
        told = " ".join([verdict.message, verdict.log, *(message.text for message in verdict.compiler)])
        return [choice for choice in choices if choice.name in told]
