"""Hover over an anchor: the plan, what came of it, and how that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.cli.terminal import figures
from stark_lsp.core import profile_phrases as phrases
from stark_lsp.core.problem import Span
from stark_lsp.server.features.diagnostics import message, places
from stark_lsp.server.text import spending, wording
from stark_lsp.server.text.markup import code, escaped, tamed, unmarked
from stark_lsp.server.text.positions import trimmed_range

if TYPE_CHECKING:
    from stark_lsp.core.run import Node
    from stark_lsp.core.verdict import Reference, Verdict
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.runs.views import AnchoredPlan, RunView

ATTEMPTS = 8
"""Attempts listed for one place; the best ones and the newest failures."""
NOTES = 6
"""Notes on one attempt's figures."""


def describe(view: RunView, plans: list[AnchoredPlan]) -> str:
    """Return the Markdown for one place of one run."""
    _, chosen = message(view, plans)
    lines = [f"**STARK: {escaped(chosen.plan.title, 160)}**", ""]
    note = chosen.anchor.note.strip()
    if note and note not in chosen.plan.advice:
        lines += [tamed(note, 600), ""]
    # What came of it first: an advice is long, and editors show the top of a hover.
    lines += ["**Attempts**", ""]
    shown = _shown(view, plans)
    lines += [_attempt(view, item) for item in shown]
    if len(plans) > len(shown):
        lines.append(f"- and {len(plans) - len(shown)} more")
    if (one := view.asked.get(chosen.node)) is not None:
        lines += ["", f"**Answered by** {escaped(spending.answered(one), 160)}"]
    if told := _told(view, chosen.node):
        lines += ["", f"**You** {told}"]
    result = view.nodes.get(chosen.node)
    if result is not None and result.verdict is not None:
        lines += _evidence(result.verdict)
    lines += ["", tamed(chosen.plan.advice).strip()]
    lines += ["", f"**Lineage** {wording.lineage(chosen.node, view.nodes)}"]
    if view.reference is not None:
        lines += ["", *_baselines(view.reference, result.verdict if result is not None else None)]
    state = f"paused, {view.status}" if view.paused else view.status
    lines += [
        "",
        f"Run {code(view.id)} with {escaped(spending.who(view.run.model, view.asked), 160)} · {escaped(state)}",
    ]
    return "\n".join(lines)


def hover_at(views: list[RunView], line: int) -> tuple[str, list[tuple[int, int]]] | None:
    """Return the Markdown for a line and the (first, last) lines it is about; None where no anchor is."""
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    for view in views:
        # The smallest place first: that is the one the user points at.
        here = sorted((p for p in places(view.anchored()) if line in p[0]), key=lambda p: p[0].end - p[0].start)
        for span, plans in here[:2]:
            parts.append(describe(view, plans))
            spans.append((span.start, span.end))
    return ("\n\n---\n\n".join(parts), spans) if parts else None


def _shown(view: RunView, plans: list[AnchoredPlan]) -> list[AnchoredPlan]:
    def order(item: AnchoredPlan) -> tuple[float, int]:
        node = view.nodes.get(item.node)
        interval = wording.gain(node.verdict) if node is not None else None
        return (-interval.value if interval is not None else 0.0, -item.node)

    return sorted(plans, key=order)[:ATTEMPTS]


def _attempt(view: RunView, item: AnchoredPlan) -> str:
    node: Node | None = view.nodes.get(item.node)
    text = f"- {item.node}: {wording.outcome(node)}"
    variant = wording.parameters(item.plan)
    if variant:
        text += f" · {escaped(variant, 120)}"
    for remark in (item.plan.remark, node.candidate.remark if node is not None else ""):
        text += f" · {escaped(remark, 200)}" if remark else ""
    if node is not None and node.verdict is not None and not node.verdict.ok and node.verdict.message:
        text += f" · {code(node.verdict.message, 200)}"
    return text


def _evidence(verdict: Verdict) -> list[str]:
    """Return what an attempt launches, how close that comes to the device, and what kept it apart."""
    lines: list[str] = []
    profile, environment = verdict.profile, verdict.environment
    if profile is not None and profile.launched:
        lines += ["", "**Launched**", ""]
        for launch in profile.launched[: phrases.TOP]:
            times = f"{launch.count} x " if launch.count > 1 else ""
            told = phrases.remarks(launch)
            lines.append(
                f"- {times}{code(launch.name, 80)} {phrases.duration(launch.time_us)}{f' · {told}' if told else ''}"
            )
        others = phrases.rest(profile)
        lines += [f"- {others}"] if others else []
    summary = phrases.summary(profile, environment) if profile is not None else ""
    if summary:
        lines += ["", f"**Profile** {summary}"]
    if profile is not None and profile.metrics:
        figures = [
            f"{escaped(one.name, 40)} {one.value:.3g} {escaped(one.unit, 10)}".rstrip() for one in profile.metrics
        ]
        lines += ["", f"**Counters** {' · '.join(figures)}"]
    if environment is not None:
        lines += ["", f"**Isolation** {escaped(phrases.isolation(environment), 80)}"]
    notes = (*verdict.notes, *(profile.notes if profile is not None else ()))
    return lines + [f"\n{escaped(note)}" for note in list(dict.fromkeys(notes))[:NOTES]]


def _told(view: RunView, node: int) -> str:
    """Return what the user told the run about a node."""
    course, parts = view.course, []
    if course.pinned == node:
        parts.append("had the run go on from this attempt")
    if node in course.pruned:
        parts.append("gave this branch up")
    parts += [f"told the agents {code(hint.text, 200)}" for hint in course.hints if hint.node == node]
    return "; ".join(parts)


def _baselines(reference: Reference, verdict: Verdict | None) -> list[str]:
    baselines = reference.baselines if verdict is None else verdict.baselines(reference.baselines)
    eager = f"eager {figures.milliseconds(baselines.eager.median_ms)}"
    if baselines.compile is not None:
        compiled = f"torch.compile {figures.milliseconds(baselines.compile.median_ms)}"
    else:
        why = escaped(baselines.compile_message, 160)
        compiled = f"torch.compile not timed{f': {why}' if why else ''}"
    lines = [
        f"**Baselines** {eager} · {compiled}",
        "",
        f"**Measured on** {escaped(wording.device(reference.environment))}",
    ]
    return lines + [f"\n{escaped(note)}" for note in reference.notes]


def register(server: StarkServer, desk: Desk) -> None:
    """Answer `textDocument/hover`."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        place = server.notebooks.place(params.text_document.uri)
        views = desk.at(place.document.uri) if place is not None else []
        if place is None or not views:
            return None
        found = hover_at(views, params.position.line + place.first)
        if found is None:
            return None
        text, spans = found
        if server.facts.markdown:
            contents = types.MarkupContent(types.MarkupKind.Markdown, text)
        else:
            contents = types.MarkupContent(types.MarkupKind.PlainText, unmarked(text))
        lines = place.document.lines
        return types.Hover(contents, place.out(trimmed_range(lines, Span(*spans[0]), server.documents.units)))
