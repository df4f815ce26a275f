"""Proposers: how a child of the selected node is made (Algorithm 1, lines 5 to 14).

- `TeamProposer`: a failed node goes to the debug agent and keeps its plan; any other to the plan agent, then the code
  agent.
- `SoloProposer`: one agent does all; of a failed node it is shown what the debug agent would be, else what the plan
  agent would be.

An answer that holds nothing to judge becomes a node as well, with the verdict `NO_CANDIDATE`. Whoever writes is left on
the desk as its author, whom the engine may ask for corrections.
"""

from __future__ import annotations

from typing import Protocol

from stark_lsp.core.errors import BadInput
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import CodeAgent, DebugAgent, NoCandidate, PlanAgent, SoloAgent
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole
from stark_lsp.search.desk import Desk
from stark_lsp.search.systems import find_system
from stark_lsp.search.windows import Windows

PLAN, CODE, DEBUG, SOLO = "The plan agent", "The code agent", "The debug agent", "The agent"


class Proposer(Protocol):
    """Makes children."""

    async def child(self, desk: Desk) -> Node:
        """Return a child of `desk.selected`: without a verdict, or with `NO_CANDIDATE`.

        May be called again for the same desk after it raised a `Fault`.

        Raises
        ------
        NothingToPropose
            There is no (further) idea for this node. Agents that asked a model raise `NoCandidate` instead, since the
            number of the attempt may be given to another one.
        BudgetSpent
            The next question could cost more than is left.
        Fault
            Something outside broke.
        BadInput
            The user must change something.
        """
        ...


class TeamProposer:
    """Plan, code and debug agent."""

    def __init__(self, plan: PlanAgent, code: CodeAgent, debug: DebugAgent, windows: Windows) -> None:
        self._plan = plan
        self._code = code
        self._debug = debug
        self._windows = windows

    async def child(self, desk: Desk) -> Node:
        """Return a repair of the selected node, or what the code agent made of a new plan."""
        if desk.selected.failed:
            return await self._repair(desk)
        try:
            plan = desk.plan or await self._ask_plan(desk)
        except NoCandidate as reason:
            return desk.empty(reason, None)
        try:
            return await self._carry_out(desk, plan)
        except NoCandidate as reason:
            return desk.empty(reason, plan)

    async def _repair(self, desk: Desk) -> Node:
        selected, rng = desk.selected, desk.rng("debug")
        desk.ask(DEBUG, AgentRole.DEBUG, f"Repairing attempt {selected.id}", self._debug)
        window = self._windows.debug(desk.tree, selected.id, rng)
        try:
            candidate = await self._debug.debug(desk.context(window, desk.tree.siblings(selected.id)), rng)
        except NoCandidate as reason:
            return desk.empty(reason, selected.plan)
        desk.answered()
        return desk.node(candidate, selected.plan)

    async def _ask_plan(self, desk: Desk) -> Plan:
        i, rng = desk.selected.id, desk.rng("plan")
        desk.ask(PLAN, AgentRole.CODE, "Planning")
        window = self._windows.plan(desk.tree, i, rng)
        plan = await self._plan.plan(desk.context(window, desk.tree.children(i)), rng)
        desk.answered()
        desk.keep_plan(plan)
        return plan

    async def _carry_out(self, desk: Desk, plan: Plan) -> Node:
        i, rng = desk.selected.id, desk.rng("code")
        desk.ask(CODE, AgentRole.CODE, f"Writing code: {plan.title}", self._code)
        window = self._windows.code(desk.tree, i, rng)
        shown = {node.id for node in window}
        window = (*window, *(other for other in desk.other(plan.combines) if other.id not in shown))
        candidate = await self._code.code(desk.context(window, desk.tree.children(i)), plan, rng)
        desk.answered()
        return desk.node(candidate, plan)


class SoloProposer:
    """One agent that does all."""

    def __init__(self, agent: SoloAgent, role: AgentRole, windows: Windows) -> None:
        self._agent = agent
        self._role = role
        self._windows = windows

    async def child(self, desk: Desk) -> Node:
        """Return what the agent made of the selected node."""
        selected, tree, rng = desk.selected, desk.tree, desk.rng("solo")
        if selected.failed:
            desk.ask(SOLO, self._role, f"Repairing attempt {selected.id}", self._agent)
            window, tried = self._windows.debug(tree, selected.id, rng), tree.siblings(selected.id)
        else:
            desk.ask(SOLO, self._role, "Writing a candidate", self._agent)
            window, tried = self._windows.plan(tree, selected.id, rng), tree.children(selected.id)
        try:
            draft = await self._agent.propose(desk.context(window, tried), rng)
        except NoCandidate as reason:
            return desk.empty(reason, None)
        desk.answered()
        return desk.node(draft.candidate, draft.plan)


def make_proposer(
    settings: SearchSettings,
    *,
    plan: PlanAgent | None = None,
    code: CodeAgent | None = None,
    debug: DebugAgent | None = None,
    solo: SoloAgent | None = None,
) -> TeamProposer | SoloProposer:
    """Return the proposer of the system that the settings name.

    Parameters
    ----------
    settings
        Of the search.
    plan, code, debug
        The team; needed by systems of a team.
    solo
        The single agent; needed by the others.

    Raises
    ------
    BadInput
        There is no such system, or the agents it needs are not there.
    """
    system = find_system(settings.system)
    windows = Windows(settings, system.dynamic_windows)
    if system.solo is not None:
        if solo is not None:
            return SoloProposer(solo, system.node_role, windows)
    elif plan is not None and code is not None and debug is not None:
        return TeamProposer(plan, code, debug, windows)
    raise BadInput(
        f"The system {system.name!r} needs agents that this model does not have.",
        cure="Choose the system stark, or a language model.",
    )
