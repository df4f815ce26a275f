"""Run and node: one search on one class, and its tree."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import AgentRole, Decision, Limit, RunState, VerdictStatus
from stark_lsp.core.verdict import Interval, Reference, Verdict


@dataclass(frozen=True)
class Budget:
    """What a run may spend; None is no limit."""

    attempts: int = 30
    """B in the paper."""
    seconds: float | None = None
    tokens: int | None = None
    """Tokens read and written by models, all roles together."""
    dollars: float | None = None
    """US dollars; needs models whose prices are known."""

    def goes_beyond(self, before: Budget, limit: Limit) -> bool:
        """Whether a search that ended by this, with an earlier budget, can go on with this one.

        Seconds are those of one sitting, so they always do.
        """
        if limit in (Limit.SECONDS, Limit.IDEAS, Limit.CANDIDATES):
            return limit is Limit.SECONDS
        now, then = getattr(self, limit.value), getattr(before, limit.value)
        return now is None or (then is not None and now > then)


@dataclass(frozen=True)
class Node:
    """A candidate in the tree with its verdict."""

    id: int
    """0 is the root; children count upwards in order of creation."""
    parent: int | None
    role: AgentRole
    candidate: Candidate
    plan: Plan | None = None
    """The advice this node carries out; a debug node keeps the plan of the node it repairs."""
    verdict: Verdict | None = None
    """None while the evaluation is under way."""
    corrections: int = 0
    """How often its author was asked to correct it before the attempt ended."""

    @property
    def failed(self) -> bool:
        """Whether it was judged and not found `OK`."""
        return self.verdict is not None and self.verdict.status.failed

    @property
    def second_parent(self) -> int | None:
        """The other attempt whose code it took along; None for most, and for repairs."""
        return self.plan.combines if self.plan is not None and self.role is AgentRole.CODE else None

    @property
    def score(self) -> float:
        """Time of a call over the reference's in the same session, or device time over the reference's where the search
        ranks by that; +inf for a failed or unjudged node.

        Lower is better (paper, section 4.2); the root has 1. Paired ratios compare although they were taken at
        different moments of a machine, which milliseconds do not.
        """
        if self.verdict is None or not self.verdict.ok:
            return math.inf
        if self.role is AgentRole.ROOT:
            return 1.0
        if self.verdict.device_share is not None:
            return self.verdict.device_share
        gain = self.verdict.speedup_vs_eager
        return 1.0 / gain.value if gain is not None and gain.value > 0 else math.inf


@dataclass(frozen=True)
class Rejection:
    """A proposal the user turned down."""

    run_id: str
    node: int
    reason: str
    title: str = ""
    strategy: str = ""
    when: str = ""
    """ISO 8601, UTC."""


@dataclass(frozen=True)
class Note:
    """What came of an attempt, for later runs on similar classes."""

    run_id: str
    node: int
    class_name: str
    operators: tuple[str, ...]
    """What the class calls of torch, in order of the alphabet, the first dozen."""
    inputs: str
    """Types and shapes."""
    device: str
    """Human name, as in `Environment`."""
    bound: str
    """What limited the class: `memory`, `compute` or `overhead`; empty if unknown."""
    title: str
    """Of the plan."""
    status: VerdictStatus
    gain: Interval | None = None
    """Paired ratio to eager; None if it failed."""
    cause: str = ""
    """Of a failure, in one line."""
    design: tuple[tuple[str, str], ...] = ()
    """Parameters of a plan of the playbook, see `Plan`."""
    tuned: str = ""
    """The values that won of constants that the candidate left open."""
    text: str = ""
    """What the user wrote in its place; empty if nothing."""

    @property
    def id(self) -> str:
        """What the user calls it by: `RUN.NODE`."""
        return f"{self.run_id}.{self.node}"

    @property
    def helped(self) -> bool:
        """Whether it was proved faster than eager."""
        return self.gain is not None and self.gain.low > 1


@dataclass(frozen=True)
class Run:
    """One search on one class."""

    id: str
    problem: Problem
    seed: int
    model: str
    """Who answers as the agents: `playbook`, …"""
    budget: Budget
    state: RunState = RunState.PREPARING
    message: str = ""
    """Why the run ended as it did, for a person."""
    created: str = ""
    """ISO 8601, UTC."""
    finished: str = ""
    reference: Reference | None = None
    best: int | None = None
    """Node of the proposal, None if nothing faster was found."""
    decision: Decision = Decision.OPEN
    ended_by: Limit | None = None
    """What ended the search; None if something else did, or it has not ended."""
    heard: int = 0
    """Number of the last steering that was followed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The search settings in wire form, so that a resumed run uses the same."""
    agents: dict[str, Any] = field(default_factory=dict)
    """The agents' settings in wire form; empty for the playbook."""
    notes: tuple[Note, ...] = ()
    """What it took along from earlier runs when it began; they never change, so that it can be repeated."""
