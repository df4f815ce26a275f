"""The three roles and the judge as Protocols: the seams between search, agents and evaluation.

The engine (`search/engine.py`) calls them; `agents/`, `playbook/` and `evaluation/` implement them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Node, Rejection
from stark_lsp.core.verdict import Reference, Verdict


class NothingToPropose(Exception):
    """A plan or debug agent has no (more) idea for this node; `str()` says why, for a person."""


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


class PlanAgent(Protocol):
    """Proposes exactly one optimization of the selected node."""

    async def plan(self, context: Context, rng: Random) -> Plan:
        """Return one plan.

        Raises
        ------
        NothingToPropose
            The agent has no further idea for this node.
        """
        ...


class CodeAgent(Protocol):
    """Carries a plan out."""

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        """Return the candidate that carries `plan` out on the selected node."""
        ...


class DebugAgent(Protocol):
    """Repairs a failed node."""

    async def debug(self, context: Context, rng: Random) -> Candidate:
        """Return a repaired candidate for the selected node, using its recorded failure.

        Raises
        ------
        NothingToPropose
            The agent sees no way to repair it.
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
