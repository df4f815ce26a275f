"""What the static check finds, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rule(Enum):
    """What a candidate must not do; the value is the cure."""

    CANDIDATE = "Define the class with a forward method at the top level of the file."
    LENGTH = "Write a shorter file."
    IMPORTS = "A candidate may need torch, triton and what the original imports; leave it out."
    PROCESSES = "A kernel needs no process or thread that outlives its call; use OpenMP or at::parallel_for."
    FILES = "A kernel needs no files; build it from text with load_inline."
    NETWORK = "A kernel needs no network; leave it out."
    SYSTEM = "A kernel needs nothing of the system; leave it out."
    TEXT = "Write the code out instead of running text."
    PATCHING = "Leave torch, timers and other modules as they are; keep what you need in names of your own."
    PRECISION = "Compute in the original's precision, or cast where it is needed, never for the whole process."
    ORIGINAL = "Compute the result with code of your own."
    UNUSED = "Launch the kernel in the forward pass, or leave it out."
    INTERPRETER = "Use arguments and return values; leave frames, gradients' graphs and Python's internals alone."
    COMPILER = "Keep to options that tell how to compile."


@dataclass(frozen=True)
class Refusal:
    """A fact for which a candidate is not run."""

    rule: Rule
    reason: str
    line: int | None
    """1-based line it is about."""

    @property
    def message(self) -> str:
        """Reason and cure."""
        return f"{self.reason} {self.rule.value}"


@dataclass(frozen=True)
class Note:
    """What is worth knowing about a candidate that is run all the same."""

    reason: str
    line: int | None
    """1-based line it is about."""

    @property
    def message(self) -> str:
        """Reason with its line."""
        return f"Line {self.line}: {self.reason}" if self.line else self.reason


@dataclass(frozen=True)
class Told:
    """What the judge is told of a source, which it does not read itself."""

    judged: str
    """What is run in place of the source: where it would go on without a kernel that does not build, it raises."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that the file defines: at least one of them must be launched."""
    alternatives: tuple[str, ...] = ()
    """Names of extensions that take each other's place when one does not build; `*` stands for any text."""


@dataclass(frozen=True)
class Reading:
    """All that the static check says of one candidate."""

    told: Told
    refusals: tuple[Refusal, ...] = ()
    """In the order of the rules: first what a reader should hear first."""
    notes: tuple[Note, ...] = ()
    """By line, each reason once."""

    @property
    def refusal(self) -> Refusal | None:
        """The first refusal, None if nothing speaks against running it."""
        return self.refusals[0] if self.refusals else None


def listed(text: str) -> frozenset[str]:
    """Return the words of a text: long lists of names stay readable that way."""
    return frozenset(text.split())
