"""The agents that a language model answers for: plan, code and debug (paper, section 4.1), and the single ones.

An attempt of the team:

1. `plan` asks for one advice with anchors, checks the anchors (`grounding`), and returns a `Plan`;
2. `code` asks for the candidate that carries it out, holds it against the anchors (`edits`), and returns it;
3. `debug` asks for a repair of a failed candidate instead;
4. `correct` asks whoever wrote a candidate to correct it, within the attempt, where it failed early.

Each question is written by a `Frame`, each answer read by `answers`. What an answer lacks is `NoCandidate`, an attempt
with its reason, and so is a question that grew too long; other errors of the model (`Fault`, `BadInput`, `BudgetSpent`)
pass through.

Who owns what: temperature, effort, tokens and model of each role are `AgentSettings`; retries, cost and the journal are
the model's (`agents/models`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from stark_lsp.agents.answers import read_kernel, read_plan, tool_of
from stark_lsp.agents.dialects import detect
from stark_lsp.agents.frame import NEW_CLASS, Frame, combinable
from stark_lsp.agents.grounding.check import document_anchors, ground
from stark_lsp.agents.grounding.edits import report
from stark_lsp.agents.lenses import FILE, Lens, choose, read_lenses
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.agents.texts import one_line
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Model, Question, Remembering, Tool
from stark_lsp.core.errors import Fault, TooLong
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import Context, Draft, NoCandidate
from stark_lsp.core.run import Node
from stark_lsp.core.run import Note as EarlierNote
from stark_lsp.core.status import AgentRole, Grounding, ModelRole
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.search.tree import is_empty, make_root

Note = Callable[[int, str], None]
"""Is told of an attempt, by its id, what a person may want to know."""
Counted = Callable[[Candidate, Verdict], Awaitable[Verdict]]
"""Returns a verdict with hardware counters in its profile, where they can be read; raises `Fault`."""


class _Asking:
    """What all agents of a run share: the model, and how it is asked."""

    def __init__(
        self,
        model: Model,
        problem: Problem,
        reference: Reference,
        settings: AgentSettings | None = None,
        *,
        prompts: PromptLibrary | None = None,
        seed: int = 0,
        notes: Sequence[EarlierNote] = (),
        tried: bool = True,
        tune: int = 0,
        on_note: Note | None = None,
        counted: Counted | None = None,
    ) -> None:
        self.model = model
        self.settings = settings or AgentSettings()
        self.prompts = prompts or PromptLibrary()
        self.frame = Frame(problem, reference, self.settings, self.prompts, tried, notes, tune)
        self.problem = problem
        self.seed = seed
        self._tried = tried
        self._reference = reference
        self._on_note = on_note
        self._counted = counted

    def rehearse(self, *roles: ModelRole) -> tuple[Question, ...]:
        """Return the first question of each role (of all, if none is named) on the reference; nothing is sent.

        Shows templates that cannot be filled in before anything is paid for, and how long questions are.

        Raises
        ------
        BadInput
            A template is missing or cannot be filled in.
        """
        root = make_root(self.problem, self._reference)
        context = Context(self.problem, self._reference, root, root, (root,), attempt=1)
        plan = Plan("A plan", "What to do.", annotated_source=root.candidate.source)
        for role in roles or tuple(ModelRole):
            if role is not ModelRole.PLAN:
                failed = replace(root, id=1, parent=0, role=AgentRole(role.value), plan=plan)
                self.frame.question(role, context, self._tool(role), plan=plan, failed=failed)
        return tuple(
            self.frame.question(role, context, self._tool(role), plan=plan if role is ModelRole.CODE else None)
            for role in roles or tuple(ModelRole)
        )

    def _tool(self, role: ModelRole) -> Tool:
        return tool_of(role, edits=self.settings.edits, merging=self.frame.merging)

    def _note(self, attempt: int, text: str) -> None:
        if self._on_note is not None:
            self._on_note(attempt, text)

    async def _looked_into(self, role: ModelRole, context: Context) -> Context:
        """Return the context with hardware counters of the selected node, unless the question was answered before."""
        node, verdict = context.selected, context.selected.verdict
        wanted = self.settings.profile and role is not ModelRole.SAMPLING
        if self._counted is None or not wanted or node.parent is None or verdict is None:
            return context
        if isinstance(self.model, Remembering) and await self.model.question_at(context.attempt, role, 0) is not None:
            return context
        try:
            verdict = await self._counted(node.candidate, verdict)
        except Fault as error:
            self._note(context.attempt, f"Hardware counters were not read: {error.message}")
            return context
        return replace(context, selected=replace(node, verdict=verdict))

    async def _ask(
        self,
        role: ModelRole,
        context: Context,
        *,
        plan: Plan | None = None,
        lens: Lens | None = None,
        failed: Node | None = None,
    ) -> tuple[Question, Answer]:
        # In a thread: templates are read from disk.
        question = await asyncio.to_thread(
            self.frame.question, role, context, self._tool(role), plan=plan, lens=lens, failed=failed
        )
        bare = plan is None and failed is None
        return question, await self._answer(question, context, bare=bare)

    async def _answer(self, question: Question, context: Context, *, bare: bool) -> Answer:
        """Return the answer to a question; one that is too long ends the attempt, unless the reference alone is."""
        try:
            return await self.model.ask(question)
        except TooLong as error:
            if bare and all(node.parent is None for node in (context.selected, *context.window)):
                raise  # the reference alone is too long, and will be in every question
            raise NoCandidate(error.message, final=True) from error

    async def _made(
        self, role: ModelRole, context: Context, plan: Plan | None = None, failed: Node | None = None
    ) -> Candidate:
        """Return the candidate that is handed in, with what its author says of it."""
        question, answer = await self._ask(role, context, plan=plan, failed=failed)
        # What the question shows last, which edits are to.
        shown = context.selected if failed is None or is_empty(failed) else failed
        return await self._read(question, answer, shown.candidate.source)

    async def _read(self, question: Question, answer: Answer, shown: str) -> Candidate:
        base = shown if self.settings.edits else None

        def read() -> Candidate:
            said = read_kernel(answer, question, NEW_CLASS, self.problem.class_name, base)
            if said.remark:
                self._note(question.attempt, said.remark)
            author = answer.model or question.model or self.model.name
            return Candidate(said.source, detect(said.source), NEW_CLASS, said.remark, said.summary, author)

        return await asyncio.to_thread(read)


class ModelTeam(_Asking):
    """Plan, code and debug agent, answered for by a model.

    Parameters
    ----------
    model
        Who answers.
    problem, reference
        What is optimized, and what preparing it found out.
    settings
        How the agents are asked.
    prompts
        The templates, with the user's own folders.
    seed
        Of the run; decides the order of lenses.
    notes
        What the run took along from earlier ones.
    tried
        Whether to show what else was tried on the selected node; systems that sample show nothing of it.
    tune
        How many values of constants are timed that a candidate leaves open; with 0 nothing is told of that.
    on_note
        Is told what an attempt did against its instructions, for instance edits outside the anchors.
    counted
        Reads hardware counters of the selected node before a plan is made; without it none are shown.

    Raises
    ------
    BadInput
        The settings name a dialect that there is not.
    """

    async def plan(self, context: Context, rng: Random) -> Plan:
        """Return one plan for the selected node, with its anchors checked.

        Raises
        ------
        NoCandidate
            The answer holds no plan.
        """
        context = await self._looked_into(ModelRole.PLAN, context)
        lens = await asyncio.to_thread(self._lens, context)
        question, answer = await self._ask(ModelRole.PLAN, context, lens=lens)
        plan = await asyncio.to_thread(self._grounded, context, question, answer, lens)
        if plan.remark:
            self._note(context.attempt, plan.remark)
        return plan

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        """Return the candidate that carries `plan` out.

        Raises
        ------
        NoCandidate
            The answer holds no candidate, or one with edits outside the anchors where those are refused.
        """
        return await self._carry_out(context, plan)

    async def debug(self, context: Context, rng: Random) -> Candidate:
        """Return a repaired candidate for the selected node.

        Raises
        ------
        NoCandidate
            The answer holds no candidate.
        """
        return await self._made(ModelRole.DEBUG, context)

    async def correct(self, context: Context, failed: Node) -> Draft:
        """Return what the code or debug agent makes of its own candidate that failed, or of its answer without one.

        Raises
        ------
        NoCandidate
            As `code` and `debug` do.
        """
        if failed.role is AgentRole.CODE and failed.plan is not None:
            candidate = await self._carry_out(context, failed.plan, failed)
        else:
            candidate = await self._made(ModelRole.DEBUG, context, failed=failed)
        # What was said of the idea stays; a correction says little or nothing.
        return Draft(replace(candidate, summary=failed.candidate.summary or candidate.summary), failed.plan)

    async def _carry_out(self, context: Context, plan: Plan, failed: Node | None = None) -> Candidate:
        candidate = await self._write(context, plan, failed)
        if self.settings.grounding is Grounding.OFF:
            return candidate
        outside = await asyncio.to_thread(report, context.selected.candidate, plan, candidate)
        if not outside:
            return candidate
        text = f"Edits outside the marked lines: {outside}."
        self._note(context.attempt, text)
        if self.settings.grounding is Grounding.REFUSE:
            raise NoCandidate(text, text=candidate.source)
        return replace(candidate, remark=f"{candidate.remark} {text}".strip())

    async def _write(self, context: Context, plan: Plan, failed: Node | None) -> Candidate:
        """Return what the code agent hands in."""
        return await self._made(ModelRole.CODE, context, plan, failed)

    def _lens(self, context: Context) -> Lens | None:
        """Return the side to look from, None where temperature makes plans differ."""
        asked = self.settings.routed(ModelRole.PLAN, stagnant=context.stagnant)
        takes = getattr(self.model, "takes_temperature", None)
        if asked.temperature is not None and (not callable(takes) or takes(asked.model) is not False):
            return None
        lenses = read_lenses(self.prompts.text(FILE))
        siblings = context.siblings if self._tried else ()
        plans = [node.plan for node in siblings if node.plan is not None and node.role is AgentRole.CODE]
        used = {plan.lens for plan in plans if plan.lens}
        limited = self.frame.diagnosis(context.selected).bottleneck if self.settings.profile else None
        return choose(lenses, self.seed, context.attempt, used, limited)

    def _grounded(self, context: Context, question: Question, answer: Answer, lens: Lens | None) -> Plan:
        said = read_plan(answer, question)
        grounded = ground(context.selected.candidate.source, said.annotated_source)
        offered = {node.id for node in combinable(context)} if self.frame.merging else set()
        combines = said.combines if said.combines in offered else None
        remark = grounded.remark
        if said.combines is not None and combines is None:
            remark = f"{remark} It was to be combined with attempt {said.combines}, which was not offered.".strip()
        return Plan(
            title=said.title,
            advice=said.advice,
            anchors=document_anchors(self.problem, context.selected, grounded),
            annotated_source=grounded.annotated_source,
            lens=lens.name if lens is not None else "",
            remark=remark,
            combines=combines,
            expected_saving_ms=said.expected_saving_ms,
        )


class ModelSolo(_Asking):
    """A single agent that does all: sampling, reflexion, or the agent of the search baseline.

    Parameters are those of `ModelTeam`, with the role before the settings.

    Parameters
    ----------
    role
        `SAMPLING` sees the reference alone; `REFLEXION` the selected node and the window as well.

    Raises
    ------
    BadInput
        The settings name a dialect that there is not.
    """

    def __init__(
        self,
        model: Model,
        problem: Problem,
        reference: Reference,
        role: ModelRole,
        settings: AgentSettings | None = None,
        **more: Any,
    ) -> None:
        if role not in (ModelRole.SAMPLING, ModelRole.REFLEXION):
            raise ValueError(f"{role.value} is not the role of a single agent")
        super().__init__(model, problem, reference, settings, **more)
        self.role = role

    async def propose(self, context: Context, rng: Random) -> Draft:
        """Return a candidate, with its summary as a plan.

        Raises
        ------
        NoCandidate
            The answer holds no candidate.
        """
        return await self._draft(await self._looked_into(self.role, context))

    async def correct(self, context: Context, failed: Node) -> Draft:
        """Return what it makes of its own candidate that failed, or of its answer without one.

        Raises
        ------
        NoCandidate
            The answer holds no candidate.
        """
        return await self._draft(context, failed)

    async def _draft(self, context: Context, failed: Node | None = None) -> Draft:
        candidate = await self._made(self.role, context, failed=failed)
        title = one_line(candidate.summary.partition("\n")[0].partition(". ")[0], 100).rstrip(".")
        return Draft(replace(candidate, summary=""), Plan(title, candidate.summary) if title else None)


__all__ = ["ModelSolo", "ModelTeam", "Note"]
