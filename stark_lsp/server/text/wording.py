"""Figures, verdicts and plans in a few words for hovers and messages. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stark_lsp.cli.terminal import figures
from stark_lsp.core.phrases import STATUS, caveat
from stark_lsp.core.profile_phrases import three

if TYPE_CHECKING:
    from stark_lsp.core.errors import StarkError
    from stark_lsp.core.plan import Plan
    from stark_lsp.core.run import Node
    from stark_lsp.core.verdict import Environment, Interval, Verdict


def times(ratio: Interval) -> str:
    """Return a speed-up with its interval: `2.26x (2.20 to 2.31)`."""
    return f"{figures.times(ratio.value)} ({three(ratio.low)} to {three(ratio.high)})"


def gain(verdict: Verdict | None) -> Interval | None:
    """Return the speed-up over eager of a verified node, None for any other."""
    return verdict.speedup_vs_eager if verdict is not None and verdict.ok else None


def outcome(node: Node | None) -> str:
    """Return in a few words of our own what came of a node; nothing the candidate printed is in it."""
    if node is None or node.verdict is None:
        return "under way"
    verdict = node.verdict
    if not verdict.ok:
        return STATUS[verdict.status]
    text = figures.milliseconds(verdict.runtime.median_ms) if verdict.runtime is not None else "verified"
    if verdict.speedup_vs_eager is not None:
        text += f", {times(verdict.speedup_vs_eager)} vs eager"
    if only := caveat(verdict):
        text += f", {only}"
    if verdict.speedup_vs_compile is not None:
        text += f", {times(verdict.speedup_vs_compile)} vs torch.compile"
    return text if verdict.weights_loaded else f"{text}, only with weights of the same seed"


def parameters(plan: Plan | None) -> str:
    """Return what distinguishes a variant: `threads 2, vector width 8`."""
    return ", ".join(f"{name} {value}" for name, value in plan.parameters) if plan is not None else ""


def lineage(number: int, nodes: Mapping[int, Node]) -> str:
    """Return a node's ancestors: `7 ← 3 ← 0 (your class)`."""
    chain: list[str] = []
    current: int | None = number
    while current is not None and len(chain) < 64:
        chain.append("0 (your class)" if current == 0 else str(current))
        current = nodes[current].parent if current in nodes else None
    return " ← ".join(chain)


def device(environment: Environment) -> str:
    """Return where figures were taken: `AMD EPYC 9R14, 2 threads; torch 2.13.0; 8192x1024 float32`."""
    parts = [environment.device]
    if environment.device_type == "cpu":
        parts[0] += f", {figures.count(environment.threads, 'thread')}"
    elif environment.cuda:
        parts.append(f"CUDA {environment.cuda}")
    parts.append(f"torch {environment.torch}")
    shapes = ", ".join(environment.shapes)
    if shapes:
        parts.append(f"{shapes} {', '.join(environment.dtypes)}".strip())
    return "; ".join(parts)


def best_of(nodes: Iterable[Node]) -> Node | None:
    """Return the verified node with the largest speed-up, None if none is verified."""
    verified = [(gained.value, -node.id, node) for node in nodes if (gained := gain(node.verdict)) is not None]
    return max(verified)[2] if verified else None


def roughly(seconds: float) -> str:
    """Return a time that nobody knows exactly: `a few seconds`, `about 40 s`, `about 5 min`, `about 2 h`."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {round(seconds, -1):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 90 * 60 else f"about {seconds / 3600:.0f} h"


def sentence(error: StarkError) -> str:
    """Return what is wrong and the cure."""
    text = error.message
    if text.partition(" ")[0] in ("the", "this", "there", "no", "a", "an"):  # and not the name of something
        text = text[0].upper() + text[1:]
    return f"{text} {error.cure}".strip()


def trouble(error: StarkError) -> str:
    """Return an error as a message: what, the cure, where; a path is long, and a message may be cut."""
    where = "" if error.path is None else error.path if error.line is None else f"{error.path}, line {error.line}"
    return f"STARK: {sentence(error)} ({where})" if where else f"STARK: {sentence(error)}"
