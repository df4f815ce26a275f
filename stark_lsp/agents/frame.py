"""The frame of a question: from what an agent is given to what a model is sent (paper, Figure 4 and Appendix C).

In order: system message; example in the chosen dialect, rules, reference, machine, what else is alike for the whole run
(`Question.shared`, which a server may cache); the attempt to start from, those of the context window with source,
compiler observation and execution result, hints, the role's instruction (`Question.body`).

The words are `prompts/frame.md` and what it includes; here are the values they are filled in with. What each role is
shown beyond the paper:

- the profile of the reference and of the selected node: roles that decide what to do (plan, sampling, reflexion),
- rejections of earlier runs, and notes of those on similar classes: the same,
- what the playbook would do: the plan agent,
- which attempts their times do not tell apart: roles that look back (plan, reflexion),
- the first failure of a chain of repairs, and what changed since the code was right: the debug agent,
- hints of the user: all of them.

The sampling agent sees the reference alone; hints apart, its questions in one run are all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stark_lsp.agents.certainty import alike
from stark_lsp.agents.diagnosis import Diagnosis, diagnose
from stark_lsp.agents.dialects import embedding
from stark_lsp.agents.grounding.edits import is_marked
from stark_lsp.agents.grounding.markers import BEGIN, END
from stark_lsp.agents.inputs import inputs_source
from stark_lsp.agents.lenses import Lens
from stark_lsp.agents.machine import machine_lines
from stark_lsp.agents.observations import (
    ADVICE,
    NAME,
    NOTES,
    PAST_SOURCE,
    SELECTED_SOURCE,
    Attempt,
    as_changes,
    attempt,
    bandwidth_gbs,
    difference,
    failure,
    noted,
    profile_lines,
    source_text,
    three,
    timing,
    titles,
)
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.agents.texts import capped, clean, fenced, listed, one_line, quoted
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.conversation import Question, Tool
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node, Note
from stark_lsp.core.status import Grounding, Mode, ModelRole
from stark_lsp.core.verdict import Baselines, Reference
from stark_lsp.search.tree import is_empty

NEW_CLASS = "ModelNew"
"""What candidates call their class."""
HINT = 4_000
"""Characters of a hint or a reason."""
NEWEST = 12
"""Hints, and proposals that were turned down, that are told; of more the newest."""
LISTED = 24
"""Attempts made from the selected node whose titles are told; of more the newest."""
NEAR = 1.25
"""Times the selected node's time: an attempt that takes longer is nothing to combine it with."""
TENSORS = 2_000
"""Characters of the list of all inputs, and of that of outputs."""

MANY_ATTEMPTS = 5
"""So many attempts that were made are many: whatever the window shows of them, a plan is to differ in kind."""

_BORDER = "\x1e"
"""Stands between `shared` and `body` while they are one text; taken out of everything that is filled in."""
_DECIDING = (ModelRole.PLAN, ModelRole.SAMPLING, ModelRole.REFLEXION)
_LOOKING_BACK = (ModelRole.PLAN, ModelRole.REFLEXION)
_MODES = {
    Mode.EVAL: "eval",
    Mode.AS_CONSTRUCTED: "as constructed",
    Mode.TRAINING: "training: forward and backward are timed together",
}


class Frame:
    """Writes the questions of one run.

    Parameters
    ----------
    problem, reference
        What is optimized, and what preparing it found out.
    settings
        How the agents are asked.
    prompts
        The templates.
    tried
        Whether to show what else was tried on the selected node, what failed before it, and how many attempts there
        were; systems without memory know nothing of it.
    notes
        What the run took along from earlier ones on similar classes.
    tune
        How many values of constants are timed that a candidate leaves open; with 0 nothing is told of that.

    Raises
    ------
    BadInput
        There is no dialect of that name.
    """

    def __init__(
        self,
        problem: Problem,
        reference: Reference,
        settings: AgentSettings,
        prompts: PromptLibrary,
        tried: bool = True,
        notes: Sequence[Note] = (),
        tune: int = 0,
    ) -> None:
        self.settings = settings
        self.merging = settings.merging and tried
        """Whether plans may combine attempts; systems without memory see no other branch."""
        self.tools: tuple[str, ...] = ()
        """Tools that the code agent may call before it hands in."""
        self._tried = tried and settings.history
        self._problem = problem
        self._reference = reference
        self._prompts = prompts
        self._embedding = embedding(settings.dialect, reference.environment.device_type)
        self._inputs = inputs_source(problem)
        self._notes = tuple(map(noted, notes))
        self.tune = tune

    def question(
        self,
        role: ModelRole,
        context: Context,
        tool: Tool,
        *,
        plan: Plan | None = None,
        lens: Lens | None = None,
        failed: Node | None = None,
    ) -> Question:
        """Return what a model is asked in a role.

        A correction is no longer conversation but a question of its own, of which the shared part is the same: what
        was handed in stands in the place of the selected node, and no earlier attempts are repeated.

        Parameters
        ----------
        context
            What the search gives the agent.
        tool
            How the answer is to be handed in.
        plan
            For the code agent: what it is to carry out.
        lens
            For the plan agent: the side to look from.
        failed
            For a correction: what was made of this attempt so far, with its verdict.

        Raises
        ------
        BadInput
            A template is missing or cannot be filled in.
        """
        judged = failed is not None and not is_empty(failed)
        if failed is not None and judged:
            context = replace(context, selected=failed, window=(), siblings=(), first_failure=None, last_correct=None)
            plan = replace(plan, annotated_source="") if plan is not None else None
        values = {
            **self._constant(role, context),
            **self._changing(role, context, plan, lens, alone=role is ModelRole.SAMPLING and not judged),
            "correction": _correction(failed) if failed is not None else None,
            "tools": self.tools if role is ModelRole.CODE and failed is None else (),
            "calls": self.settings.tool_calls,
        }
        text = self._prompts.render("frame", **values)
        shared, border, body = text.partition(_BORDER)
        if not border:  # a user's frame without a border: nothing is alike
            shared, body = "", text
        asked = self.settings.routed(role, correction=failed is not None, stagnant=context.stagnant)
        return Question(
            attempt=context.attempt,
            role=role,
            system=self._prompts.render(self.settings.system_message, **values).replace(_BORDER, ""),
            shared=shared.strip() + "\n" if shared.strip() else "",
            body=body.replace(_BORDER, "").strip() + "\n",
            tool=tool,
            model=asked.model,
            temperature=asked.temperature,
            effort=asked.effort,
            max_tokens=asked.max_tokens,
            ordinal=failed.corrections + 1 if failed is not None else 0,
        )

    def diagnosis(self, node: Node) -> Diagnosis:
        """Return what limits a node, as far as its profile tells."""
        known, verdict = self._reference, node.verdict
        if node.parent is None:
            return diagnose(known.profile, known.baselines.eager, known.environment, known.device)
        if verdict is None:
            return Diagnosis()
        return diagnose(verdict.profile, verdict.runtime, verdict.environment, known.device)

    def _constant(self, role: ModelRole, context: Context) -> dict[str, Any]:
        """Return what is alike in all questions of a role in one run."""
        problem, settings = self._problem, self.settings
        deciding = role in _DECIDING
        profiled = settings.profile and deciding
        return {
            "role": role.value,
            "embedding": self._embedding,
            "device": "a CPU" if self._embedding == "cpu" else "an NVIDIA GPU",
            "class_name": NEW_CLASS,
            "training": problem.mode is Mode.TRAINING,
            "edits": settings.edits,
            "tune": self.tune,
            "seeded": settings.playbook,
            "example": {
                "reference": self._prompts.text(f"examples/{self._embedding}/reference.py"),
                "candidate": self._prompts.text(f"examples/{self._embedding}/candidate.py"),
            },
            "reference": {
                "class_name": problem.class_name,
                "source": source_text(problem.slice.text, SELECTED_SOURCE),
                "inputs": source_text(self._inputs, ADVICE).rstrip(),
                "profile": profile_lines(self._reference.profile, self._reference.baselines.eager) if profiled else (),
                "diagnosis": self.diagnosis(context.root).sentences if profiled else (),
            },
            "where": self._where(context.reference.baselines),
            "rejections": [
                {"title": one_line(each.title, 200), "reason": one_line(each.reason, HINT)}
                for each in (context.rejections[-NEWEST:] if deciding else ())
            ],
            "rejections_more": max(0, len(context.rejections) - NEWEST),
            "notes": self._notes if deciding else (),
            "shared_until_here": _BORDER,
            "begin": BEGIN,
            "end": END,
            "fenced": fenced,
            "quoted": quoted,
        }

    def _changing(
        self, role: ModelRole, context: Context, plan: Plan | None, lens: Lens | None, *, alone: bool
    ) -> dict[str, Any]:
        """Return what changes from question to question; `alone` shows neither the selected node nor others."""
        selected = context.selected
        profiled = self.settings.profile and role in _DECIDING
        shown = _view(selected, context, profile=profiled, limit=SELECTED_SOURCE)
        past = [node for node in context.window if node.id not in (selected.id, context.root.id)]
        planned = plan if plan is not None else selected.plan if role is ModelRole.DEBUG else None
        tried = context.siblings[-LISTED:] if self._tried and role in _LOOKING_BACK else ()
        titled = titles(tried, profiled=self.settings.profile)
        shown_too = {selected.id, context.root.id, *(node.id for node in (*past, *context.siblings))}
        others = [node for node in context.made if node.id not in shown_too] if role in _LOOKING_BACK else []
        made = sum(node.parent is not None for node in context.made)
        # Which of those shown cannot be told apart by their times.
        numbers = {one[0] for one in titled}
        compared = [selected, *past, *(node for node in tried if node.id in numbers)]
        compared = compared if role in _LOOKING_BACK and self.settings.history else []
        began = context.first_failure if self._tried and role is ModelRole.DEBUG else None
        return {
            "selected": None if alone else shown,
            "diagnosis": self.diagnosis(selected).sentences if profiled and not alone else (),
            "combinable": [node.id for node in combinable(context)] if self.merging and role is ModelRole.PLAN else [],
            "attempts": [] if alone else self._others(past, shown, context, planned, role),
            "tried": titled,
            "tried_more": max(0, len(context.siblings) - LISTED),
            "elsewhere": titles(others[-LISTED:], profiled=self.settings.profile) if self._tried else (),
            "under_way": [(number, one_line(plan.title, NAME)) for number, plan in context.under_way[-LISTED:]]
            if self._tried and role is ModelRole.PLAN
            else [],
            "made": made,
            "many": self._tried and made >= MANY_ATTEMPTS,
            "alike": [listed(*map(str, group)) for group in alike(compared)],
            "difference": {"id": context.last_correct.id, "text": difference(context.last_correct, selected)}
            if context.last_correct is not None and role is ModelRole.DEBUG
            else None,
            "first_failure": failure(began) if began is not None else None,
            "hints": [capped(clean(hint.text), HINT) for hint in context.hints[-NEWEST:]],
            "hints_more": max(0, len(context.hints) - NEWEST),
            "plan": None if planned is None else self._plan(planned),
            "lens": lens,
        }

    def _others(
        self, nodes: Sequence[Node], selected: Attempt, context: Context, plan: Plan | None, role: ModelRole
    ) -> list[Attempt]:
        """Return the attempts of the window. One that is no faster than the selected node has no source if the playbook
        wrote it, since that is long, or for the code agent: nothing to build on, unless the plan takes of it."""
        history, combined = self.settings.history, plan.combines if plan is not None else None
        seen = []
        for node in nodes:
            one = _view(node, context, profile=False, limit=SELECTED_SOURCE if history else PAST_SOURCE)
            slower = node.score > context.selected.score and combined != node.id
            spared = one.built_in or (role is ModelRole.CODE and history)
            seen.append(replace(one, source="", left_out=True) if spared and slower and one.result.ok else one)
        return as_changes(selected, seen, whole=combined) if history else seen

    def _plan(self, plan: Plan) -> dict[str, Any]:
        grounded = self.settings.grounding is not Grounding.OFF and is_marked(plan.annotated_source)
        return {
            "title": one_line(plan.title, 200),
            "advice": capped(clean(plan.advice), 4 * ADVICE),
            "combines": plan.combines,
            "annotated": source_text(plan.annotated_source, SELECTED_SOURCE) if grounded else "",
        }

    def _where(self, timed: Baselines) -> dict[str, Any]:
        """Return facts of the machine; `timed` has torch.compile's time, which comes while a search goes on."""
        environment = self._reference.environment
        bandwidth = bandwidth_gbs(self._reference)
        dtypes = environment.dtypes
        kinds = dtypes if len(dtypes) == len(environment.shapes) else (", ".join(dtypes),)
        shapes = environment.shapes
        if len(kinds) == len(shapes):
            inputs = ", ".join(f"{kind}[{shape}]" for kind, shape in zip(kinds, shapes, strict=True))
        else:
            inputs = f"{', '.join(shapes)} ({kinds[0]})" if shapes else ""
        return {
            "device": one_line(environment.device, NAME),
            "on_cpu": environment.device_type == "cpu",
            "threads": environment.threads,
            "torch": environment.torch,
            "cuda": environment.cuda,
            "driver": environment.driver,
            "compiler": one_line(environment.compiler or "", NAME),
            "machine": machine_lines(self._reference.device) if self.settings.machine else (),
            "inputs": one_line(inputs, TENSORS),
            "outputs": one_line(", ".join(self._reference.outputs), TENSORS),
            "weights_dtype": one_line(environment.weights_dtype, NAME),
            "autocast": one_line(environment.autocast, NAME),
            "mode": _MODES[self._problem.mode],
            "bandwidth": f"{three(bandwidth)} GB/s" if bandwidth is not None else "",
            "eager": timing(self._reference.baselines.eager),
            "compiled": timing(timed.compile),
            "max_autotuned": timing(timed.max_autotune),
            "notes": tuple(one_line(note, 4 * NAME) for note in self._reference.notes[:NOTES]),
        }


def combinable(context: Context) -> tuple[Node, ...]:
    """Return the leaders of other branches that a plan may combine the selected node with.

    They are faster than the reference, not much slower than the selected node, can be shown whole, and were not
    combined with it before, as far as is shown.
    """
    selected = context.selected.id
    here = {selected, context.root.id, *context.ancestors, *(node.id for node in context.siblings)}
    done = {node.second_parent for node in context.siblings}
    done |= {node.parent for node in context.window if node.second_parent == selected}
    others = [node for node in context.window if node.id not in here | done]
    others = [node for node in others if len(node.candidate.source) <= PAST_SOURCE]
    least = min(context.root.score, NEAR * context.selected.score)
    return tuple(node for node in others if node.score < least)


def _correction(failed: Node) -> dict[str, str]:
    """Return what the answer was that held no candidate, and why; both are empty where one was judged."""
    if failed.verdict is None or not is_empty(failed):
        return {"reason": "", "answer": ""}
    answer = failed.candidate.source
    return {
        "reason": capped(clean(failed.verdict.message), HINT),
        "answer": source_text(answer, PAST_SOURCE) if answer.strip() else "",
    }


def _view(node: Node, context: Context, *, profile: bool, limit: int = PAST_SOURCE) -> Attempt:
    """Return a node for a template, with its parent where the context holds it."""
    known = {each.id: each for each in (*context.window, *context.siblings, context.selected, context.root)}
    parent = known.get(node.parent) if node.parent is not None else None
    device = context.reference.environment.device
    return attempt(node, parent, profile=profile, limit=limit, device=device)
