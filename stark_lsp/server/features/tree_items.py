"""Runs and their attempts as a view shows them: a label, what stands beside it, and what can be done.

Whoever shows them needs no words of its own. Pure functions; the words are those of `stark-lsp runs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stark_lsp.cli.output import outcome
from stark_lsp.cli.runs import run_words
from stark_lsp.cli.runs.lookup import local_time
from stark_lsp.cli.terminal import figures, words
from stark_lsp.core.conversation import Spend
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import AgentRole, Decision, RunState
from stark_lsp.core.steering import Course, Steering, SteeringKind, objection
from stark_lsp.core.verdict import Verdict
from stark_lsp.runs.choice import PLAYBOOK, is_told_nothing
from stark_lsp.runs.finalists import faster_than_eager, pick
from stark_lsp.server.runs.views import UnderWay
from stark_lsp.server.text.markup import plain
from stark_lsp.server.text.positions import uri_of
from stark_lsp.server.text.spending import answerer

ADVICE = 320
"""Characters of an advice in a tooltip."""

_DECISION = {Decision.ACCEPTED: "accepted", Decision.REJECTED: "rejected"}


def of_run(run: Run, best: Verdict | None, spend: Spend, *, here: bool = False, paused: bool = False) -> dict[str, Any]:
    """Return a run as JSON.

    Parameters
    ----------
    best
        Verdict of the leader so far, None if there is none.
    here
        Whether this server drives it.
    paused
        Whether the user paused it.
    """
    over = run.state.over
    gain = best.speedup_vs_eager if best is not None else None
    state = _DECISION.get(run.decision) or ("paused" if paused and not over else words.STATE[run.state])
    parts = [figures.times(gain.value) if gain is not None else "", state, local_time(run.created)]
    steps = [] if over else ["resume" if paused else "pause"]
    if not over and not is_told_nothing(run.model):
        steps.append("hint")
    return {
        "run": run.id,
        "class": run.problem.qualname,
        "path": run.problem.path,
        "uri": _uri(run.problem.path),
        "state": "paused" if paused and not over else run.state.value,
        "decision": run.decision.value,
        "label": plain(run.problem.class_name, 80),
        "description": " · ".join(part for part in parts if part),
        "tooltip": "\n".join(_about_run(run, spend)),
        "can": [*(["cancel"] if here and not over else []), *steps, "original", "report"],
    }


def _about_run(run: Run, spend: Spend) -> Iterator[str]:
    yield f"{plain(run.problem.path, 300)}::{plain(run.problem.qualname, 120)}"
    if run.message:
        yield plain(run.message, 600)
    if run.reference is not None:
        environment, baselines = run.reference.environment, run.reference.baselines
        compiled = f", torch.compile {figures.timing(baselines.compile)}" if baselines.compile is not None else ""
        yield f"eager {figures.timing(baselines.eager)}{compiled}"
        yield plain(f"{words.device(environment)}, torch {environment.torch}, {words.inputs(environment)}", 300)
    cost = run_words.spend(spend) or "no model was asked"
    yield f"Answered by {answerer(run.model)}: {cost}"
    yield f"Run {run.id}, {local_time(run.created)}, {words.STATE[run.state]}"


def leader(run: Run, nodes: Mapping[int, Node]) -> int | None:
    """Return the proposal, before there is one the best verified attempt; None if nothing is verified."""
    if run.best is not None and run.best in nodes:
        return run.best
    return next((node.id for node in pick(node for node in nodes.values() if node.id)), None)


def of_tree(
    run: Run, nodes: Mapping[int, Node], course: Course, planned: Mapping[int, UnderWay]
) -> list[dict[str, Any]]:
    """Return the attempts of a run as JSON, in order of their numbers; those `planned` have no candidate yet."""
    first, given_up = leader(run, nodes), set(course.pruned)
    items = []
    for number in sorted({*nodes, *planned}):
        if not number:
            continue
        node = nodes.get(number)
        parent = node.parent if node is not None else planned[number].parent
        if parent in given_up:
            given_up.add(number)
        told = {"leader": number == first, "pinned": number == course.pinned, "pruned": number in given_up}
        if node is None:
            items.append(_under_way(number, planned[number]) | told)
        else:
            items.append(_attempt(run, nodes, node, course, **told))
    return items


def _under_way(number: int, planned: UnderWay) -> dict[str, Any]:
    return {
        "node": number,
        "parent": planned.parent,
        "agent": AgentRole.CODE.value,
        "status": None,
        "faster": False,
        "label": f"{number} being written",
        "description": plain(planned.plan.title, 120),
        "tooltip": words.advice(planned.plan, ADVICE),
        "can": [],
    }


def _attempt(
    run: Run, nodes: Mapping[int, Node], node: Node, course: Course, *, leader: bool, pinned: bool, pruned: bool
) -> dict[str, Any]:
    marks = [
        (_DECISION.get(run.decision, "proposal") if run.best == node.id else "leader") if leader else "",
        "pinned" if pinned else "",
        "given up" if pruned else "",
    ]
    # Two blanks part the columns of a terminal.
    came_of = outcome.came_of(node).replace("  ", ", ") if node.verdict is not None else "being judged"
    parts = [*(mark for mark in marks if mark), plain(words.title(node), 120), f"{node.role.value} agent"]
    return {
        "node": node.id,
        "parent": node.parent,
        "agent": node.role.value,
        "status": node.verdict.status.value if node.verdict is not None else None,
        "faster": faster_than_eager(node.verdict),
        "leader": leader,
        "pinned": pinned,
        "pruned": pruned,
        "label": f"{node.id} {came_of}",
        "description": " · ".join(parts),
        "tooltip": "\n".join(_about_attempt(run, nodes, node)),
        "can": [*_views(run, node), *_steps(run, nodes, node, course)],
    }


def _about_attempt(run: Run, nodes: Mapping[int, Node], node: Node) -> Iterator[str]:
    parent = nodes.get(node.parent) if node.parent is not None else None
    after = f"after attempt {node.parent}" if node.parent else "from the original class"
    yield f"Attempt {node.id}, {after}, by the {node.role.value} agent"
    verdict = node.verdict
    yield plain(words.result(node), 300)
    if verdict is not None and verdict.speedup_vs_eager is not None:
        yield f"against eager {figures.times_interval(verdict.speedup_vs_eager)}"
    if verdict is not None and verdict.speedup_vs_compile is not None:
        yield f"against torch.compile {figures.times_interval(verdict.speedup_vs_compile)}"
    if node.plan is not None:
        yield words.advice(node.plan, ADVICE)
        if told := words.variant(node.plan, parent.plan if parent is not None else None):
            yield told
    if node.corrections:
        yield words.corrected(node)


def _views(run: Run, node: Node) -> Iterator[str]:
    """Yield what there is to see of an attempt."""
    if node.candidate.source:
        yield from ("source", "original", "parent")
    if node.verdict is not None:
        yield "verdict"
        if node.verdict.profile is not None:
            yield "profile"
    if node.plan is not None:
        yield "plan"
    if run.model != PLAYBOOK:
        yield "prompts"


def _steps(run: Run, nodes: Mapping[int, Node], node: Node, course: Course) -> Iterator[str]:
    """Yield what can be done with an attempt."""
    if run.state.over and node.verdict is not None and node.verdict.ok:
        yield "accept"
    if run.state is RunState.FINISHED:
        return
    if course.pinned == node.id:
        yield "unpin"
    elif not objection(Steering(SteeringKind.PIN, node.id), nodes, course):
        yield "pin"
    yield "restore" if node.id in course.pruned else "prune"
    if not is_told_nothing(run.model):
        yield "hint"


def _uri(path: str) -> str | None:
    """Return the URI of a run's file; None for what is no path, as a transcript may have it."""
    return uri_of(path) if path.startswith("/") and "\0" not in path else None
