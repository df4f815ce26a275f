"""The team whose code agent has tools: `stark-tools`.

The code agent's question becomes a conversation of at most `AgentSettings.tool_calls` calls and what each gave:

1. it calls a tool (`toolbox`), and is asked again with the result;
2. or it hands in, as any code agent does; without a source or edits that is its source as the last call left it;
3. a call or a handing-in that cannot be used is told why, and counts as a call;
4. once all calls are made, or the conversation is long (`CONVERSATION`), whatever comes is taken for handing in, and
   where that holds nothing, what was tried last.

Every question has a place in the run of its own, so answers are journaled and paid for as any other. A result stands in
the question that follows it: where that was answered before, the tool is not used again. Plans, repairs and corrections
are `ModelTeam`'s.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from stark_lsp.agents.answers import completed
from stark_lsp.agents.diagnosis import diagnose
from stark_lsp.agents.observations import result
from stark_lsp.agents.team import ModelTeam
from stark_lsp.agents.toolbox import CONVERSATION, RESULT, STAGES, Sources, Toolbox, forms, turn
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Question, Remembering, Turn
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, NoCandidate
from stark_lsp.core.run import Node
from stark_lsp.core.status import ModelRole, StopReason, VerdictStatus
from stark_lsp.core.verdict import Verdict

FIRST_STEP = 1_000_000
"""Ordinals of a conversation's further questions begin here, so that those of corrections stay what they are."""


class ToolTeam(ModelTeam):
    """Plan, code and debug agent, of whom the code agent has tools.

    Parameters
    ----------
    sources
        Where its tools find what they tell.

    The others are those of `ModelTeam`.
    """

    def __init__(self, sources: Sources, *team: Any, **more: Any) -> None:
        super().__init__(*team, **more)
        self._tools = forms(self.settings)
        self._box = Toolbox(sources, self.prompts, self._diagnosis, tuned=self.frame.tune > 0)
        self.frame.tools = tuple(tool.name for tool in self._tools)

    def rehearse(self, *roles: ModelRole) -> tuple[Question, ...]:
        """Return the first question of each role, as `ModelTeam` does; the words of tools are tried as well.

        Raises
        ------
        BadInput
            A template is missing or cannot be filled in.
        """
        self._box.told(tool="build", result=result(Verdict(VerdictStatus.OK), profile=False))
        return tuple(
            replace(one, tools=self._tools) if one.role is ModelRole.CODE else one for one in super().rehearse(*roles)
        )

    async def _write(self, context: Context, plan: Plan, failed: Node | None) -> Candidate:
        if failed is not None:
            return await super()._write(context, plan, failed)
        question = await asyncio.to_thread(
            self.frame.question, ModelRole.CODE, context, self._tool(ModelRole.CODE), plan=plan
        )
        question = replace(question, tools=self._tools)
        source, mine = context.selected.candidate.source, ""
        while True:
            answer = await self._answer(question, context, bare=False)
            left = self._left(question.turns)
            candidate, trouble = None, ""
            try:
                if not answer.called or left == 0:
                    return await self._read(question, completed(answer, mine), mine or source)
                candidate = await self._handed_over(question, answer, mine, source)
            except NoCandidate as reason:
                by_tool = answer.called or answer.tool_input is not None
                if reason.final or (not mine and (not by_tool or left == 0)):
                    raise
                if not by_tool or left == 0:
                    return await self._taken(question, answer, mine)
                trouble = str(reason)
            mine = candidate.source if candidate is not None else mine
            question = await self._next(question, answer, candidate, trouble)

    async def _taken(self, question: Question, answer: Answer, source: str) -> Candidate:
        """Return what was tried last, of who hands nothing in that can be used."""
        given = replace(answer, stop=StopReason.COMPLETE, text="", tool_input={"source": source}, message="")
        candidate = await self._read(question, given, source)
        return replace(candidate, remark="Its author handed nothing in; this is what it tried last.")

    async def _handed_over(self, question: Question, answer: Answer, mine: str, source: str) -> Candidate | None:
        """Return the candidate that a call is about, None if it is about none.

        Raises
        ------
        NoCandidate
            The call cannot be used.
        """
        if answer.called not in self.frame.tools:
            raise NoCandidate(f"There is no tool {answer.called}.")
        if answer.stop is not StopReason.COMPLETE or answer.tool_input is None:
            raise NoCandidate(answer.message or "The call could not be read.")
        if answer.called not in STAGES:
            return None
        return await self._read(question, completed(answer, mine), mine or source)

    async def _next(self, question: Question, answer: Answer, candidate: Candidate | None, trouble: str) -> Question:
        """Return the question that follows a call, with its result; what was answered before has that already."""
        ordinal = FIRST_STEP + len(question.turns) + 1
        if isinstance(self.model, Remembering):
            before = await self.model.question_at(question.attempt, question.role, ordinal)
            if before is not None and len(before.turns) == len(question.turns) + 1:
                return replace(question, ordinal=ordinal, turns=before.turns)
        assert question.tool is not None
        called = turn(answer, answer.called or question.tool.name)
        left = self._left((*question.turns, called))
        if trouble:
            said = await asyncio.to_thread(self._box.told, trouble=trouble, left=left)
        else:
            number = f"{len(question.turns) + 1} of {self.settings.tool_calls}"
            self._box.sources.say(f"The code agent calls {answer.called}, {number} at most")
            said = await self._box.use(answer.called, candidate, answer.tool_input or {}, left)
        return replace(question, ordinal=ordinal, turns=(*question.turns, replace(called, result=said)))

    def _left(self, turns: tuple[Turn, ...]) -> int:
        """Return how many calls may follow these, whatever the last of them says."""
        if not turns:
            return self.settings.tool_calls
        said = sum(one.characters for one in turns[:-1]) + replace(turns[-1], result="").characters + RESULT
        return 0 if said > CONVERSATION else max(0, self.settings.tool_calls - len(turns))

    def _diagnosis(self, verdict: Verdict) -> tuple[str, ...]:
        device = self._reference.device
        return diagnose(verdict.profile, verdict.runtime, verdict.environment, device).sentences
