"""What the static check finds, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rule(Enum):
    """What a candidate must not do: in words, and the cure."""

    CANDIDATE = "is no candidate", "Define the class with a forward method at the top level of the file."
    LENGTH = "is too long to be read", "Write a shorter file."
    IMPORTS = "imports", "A candidate may need torch, triton and what the original imports; leave it out."
    PROCESSES = "starts processes or threads", "Use OpenMP or at::parallel_for; nothing may outlive the call."
    FILES = "opens files", "A kernel needs no files; build it from text with load_inline."
    NETWORK = "reaches the network", "A kernel needs none; leave it out."
    SYSTEM = "calls the system", "A kernel needs nothing of it; leave it out."
    TEXT = "runs text as code", "Write the code out instead."
    PATCHING = "changes torch or others for everybody", "Keep what you need in names of your own."
    PRECISION = "changes the precision for everybody", "Compute in the original's precision, or cast where needed."
    ORIGINAL = "leaves the work to the original", "Compute the result with code of your own."
    UNUSED = "launches no kernel", "Launch the kernel in the forward pass, or leave it out."
    INTERPRETER = "looks into the running program", "Use arguments and return values only."
    COMPILER = "does more than compile", "Keep to options that tell how to compile."

    def __init__(self, does: str, cure: str) -> None:
        self.does = does
        self.cure = cure


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
        return f"{self.reason} {self.rule.cure}"


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
