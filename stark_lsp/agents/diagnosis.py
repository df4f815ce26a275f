"""Diagnosis: what limits a call, worked out from its profile and what the device was measured to do. Pure functions.

The model is the roofline (Williams, Waterman and Patterson, CACM 52(4), 2009), with the time of launches beside it and,
where the driver permits them, hardware counters of the longest kernel.
Figures that contradict each other are left out: times of kernels that come to more than the call, as on a machine that
others use, and rates that do not follow from the device's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import Enum

from stark_lsp.agents import hardware
from stark_lsp.agents.texts import one_line
from stark_lsp.contract.counters import Counter
from stark_lsp.core.device import Device
from stark_lsp.core.profile_phrases import BEATEN, amount, duration, limit, remarks
from stark_lsp.core.verdict import Environment, Launch, Profile, Timing

MOST = 6
"""Sentences of a diagnosis."""
OVER = 1.25
"""Launches that take so much longer together than the call do not add up; on a GPU some overlap."""
APART = 0.1
"""By how much a share may differ from what bytes, time and bandwidth come to."""
GAP = 0.1
"""Share of a call in which a GPU does nothing, from which on it is told."""
LOOPS = 3
"""Scalar loops that are named."""
IDLE = 0.5
"""Of this share of a call on, launches are what limits it;"""
WAITING, SEVERAL = 0.25, 8
"""of this one on, where it has so many: fewer of them, or a graph, gain more than a faster kernel."""
_NAME = 100
_PRODUCT = re.compile(r"aten::(mm|addmm|bmm|baddbmm|linear|\w*convolution\w*)$|gemm|cutlass")
_GRID = re.compile(r"(\d+)x(\d+)x(\d+)")


class Bottleneck(Enum):
    """What limits a call."""

    MEMORY = "memory"
    COMPUTE = "compute"
    OVERHEAD = "overhead"
    """Launches, and the gaps between them."""
    LATENCY = "latency"
    """None of these: intermediate tensors, arithmetic other than products, waiting."""


_BUSY = {
    Bottleneck.MEMORY: "So it is limited by memory traffic, of which there is more than inputs, weights and outputs.",
    Bottleneck.COMPUTE: "So it is limited by what its multiprocessors issue and compute.",
}
"""What counters show of a call whose profile shows no limit."""


@dataclass(frozen=True)
class Diagnosis:
    """What a profile says of a call."""

    sentences: tuple[str, ...] = ()
    """At most `MOST`, with the figures behind them."""
    bottleneck: Bottleneck | None = None
    """None where the figures do not tell."""


def adds_up(profile: Profile, runtime: Timing | None) -> bool:
    """Whether the times of kernels fit into the call."""
    return runtime is None or _total(profile) <= OVER * runtime.median_ms * 1e3


def diagnose(
    profile: Profile | None, runtime: Timing | None, environment: Environment | None, device: Device | None
) -> Diagnosis:
    """Return what limits a call.

    Parameters
    ----------
    profile, runtime
        Of the call.
    environment
        Where it ran.
    device
        What the device was measured to do; without it shares are told, and no rates.
    """
    if profile is None or runtime is None or runtime.median_ms <= 0 or not adds_up(profile, runtime):
        return Diagnosis()
    call_us = runtime.median_ms * 1e3
    on_gpu = environment is not None and environment.device_type != "cpu"
    counted = hardware.figures(profile) if on_gpu else {}
    moved = _moved(profile, call_us, device)
    done = _done(profile, call_us)
    found = [_longest(profile, on_gpu=on_gpu), _hindered(profile, device, counted) if on_gpu else _scalar(profile)]
    found.append(hardware.at_work(counted))
    known = bool(moved) and (bool(done) or not profile.flops)
    found += [_idle(profile, call_us) if on_gpu else "", moved, done, _floor(profile, call_us) if known else ""]
    bottleneck = _bottleneck(profile, call_us, on_gpu=on_gpu) if moved or done or profile.bound == "overhead" else None
    busy = _busy(profile, counted) if bottleneck is Bottleneck.LATENCY else None
    last = _BUSY[busy] if busy is not None else _limit(profile, environment, bottleneck)
    bottleneck = busy or bottleneck
    told = [one for one in found if one][: MOST - bool(last)]
    return Diagnosis((*told, last) if last else tuple(told), bottleneck)


def _total(profile: Profile) -> float:
    return sum(launch.time_us for launch in profile.launched)


def _longest(profile: Profile, *, on_gpu: bool) -> str:
    """Say which kernel takes how much of all."""
    total = _total(profile)
    if not profile.launched or total <= 0:
        return ""
    longest = profile.launched[0]
    what = "kernels" if on_gpu else "operators"
    share = _percent(longest.time_us / total)
    return f"Its {what} take {duration(total)} together, of which {share} is {_named(longest)}."


def _hindered(profile: Profile, device: Device | None, counted: dict[str, float]) -> str:
    """Say what keeps the longest kernel from filling the device."""
    if not profile.launched:
        return ""
    longest = profile.launched[0]
    told = remarks(replace(longest, occupancy=None) if counted else longest)
    parts = [*([told] if told else []), *hardware.access(counted)]
    grid = _GRID.fullmatch(longest.grid)
    blocks = math.prod(map(int, grid.groups())) if grid else 0
    processors = device.processors if device is not None else None
    if blocks and processors and blocks < processors:
        parts.append(f"its {blocks} blocks leave {processors - blocks} of {processors} multiprocessors without work")
    return f"That kernel: {'; '.join(parts)}." if parts else ""


def _scalar(profile: Profile) -> str:
    """Say which loops the compiler did not vectorize."""
    loops = [f"`{one_line(loop, _NAME).replace('`', '')}`" for loop in profile.scalar_loops[:LOOPS]]
    if not loops:
        return ""
    more = len(profile.scalar_loops) - len(loops)
    return f"The compiler left these loops scalar: {', '.join(loops)}{f' and {more} more' if more else ''}."


def _idle(profile: Profile, call_us: float) -> str:
    """Say how long the GPU does nothing."""
    total, launches = _total(profile), sum(launch.count for launch in profile.launched)
    if total <= 0 or call_us - total < GAP * call_us:
        return ""
    rest = f"{duration(call_us - total)} of the {duration(call_us)} of a call ({_percent(1 - total / call_us)})"
    return f"No kernel runs in {rest}, before and between its {launches} launches."


def _moved(profile: Profile, call_us: float, device: Device | None) -> str:
    """Say which bandwidth is reached."""
    share, bandwidth = profile.bandwidth_share, device.bandwidth if device is not None else None
    if not profile.bytes or share is None:
        return ""
    reached = profile.bytes / call_us * 1e6
    if bandwidth is None:
        return f"{_inputs(profile.bytes)}, which uses {_percent(share)} of the bandwidth that a large copy reaches."
    if abs(reached / bandwidth - share) > APART * share:
        return ""
    beyond = ", with the help of caches or masks" if share > BEATEN else ""
    of = f"{_percent(share)} of the {_rate(bandwidth, 'B/s')} that a large copy reaches here"
    return f"{_inputs(profile.bytes)}: {_rate(reached, 'B/s')} over the call, {of}{beyond}."


def _inputs(bytes: int) -> str:
    return f"Inputs, weights and outputs, once each, are {amount(bytes)}"


def _done(profile: Profile, call_us: float) -> str:
    """Say which arithmetic rate is reached by the original's products."""
    share = profile.compute_share
    if not profile.flops or not share:
        return ""
    reached = profile.flops / call_us * 1e6
    what = f"The original's products are {_rate(profile.flops, 'FLOP')}: {_rate(reached, 'FLOP/s')} over the call"
    if share > BEATEN:
        more = "more than large ones of its dtype reached when the device was measured"
        return f"{what}, {more}: it does fewer operations, or by faster units, or the device was busy then."
    return f"{what}, {_percent(share)} of the {_rate(reached / share, 'FLOP/s')} that large ones of its dtype reach."


def _floor(profile: Profile, call_us: float) -> str:
    """Say how far it is from what the device needs at least."""
    if not profile.floor_us or profile.floor_us > call_us:
        return ""
    work = "moving that and computing the products" if profile.flops else "moving that"
    least = f"At these rates {work} takes {duration(profile.floor_us)}"
    times = call_us / profile.floor_us
    return f"{least}, and the call {times:.{0 if times >= 9.95 else 1}f} times as long."


def _bottleneck(profile: Profile, call_us: float, *, on_gpu: bool) -> Bottleneck:
    busy = on_gpu and _total(profile) > IDLE * call_us
    launches = sum(launch.count for launch in profile.launched)
    if on_gpu and launches >= SEVERAL and _total(profile) < (1 - WAITING) * call_us:
        return Bottleneck.OVERHEAD
    if profile.bound and not (busy and profile.bound == "overhead"):
        return Bottleneck(profile.bound)
    return Bottleneck.LATENCY


def _busy(profile: Profile, counted: dict[str, float]) -> Bottleneck | None:
    """Return what counters show to be busy, if that kernel takes most of the time."""
    if not counted or profile.launched[0].time_us < 0.5 * _total(profile):
        return None
    memory, compute = (counted.get(name.value, 0.0) for name in (Counter.MEMORY, Counter.COMPUTE))
    if max(memory, compute) < hardware.BUSY:
        return None
    return Bottleneck.MEMORY if memory >= compute else Bottleneck.COMPUTE


def _limit(profile: Profile, environment: Environment | None, bottleneck: Bottleneck | None) -> str:
    if bottleneck is Bottleneck.LATENCY and profile.metrics:
        return "So no unit is busy there: what comes first is how it reaches memory, and what its warps wait for."
    if bottleneck is Bottleneck.LATENCY:
        products = sum(launch.time_us for launch in profile.launched if _PRODUCT.search(launch.name))
        if products > 0.5 * _total(profile):
            return "So most of its time goes into products, which run below the rate of large ones."
        return "So most of its time goes elsewhere: into intermediate tensors, other arithmetic, or waiting."
    if bottleneck is None:
        return ""
    if bottleneck is Bottleneck.OVERHEAD and profile.bound != bottleneck.value:
        return "So fewer launches, or one CUDA graph of all of them, come before faster kernels."
    words = limit(profile, environment)
    return f"So it is {words}." if words else ""


def _named(launch: Launch) -> str:
    times = f"{launch.count} times " if launch.count != 1 else ""
    return f"{times}`{one_line(launch.name, _NAME).replace('`', '')}`"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.2g} %"


def _rate(value: float, unit: str) -> str:
    """Return a rate with three digits: `1.42 TB/s`, `38.5 GFLOP`."""
    factor, prefix = next(((f, p) for f, p in ((1e12, "T"), (1e9, "G")) if value >= 0.9995 * f), (1e6, "M"))
    scaled = value / factor
    return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f} {prefix}{unit}"
