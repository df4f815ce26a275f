"""The three roles and the judge as Protocols: the seams between search, agents and evaluation.

The engine (`search/engine.py`) calls them; `agents/`, `playbook/` and `evaluation/` implement them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol, runtime_checkable

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Node, Rejection
from stark_lsp.core.status import Limit
from stark_lsp.core.steering import Hint
from stark_lsp.core.verdict import Reference, Verdict


class NothingToPropose(Exception):
    """A plan or debug agent has no (more) idea for this node; `str()` says why, for a person."""


class NoCandidate(Exception):
    """An agent answered, and gave nothing that can be judged; `str()` says why, for a person.

    It declined, was cut off, or its answer could not be read. The attempt counts: it is recorded as a node with the
    verdict `NO_CANDIDATE`.

    Parameters
    ----------
    reason
        One sentence.
    text
        What can be kept of the answer, as the source of the node; may be empty.
    final
        Asking for a correction is of no use.
    """

    def __init__(self, reason: str, *, text: str = "", final: bool = False) -> None:
        super().__init__(reason)
        self.text = text
        self.final = final


class BudgetSpent(Exception):
    """What an agent would do next could cost more than the budget leaves."""

    def __init__(self, text: str, limit: Limit) -> None:
        super().__init__(text)
        self.limit = limit


@dataclass(frozen=True)
class Context:
    """What an agent is given for one attempt (the paper's dynamic context window, section 4.4)."""

    problem: Problem
    reference: Reference
    selected: Node
    """Node i of Algorithm 1: the one to improve or to repair."""
    root: Node
    window: tuple[Node, ...]
    """At most `window_size` nodes for this role, the selected node and the root not counted twice."""
    siblings: tuple[Node, ...] = ()
    """All children of the selected node so far (debug: all its siblings), never sampled down: what was tried here."""
    rejections: tuple[Rejection, ...] = ()
    """What the user turned down in earlier runs on this class."""
    made: tuple[Node, ...] = ()
    """All attempts of the run so far, in order."""
    under_way: tuple[tuple[int, Plan], ...] = ()
    """Numbers and plans of attempts that are being carried out meanwhile."""
    attempt: int = 0
    """Id that the node of this attempt will have."""
    ancestors: tuple[int, ...] = ()
    """Ids of the selected node's parent and of all above it."""
    stagnant: int = 0
    """Attempts with a verdict since the last one that was the best."""
    hints: tuple[Hint, ...] = ()
    """What the user wants the agents to know: for the whole run, and for the selected node and those above it."""
    first_failure: Node | None = None
    """If the selected node is a repair that failed: the failed node that the repairs began from."""
    last_correct: Node | None = None
    """If the selected node failed: the nearest verified candidate above it; None if that is the root, or not shown."""


class PlanAgent(Protocol):
    """Proposes exactly one optimization of the selected node."""

    async def plan(self, context: Context, rng: Random) -> Plan:
        """Return one plan.

        Raises
        ------
        NothingToPropose
            The agent has no further idea for this node.
        NoCandidate
            It answered, and what it answered cannot be used.
        """
        ...


class CodeAgent(Protocol):
    """Carries a plan out."""

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        """Return the candidate that carries `plan` out on the selected node.

        Raises
        ------
        NoCandidate
            It answered, and gave nothing that can be judged.
        """
        ...


class DebugAgent(Protocol):
    """Repairs a failed node."""

    async def debug(self, context: Context, rng: Random) -> Candidate:
        """Return a repaired candidate for the selected node, using its recorded failure.

        Raises
        ------
        NothingToPropose
            The agent sees no way to repair it.
        NoCandidate
            It answered, and gave nothing that can be judged.
        """
        ...


@dataclass(frozen=True)
class Draft:
    """What a single agent proposes: a candidate, with a word on what it does."""

    candidate: Candidate
    plan: Plan | None = None


class SoloAgent(Protocol):
    """One agent that does all: the paper's sampling, reflexion and search agents."""

    async def propose(self, context: Context, rng: Random) -> Draft:
        """Return a candidate made from what the context shows; a failed selected node is to be repaired.

        Raises
        ------
        NothingToPropose
            The agent has no further idea.
        NoCandidate
            It answered, and gave nothing that can be judged.
        """
        ...


@runtime_checkable
class Corrector(Protocol):
    """An agent that writes candidates and can correct one within its attempt; others leave it as it is."""

    async def correct(self, context: Context, failed: Node) -> Draft:
        """Return a corrected candidate.

        Parameters
        ----------
        context
            That of the attempt, without a window.
        failed
            What it made of the attempt so far: a candidate with its verdict, or an answer that held none.

        Raises
        ------
        NothingToPropose
            It sees no way to correct it.
        NoCandidate
            It answered, and gave nothing that can be judged.
        """
        ...


class Judge(Protocol):
    """Evaluates candidates of one problem."""

    async def evaluate(self, candidate: Candidate) -> Verdict:
        """Build, verify and time a candidate; a bad candidate is a verdict, never an exception.

        Raises
        ------
        Fault
            The judge itself could not do its work.
        """
        ...

    async def glance(self, candidate: Candidate) -> Verdict:
        """Run a candidate on one case and time it in few rounds, to choose among values of its constants.

        Raises
        ------
        Fault
            The judge itself could not do its work.
        """
        ...
