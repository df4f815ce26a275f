"""The desk: where the agents of one attempt find what they need, and leave what they made.

A desk outlasts a fault: when the code agent's call fails and is made again, the plan is still on it, and so is a
candidate whose correction failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, Corrector, NoCandidate
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole, Dialect, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.attempts import Attempt
from stark_lsp.search.faults import in_short
from stark_lsp.search.randomness import generator_for
from stark_lsp.search.tree import Tree, is_empty


class Desk:
    """One attempt on one node.

    Parameters
    ----------
    attempt
        Which one.
    tree
        All attempts so far.
    context
        Makes the context of an agent from the window, and from the nodes that were tried here already.
    asking
        Told who is asked now, and what for.
    answered
        Told who answered.
    planned
        Told the plan.
    """

    def __init__(
        self,
        attempt: Attempt,
        tree: Tree,
        *,
        context: Callable[[tuple[Node, ...], tuple[Node, ...]], Context],
        asking: Callable[[str], None],
        answered: Callable[[str], None],
        planned: Callable[[Plan], None],
    ) -> None:
        self.attempt = attempt
        self.tree = tree
        self.context = context
        self.selected = tree.nodes[attempt.selected]
        """Node i of Algorithm 1."""
        self.who = "The agent"
        """Who was asked last, as the beginning of a sentence."""
        self.role = AgentRole.DEBUG if self.selected.failed else AgentRole.CODE
        """Who the node will be said to be made by."""
        self.author: Corrector | None = None
        """Who may be asked to correct what it wrote; None if nobody can, or if that is of no use."""
        self.plan: Plan | None = None
        """The plan, once it is made."""
        self.made: Node | None = None
        """The child as it is so far: without a verdict, or with `NO_CANDIDATE`."""
        self._asking = asking
        self._answered = answered
        self._planned = planned

    def rng(self, role: str) -> Random:
        """Return the generator of one role; each call returns it as it was at first."""
        return generator_for(self.attempt.seed, role)

    def ask(self, who: str, role: AgentRole, text: str, author: object = None) -> None:
        """Say who is asked now, for instance "The plan agent", for a node of which role, what for, and who writes."""
        self.who, self.role = who, role
        self.author = author if isinstance(author, Corrector) else None
        self._asking(text)

    def answered(self) -> None:
        """Say that whoever was asked last has answered."""
        self._answered(self.who)

    def keep_plan(self, plan: Plan) -> None:
        """Put a plan on the desk and tell it."""
        self.plan = plan
        self._planned(plan)

    def node(self, candidate: Candidate, plan: Plan | None) -> Node:
        """Return the child that was made."""
        return Node(self.attempt.id, self.selected.id, self.role, candidate, plan)

    def other(self, number: int | None) -> tuple[Node, ...]:
        """Return the attempt that the selected node is to be combined with; nothing for most plans."""
        return (self.tree.nodes[number],) if number is not None and number in self.tree.nodes else ()

    def empty(self, reason: NoCandidate, plan: Plan | None) -> Node:
        """Return the child of an attempt that left nothing to judge, with that as its verdict."""
        candidate = Candidate(reason.text, Dialect.TORCH)
        verdict = Verdict(VerdictStatus.NO_CANDIDATE, message=str(reason))
        if reason.final:
            self.author = None
        return Node(self.attempt.id, self.selected.id, self.role, candidate, plan, verdict)

    async def correct(self, failed: Node) -> Node:
        """Return the child as its author corrects it; of an answer that cannot be used, what was there and why."""
        assert self.author is not None
        corrections = failed.corrections + 1
        self._asking(f"Correcting attempt {failed.id}")
        try:
            draft = await self.author.correct(self.context(self.other(failed.second_parent), ()), failed)
        except NoCandidate as reason:
            if is_empty(failed):
                return replace(self.empty(reason, failed.plan), corrections=corrections)
            if reason.final:
                self.author = None
            candidate = replace(failed.candidate, remark=f"A correction of it could not be used: {reason}")
            return replace(failed, candidate=candidate, verdict=None, corrections=corrections)
        self.answered()
        plan = failed.plan or draft.plan
        return replace(failed, candidate=draft.candidate, plan=plan, verdict=None, corrections=corrections)

    def mistaken(self, error: Exception) -> Node:
        """Return the child of an attempt that a mistake of our own ended: what was made, else with that as verdict."""
        if self.made is not None:
            return self.made
        plan = self.selected.plan if self.role is AgentRole.DEBUG else self.plan
        return self.empty(NoCandidate(f"An internal error: {in_short(error)}"), plan)
