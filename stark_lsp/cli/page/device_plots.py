"""Plots of what the device can do: the time of one call beside what it takes at least, and the roofline.

The roofline is that of Williams, Waterman and Patterson (CACM 52(4), 2009), for the reference's bytes and operations:
whoever needs fewer of them stands above its roof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stark_lsp.cli.output import outcome
from stark_lsp.cli.page.scales import MOST, Scale, log_scale, spread, usable
from stark_lsp.core import profile_phrases as phrases
from stark_lsp.core.run import Node, Run

CANDIDATES = 6
"""The fastest ones that are drawn."""

WIDTH, ROW = 800, 34
NAMES, END = 100, 420
"""Where the bars begin, and where the longest one ends."""

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 320, 84, 620, 28, 270
"""Of the roofline."""


@dataclass(frozen=True)
class Call:
    """What one call of somebody takes."""

    name: str
    us: float
    device_us: float | None = None
    """What its kernels take of that; None on a CPU, or if it is not known."""
    node: int | None = None
    best: bool = False

    @property
    def time(self) -> str:
        """The time in its unit."""
        return phrases.duration(self.us)

    @property
    def spent(self) -> str:
        """The time, and where it is spent as far as that is known."""
        if self.device_us is None:
            return self.time
        left = phrases.duration(max(0.0, self.us - self.device_us))
        return f"{self.time}: {phrases.duration(self.device_us)} on the device, {left} launch overhead"


@dataclass(frozen=True)
class Device:
    """What the reference must move and compute, and what that takes this device at its measured rates."""

    bytes: int
    memory_us: float
    flops: int
    compute_us: float | None
    """None if there are no products, or their rate is not known."""


@dataclass(frozen=True)
class Bar:
    """A call as a bar."""

    call: Call
    y: float
    width: float
    device_width: float | None


@dataclass(frozen=True)
class Mark:
    """A figure of the device at its place on an axis."""

    text: str
    x: float


@dataclass(frozen=True)
class CallsPlot:
    """Bars, and what the device takes at least."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    height: int


@dataclass(frozen=True)
class Dot:
    """A call in the roofline."""

    call: Call
    y: float
    label_y: float


@dataclass(frozen=True)
class RooflinePlot:
    """The roofs, and calls below them; all have the reference's operations for each byte."""

    roof: str
    """Path of the roof."""
    x: float
    dots: tuple[Dot, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    ridge: str
    """What the roof is, in words."""


def calls(run: Run, nodes: Mapping[int, Node]) -> list[Call]:
    """Return eager, torch.compile and the fastest candidates as of one moment; nothing if no profile was taken."""
    if run.reference is None or run.reference.profile is None:
        return []
    best, baselines = outcome.proposed(run, nodes), outcome.baselines_of(run, nodes)
    gpu = run.reference.environment.device_type == "cuda"
    found = [Call("eager", 1e3 * baselines.eager.median_ms, run.reference.profile.device_us if gpu else None)]
    if baselines.compile is not None:
        found.append(Call("torch.compile", 1e3 * baselines.compile.median_ms))
    verified = [node for node in nodes.values() if node.id and node.verdict is not None and node.verdict.ok]
    fastest = sorted(verified, key=lambda node: (node is not best, node.score))[:CANDIDATES]
    for node in sorted(fastest, key=lambda node: node.score):
        assert node.verdict is not None
        us = own = 1e3 * (node.verdict.runtime_ms or 0.0)
        gain = node.verdict.speedup_vs_eager
        if node is not best and gain is not None and usable(gain.value) and usable(own):
            # Times of other moments do not compare; what it takes beside this eager follows from its ratio.
            us = found[0].us / gain.value
        device_us = node.verdict.profile.device_us if node.verdict.profile is not None and gpu else None
        if device_us is not None and usable(own):
            device_us *= us / own
        found.append(Call(f"attempt {node.id}", us, device_us, node.id, node is best))
    return [call for call in found if usable(call.us)]


def device(run: Run) -> Device | None:
    """Return what the reference's profile tells of the device; None if it does not."""
    profile = run.reference.profile if run.reference is not None else None
    if profile is None or not usable(profile.floor_us) or not usable(profile.bandwidth_share):
        return None
    moved, flops = (count if count and 0 < count < MOST**1.5 else 0 for count in (profile.bytes, profile.flops))
    if not moved:
        return None
    # Both are shares of one runtime, and what takes longer is the floor.
    memory, compute = profile.bandwidth_share, profile.compute_share if flops else None
    longest = profile.floor_us / max(memory, compute or 0.0)
    return Device(moved, longest * memory, flops, longest * compute if usable(compute) else None)


def calls_plot(shown: list[Call], what: Device | None) -> CallsPlot | None:
    """Return the bars; None where there is nothing to draw."""
    if not shown:
        return None
    x = Scale(0.0, max(call.us for call in shown), NAMES, END)
    bars = []
    for row, call in enumerate(shown):
        part = min(call.device_us, call.us) if call.device_us is not None else None
        width = x(part) - NAMES if part is not None else None
        bars.append(Bar(call, float(row * ROW), round(x(call.us) - NAMES, 1), width))
    marks = tuple(Mark(text, x(us)) for text, us in _least(what) if us <= x.high)
    return CallsPlot(tuple(bars), marks, len(bars) * ROW)


def _least(what: Device | None) -> Iterator[tuple[str, float]]:
    """Yield what the device takes for all that is to be moved and computed."""
    if what is not None:
        yield f"moving {phrases.amount(what.bytes)} once: {phrases.duration(what.memory_us)}", what.memory_us
    if what is not None and what.compute_us is not None:
        yield f"the original's products: {phrases.duration(what.compute_us)}", what.compute_us


def roofline_plot(shown: list[Call], what: Device | None) -> RooflinePlot | None:
    """Return the roofline; None where the reference has no products, or the device's rates are not known."""
    if not shown or what is None or what.compute_us is None:
        return None
    # In billions a second.
    bandwidth, rate = what.bytes / what.memory_us / 1e3, what.flops / what.compute_us / 1e3
    intensity, ridge = what.flops / what.bytes, rate / bandwidth
    achieved = [what.flops / call.us / 1e3 for call in shown]
    y = log_scale([rate, *achieved], BOTTOM, TOP, room=2.5)
    x = log_scale([intensity, ridge], LEFT, RIGHT, room=4.0)
    places = [y(value) for value in achieved]
    # The slope begins where it enters the plot, at the left or at the bottom.
    first = max(x.low, y.low / bandwidth)
    roof = f"M{x(first)} {y(first * bandwidth)}L{x(ridge)} {y(rate)}H{RIGHT}"
    return RooflinePlot(
        roof,
        x(intensity),
        tuple(map(Dot, shown, places, spread(places, 15.0))),
        tuple((x(tick), f"{tick:g}") for tick in x.ticks(6)),
        tuple((y(tick), f"{tick:,.6g}") for tick in y.ticks(6)),
        f"{bandwidth:,.0f} GB/s of memory, {rate:,.0f} GFLOP/s of arithmetic",
    )
