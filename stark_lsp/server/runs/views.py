"""What the editor shows of one run: its plans, their anchors in today's text, its proposal."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from stark_lsp.server.runs.pace import Pace

if TYPE_CHECKING:
    from stark_lsp.agents.grounding.tracking import AnchorTracker
    from stark_lsp.core.conversation import Spend
    from stark_lsp.core.plan import Anchor, Plan
    from stark_lsp.core.problem import Problem, Span
    from stark_lsp.core.run import Budget, Node, Run
    from stark_lsp.core.steering import Course
    from stark_lsp.core.verdict import Reference
    from stark_lsp.runs.session import RunSession
    from stark_lsp.server.runs.run_events import RunEvents
    from stark_lsp.server.text.documents import Change
    from stark_lsp.server.text.spending import Asked

LOG_LIMIT = 2000
"""Edits that are replayed for the anchors of a new plan; beyond, the anchors are searched in the text."""


def no_course() -> Course:
    """Return the course of a run that was told nothing."""
    # Imported late, as all that is only needed once there is a run: the server starts without it.
    from stark_lsp.core.steering import Course

    return Course()


class Phase(str, Enum):
    """Where a run stands in the editor."""

    QUEUED = "queued"
    """Waits until another run has ended."""
    RUNNING = "running"
    OFFERED = "offered"
    """Over, and its proposal waits for the user's decision."""
    OVER = "over"
    """Over with nothing to decide."""


@dataclass(frozen=True)
class AnchoredPlan:
    """One anchor of one plan, where it stands now."""

    node: int
    plan: Plan
    anchor: Anchor
    span: Span
    """Lines of today's document."""


@dataclass(frozen=True)
class UnderWay:
    """An attempt that has a plan and no candidate yet."""

    parent: int
    plan: Plan


@dataclass
class RunView:
    """One run as the editor sees it; lives until dismissed, accepted or rejected."""

    id: str
    uri: str
    problem: Problem
    """The class, with the path that its file has now."""
    run: Run
    phase: Phase = Phase.QUEUED
    nodes: dict[int, Node] = field(default_factory=dict)
    plans: dict[int, Plan] = field(default_factory=dict)
    """Plans by the id of their node, those without a verdict included."""
    parents: dict[int, int] = field(default_factory=dict)
    """What the attempts that were planned here go on from, by the id of their node."""
    status: str = ""
    """What goes on now, one sentence."""
    attempts: int = 0
    """Attempts begun."""
    judged: int = 0
    """Attempts that have their verdict."""
    best: Node | None = None
    task: asyncio.Task[None] | None = None
    session: RunSession | None = None
    """Who drives the run; None once it has ended, and if it was restored from the store."""
    events: RunEvents | None = None
    """Who keeps this view up to date."""
    course: Course = field(default_factory=no_course)
    """What the user told the run so far."""
    pace: Pace = field(default_factory=Pace)
    """How fast its attempts are made here."""
    spend: Spend | None = None
    """What the run's calls of models cost so far; None as long as nothing was asked."""
    asked: dict[int, Asked] = field(default_factory=dict)
    """What attempts asked of models, by their node, as far as it is known."""
    aliases: set[str] = field(default_factory=set)
    """Earlier ids: a run that takes an older one up goes by the older one's id."""
    cancelling: bool = False
    chosen: bool = False
    """Whether the user named the candidate that is proposed, whatever was decided on that of the run."""
    kept: RunView | None = None
    """The run whose proposal stays open while this one goes on, until this one has a better one."""
    real: str = field(init=False)
    """The file's path without symbolic links."""
    question: str | None = None
    """Id of the request that asks the user what to do with the proposal, while it stands open."""
    deleted: bool = False
    """Whether the file is away: it may come back, as with a checkout of another branch and back."""
    edited: bool = False
    """Whether the class was another at its last save than the one that the run searches for."""
    _trackers: dict[int, AnchorTracker] = field(default_factory=dict)
    _edits: list[Change] | None = field(default_factory=list)

    def __post_init__(self) -> None:
        self.real = os.path.realpath(self.path)

    @property
    def path(self) -> str:
        """The file the run is about."""
        return self.problem.path

    @property
    def place(self) -> str:
        """What identifies the class: two runs on it have the same."""
        return f"{self.real}::{self.problem.qualname}"

    @property
    def offer(self) -> RunView | None:
        """Whose proposal can be decided on: this run's, or that of the one before, which is kept."""
        if self.phase is Phase.OFFERED:
            return self if not self.deleted else None
        return self.kept.offer if self.kept is not None else None

    def move(self, path: str, uri: str) -> None:
        """Take note that the file has another name now."""
        self.problem, self.uri = replace(self.problem, path=path), uri
        self.real = os.path.realpath(path)
        if self.kept is not None:
            self.kept.move(path, uri)

    @property
    def active(self) -> bool:
        """Whether the run is queued or under way."""
        return self.phase in (Phase.QUEUED, Phase.RUNNING)

    @property
    def budget(self) -> Budget:
        """What the run may spend as things stand now."""
        return self.course.budget or self.run.budget

    @property
    def paused(self) -> bool:
        """Whether the run is under way and the user paused it."""
        return self.active and self.course.paused

    @property
    def reference(self) -> Reference | None:
        """What preparing found out, None before that."""
        return self.run.reference

    def add_plan(self, node: int, plan: Plan, text: str | None) -> None:
        """Show a plan; `text` is today's document, None if it cannot be read."""
        from stark_lsp.agents.grounding.tracking import AnchorTracker

        self.plans[node] = plan
        if not plan.anchors:
            return
        tracker = AnchorTracker(plan.anchors, self.problem.text)
        if self._edits is None:
            if text is not None:
                tracker.resync(text)
        else:
            for change in self._edits:
                _apply(tracker, change)
        self._trackers[node] = tracker

    def under_way(self) -> dict[int, UnderWay]:
        """Return the attempts that have a plan and no candidate yet, by the id of their node."""
        if not self.active:
            return {}
        return {
            node: UnderWay(parent, self.plans[node]) for node, parent in self.parents.items() if node not in self.nodes
        }

    def edit(self, change: Change) -> None:
        """Move the anchors with an edit of the document."""
        if self.kept is not None:
            self.kept.edit(change)
        if self.active and self._edits is not None:
            self._edits.append(change)
            if len(self._edits) > LOG_LIMIT:
                self._edits = None
        for tracker in self._trackers.values():
            _apply(tracker, change)

    def resync(self, text: str) -> None:
        """Find the anchors again in a text that changed in a way nobody told us."""
        if self.kept is not None:
            self.kept.resync(text)
        if self.active:
            self._edits = None if text != self.problem.text else []
        for tracker in self._trackers.values():
            tracker.resync(text)

    def anchored(self) -> list[AnchoredPlan]:
        """Return the anchors that are still in the document, in order of their nodes."""
        found: list[AnchoredPlan] = []
        for node in sorted(self._trackers):
            for anchor, span in self._trackers[node].anchors_now():
                if span is not None:
                    found.append(AnchoredPlan(node, self.plans[node], anchor, span))
        return found


def place_of(path: str, qualname: str) -> str:
    """Return what identifies a class of a file, by whatever symbolic link the file is reached."""
    return f"{os.path.realpath(path)}::{qualname}"


def _apply(tracker: AnchorTracker, change: Change) -> None:
    if change.start is None or change.end is None:
        tracker.resync(change.text)
    else:
        tracker.apply(change.start, change.end, change.text)
