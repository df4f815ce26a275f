"""The plot of a run's attempts: how fast each is, and the best so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stark_lsp.cli.output import outcome
from stark_lsp.cli.page.scales import Scale, log_scale, usable
from stark_lsp.cli.terminal import figures
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import VerdictStatus

WIDTH, HEIGHT = 800, 340
LEFT, RIGHT, TOP, BOTTOM = 56, 700, 16, 256
FAILED_Y = 282
"""Where attempts without a time stand, below the others."""

KINDS = {
    "verified": "verified",
    "unbuilt": "did not build or load",
    "broken": "ended with an error",
    "wrong": "not the original's result",
    "open": "not judged",
}
"""What attempts come to, as far as shape and colour tell it."""
_UNBUILT = {
    VerdictStatus.REFUSED,
    VerdictStatus.COMPILE_ERROR,
    VerdictStatus.LOAD_ERROR,
    VerdictStatus.NO_CANDIDATE,
}
_BROKEN = {
    VerdictStatus.RUNTIME_ERROR,
    VerdictStatus.OUT_OF_MEMORY,
    VerdictStatus.TIMED_OUT,
    VerdictStatus.CRASHED,
}


@dataclass(frozen=True)
class Point:
    """One attempt."""

    node: Node
    x: float
    y: float
    low: float | None = None
    """Where the interval of its speed-up ends below; None if it has no time."""
    high: float | None = None


@dataclass(frozen=True)
class Level:
    """A line across the plot."""

    name: str
    y: float
    above: bool
    """Whether its name stands above it."""


@dataclass(frozen=True)
class AttemptsPlot:
    """All that is drawn."""

    points: tuple[Point, ...]
    steps: str
    """Path of the best so far; empty if nothing was verified."""
    levels: tuple[Level, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]

    @property
    def size(self) -> float:
        """How large the shape of an attempt is: smaller where there are many."""
        return round(min(16.0, max(8.0, 2.5 * (RIGHT - LEFT) / len(self.points))), 1)

    @property
    def untimed(self) -> bool:
        """Whether an attempt has no time."""
        return any(point.low is None for point in self.points)


def kind(node: Node) -> str:
    """Return which of `KINDS` a node is."""
    if node.verdict is None:
        return "open"
    status = node.verdict.status
    if not status.failed:
        return "verified"
    return "unbuilt" if status in _UNBUILT else "broken" if status in _BROKEN else "wrong"


def plot(run: Run, nodes: Mapping[int, Node]) -> AttemptsPlot | None:
    """Return the plot; None while there is no attempt."""
    attempts = [nodes[number] for number in sorted(nodes) if number]
    if not attempts:
        return None
    gains = {node.id: gain for node in attempts if (gain := _gain(node)) is not None}
    compiled = _compile(run, nodes)
    y = log_scale([1.0, compiled or 1.0, *(value for gain in gains.values() for value in gain)], BOTTOM, TOP)
    x = Scale(0.5, max(attempts[-1].id, 2) + 0.5, LEFT, RIGHT)
    points = []
    for node in attempts:
        if node.id in gains:
            points.append(Point(node, x(node.id), *(y(value) for value in gains[node.id])))
        else:
            points.append(Point(node, x(node.id), FAILED_Y))
    # Each name on its own side, so that they never lie on each other.
    levels = [Level("eager", y(1.0), above=compiled is not None and compiled < 1)]
    if compiled is not None:
        levels.append(Level("torch.compile", y(compiled), above=compiled >= 1))
    return AttemptsPlot(
        tuple(points),
        _steps(attempts, gains, x, y),
        tuple(levels),
        tuple((x(tick), f"{tick:.0f}") for tick in x.ticks(12) if tick >= 1),
        tuple((y(tick), figures.times(tick)) for tick in y.ticks(6)),
    )


def _gain(node: Node) -> tuple[float, float, float] | None:
    """Return the speed-up over eager with the ends of its interval; None if there is none that can be drawn."""
    gain = node.verdict.speedup_vs_eager if node.verdict is not None and node.verdict.ok else None
    if gain is None or not usable(gain.low) or not usable(gain.high):
        return None
    return gain.value, gain.low, gain.high


def _compile(run: Run, nodes: Mapping[int, Node]) -> float | None:
    """Return how many times as fast as eager torch.compile is, None if that is not known."""
    if run.reference is None:
        return None
    baselines = outcome.baselines_of(run, nodes)
    eager, compiled = baselines.eager.median_ms, baselines.compile.median_ms if baselines.compile is not None else None
    return eager / compiled if usable(eager) and usable(compiled) else None


def _steps(attempts: list[Node], gains: Mapping[int, tuple[float, float, float]], x: Scale, y: Scale) -> str:
    """Return the path of the best so far, from the first verified attempt to the last one."""
    path, best = "", None
    for node in attempts:
        if node.id in gains and (best is None or node.score < best.score):
            place = y(gains[node.id][0])
            path += f"H{x(node.id)}V{place}" if path else f"M{x(node.id)} {place}"
            best = node
    return f"{path}H{RIGHT}" if path else ""
