"""What a run tells those who watch it, in order."""

from __future__ import annotations

from dataclasses import dataclass

from stark_lsp.core.conversation import Spend
from stark_lsp.core.plan import Plan
from stark_lsp.core.run import Node, Run
from stark_lsp.core.verdict import Reference


@dataclass(frozen=True)
class Progress:
    """A short sentence on what goes on now."""

    text: str
    attempt: int = 0
    """Attempts begun so far."""
    attempts: int = 0
    """Budget of attempts."""


@dataclass(frozen=True)
class Notice:
    """Something to be told once: who answers, what the run may cost, what the user said to it."""

    text: str


@dataclass(frozen=True)
class Outlook(Notice):
    """What the run is likely to take, told before anything is paid for: who shows it keeps it in sight."""


@dataclass(frozen=True)
class Prepared:
    """The reference was loaded, checked and timed."""

    reference: Reference


@dataclass(frozen=True)
class Planned:
    """A plan was made; its anchors can be shown before the verdict is in."""

    node: int
    """Id the attempt's node will have."""
    parent: int
    plan: Plan


@dataclass(frozen=True)
class Judged:
    """An attempt has its verdict."""

    node: Node
    leader: bool
    """Whether it is now the best verified node."""


@dataclass(frozen=True)
class Spent:
    """What the run's calls of models cost so far."""

    spend: Spend


@dataclass(frozen=True)
class Ended:
    """The run is over; `run.state`, `run.message` and `run.best` say how."""

    run: Run


Event = Progress | Notice | Prepared | Planned | Judged | Spent | Ended
