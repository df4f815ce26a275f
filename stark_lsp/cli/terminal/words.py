"""Plans, verdicts and statuses in a few words. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from stark_lsp.cli.terminal import figures
from stark_lsp.cli.terminal.console import clean
from stark_lsp.core.phrases import STATUS
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole, RunState
from stark_lsp.core.verdict import Environment

STATE = {
    RunState.PREPARING: "preparing",
    RunState.RUNNING: "running",
    RunState.FINISHED: "finished",
    RunState.CANCELLED: "stopped",
    RunState.INTERRUPTED: "interrupted",
    RunState.FAILED: "failed",
}
"""What a run's state is called on a terminal."""


def title(node: Node) -> str:
    """Return what a node is about."""
    planned = clean(node.plan.title) if node.plan is not None else ""
    if node.role is AgentRole.DEBUG:
        return f"Repair: {planned}" if planned else "Repair"
    return planned or "Attempt"


def variant(plan: Plan | None, before: Plan | None = None, limit: int = 0) -> str:
    """Return what distinguishes a plan, as far as its title does not say it: `threads 2, vector width 8`.

    Parameters
    ----------
    before
        The plan it goes on from; what both have in common is left out.
    limit
        Characters after which it is cut, 0 for never.
    """
    if plan is None:
        return ""
    inherited = before.parameters if before is not None else ()
    told = [
        f"{name} {value}"
        for name, value in plan.parameters
        # The title of a playbook's plan is its strategy in words.
        if (name, value) not in inherited
        and not (name == "strategy" and plan.strategy)
        and not (name in plan.title and value in plan.title)
    ]
    text = clean(", ".join(told))
    return text if not limit or len(text) <= limit else text[: limit - 1].rstrip(" ,") + "…"


def lines(anchors: Iterable[Anchor]) -> str:
    """Return the lines a plan is about, 1-based: `line 12`, `lines 12 to 18 and 30`."""
    spans = sorted({(anchor.span.start + 1, anchor.span.end + 1) for anchor in anchors})
    if not spans:
        return ""
    parts = [str(start) if start == end else f"{start} to {end}" for start, end in spans]
    noun = "line" if len(spans) == 1 and spans[0][0] == spans[0][1] else "lines"
    return f"{noun} {', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else f"{noun} {parts[0]}"


def advice(plan: Plan, limit: int = 320) -> str:
    """Return the first paragraph of an advice as one line, cut at a word."""
    kept: list[str] = []
    for line in clean(plan.advice).strip().splitlines():
        if not line.strip():
            if kept:
                break
            continue
        if line.lstrip().startswith(("#", "```")):
            continue
        kept.append(line.strip())
    text = " ".join(kept).replace("**", "").replace("`", "")
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"


def result(node: Node) -> str:
    """Return what came of a node: `1.42 ms, 2.26x as fast as eager`, or why it failed."""
    verdict = node.verdict
    if verdict is None:
        return "not judged yet"
    if verdict.ok and verdict.runtime_ms is not None:
        text = figures.milliseconds(verdict.runtime_ms)
        gain = verdict.speedup_vs_eager
        return f"{text}, {figures.times(gain.value)} as fast as eager" if gain is not None else text
    why = clean(verdict.message).strip().splitlines()
    return f"{STATUS[verdict.status]}: {why[0]}" if why else STATUS[verdict.status]


def corrected(node: Node) -> str:
    """Return how often a candidate was corrected before its verdict: `corrected once`; empty if it was not."""
    return {0: "", 1: "corrected once", 2: "corrected twice"}.get(
        node.corrections, f"corrected {node.corrections} times"
    )


def device(environment: Environment) -> str:
    """Return where figures were taken: `AMD EPYC 9R14, 2 threads`."""
    if environment.device_type == "cpu":
        return f"{environment.device}, {figures.count(environment.threads, 'thread')}"
    return environment.device


def inputs(environment: Environment) -> str:
    """Return the inputs in short: `8192x1024 float32`."""
    shapes = ", ".join(environment.shapes)
    return f"{shapes} {', '.join(environment.dtypes)}".strip()
