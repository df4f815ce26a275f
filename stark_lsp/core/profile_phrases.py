"""A profile and an isolation layer in plain words, wherever a person reads them. Pure functions.

Names of kernels come from the candidate: whoever shows these texts cleans or escapes them.
"""

from __future__ import annotations

from stark_lsp.core.status import IsolationLayer
from stark_lsp.core.verdict import Environment, Launch, Profile

TOP = 5
"""Launches that are told where room is short."""

APART = {
    IsolationLayer.BUBBLEWRAP.value: "kept apart by bubblewrap",
    IsolationLayer.LANDLOCK.value: "kept apart by Landlock",
    IsolationLayer.PROCESS.value: "not kept apart",
}
"""What an isolation layer did for a candidate."""

LIMITS = {
    "memory": "limited by memory traffic",
    "compute": "limited by arithmetic",
    "overhead": "limited by the start of kernels on the GPU and the gaps between them",
}
CPU_OVERHEAD = "limited by the cost of calling operators"

MANY_REGISTERS = 128
"""Registers of a thread worth a word: from here on fewer than a quarter of the threads fit (64 Ki for 2048)."""
FEW_WARPS = 0.5
"""Occupancy below which it is worth a word."""
BEATEN = 1.02
"""Share of what the device can do from which more than noise of the measurement is beyond it."""


def isolation(environment: Environment) -> str:
    """Return whether a candidate was kept apart from the rest of the machine, and by what."""
    return APART.get(environment.isolation, environment.isolation)


def amount(bytes: int) -> str:
    """Return a number of bytes: `512 B`, `64 MiB`, `1.5 GiB`."""
    value, unit = float(bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1023.5:
            break
        value, unit = value / 1024, larger
    text = f"{value:.0f}" if value >= 99.5 or value == round(value) else f"{value:.1f}"
    return f"{text} {unit}"


def duration(us: float) -> str:
    """Return microseconds in the unit that suits them: `38.5 µs`, `1.42 ms`."""
    if us < 999.5:
        return f"{three(us)} µs"
    return f"{three(us / 1e3)} ms" if us < 999.5e3 else f"{three(us / 1e6)} s"


def traffic(profile: Profile, environment: Environment | None = None) -> str:
    """Return what must move and how well the runtime uses the device; empty if unknown.

    For instance `has 64 MiB to move, 78 % of this GPU's bandwidth`.
    """
    parts = []
    whose = "this CPU's" if environment is not None and environment.device_type == "cpu" else "this GPU's"
    if profile.bytes:
        parts.append(f"has {amount(profile.bytes)} to move")
    if profile.bandwidth_share is not None:
        parts.append(f"{_percent(profile.bandwidth_share)} of {whose} bandwidth")
    if _outdone(profile):
        parts.append(f"faster than the original's products at {whose} arithmetic rate")
    elif profile.compute_share is not None and profile.flops:
        parts.append(f"{_percent(profile.compute_share)} of {whose} arithmetic rate")
    return ", ".join(parts)


def _outdone(profile: Profile) -> bool:
    """Whether it does fewer operations than the original, or does them by faster units than are counted on."""
    return bool(profile.flops) and (profile.compute_share or 0.0) > BEATEN


def least(profile: Profile) -> str:
    """Return how long the device needs for all that is to be read, computed and written; empty if unknown.

    Not what any version needs: one that never loads what a mask removes is faster.
    """
    if profile.floor_us is None:
        return ""
    work = "moving that once, with the original's products," if profile.flops else "moving that once"
    text = f"{work} takes {duration(profile.floor_us)} at this device's measured rates"
    if max(profile.bandwidth_share or 0.0, profile.compute_share or 0.0) > BEATEN:
        return f"{text}; this one needs less"
    return text


def limit(profile: Profile, environment: Environment | None = None) -> str:
    """Return what limits it most; empty if unknown."""
    if profile.bound == "overhead" and environment is not None and environment.device_type == "cpu":
        return CPU_OVERHEAD
    if profile.bound == "compute" and _outdone(profile):
        return ""
    return LIMITS.get(profile.bound, "")


def summary(profile: Profile, environment: Environment | None = None) -> str:
    """Return traffic and limit as one line; empty if neither is known."""
    return ", ".join(text for text in (traffic(profile, environment), limit(profile, environment)) if text)


def remarks(launch: Launch) -> str:
    """Return what is notable about a launch besides its time: spills, many registers, few warps; empty if nothing."""
    parts = []
    if launch.spill_bytes:
        parts.append(f"spills {amount(launch.spill_bytes)} a thread")
    if launch.registers is not None and launch.registers >= MANY_REGISTERS:
        parts.append(f"{launch.registers} registers")
    if launch.occupancy is not None and launch.occupancy < FEW_WARPS:
        parts.append(f"{_percent(launch.occupancy)} of the warps fit")
    return ", ".join(parts)


def rest(profile: Profile) -> str:
    """Return what the launches beyond the first `TOP` come to; empty if there are none."""
    others = profile.launched[TOP:]
    if not others:
        return ""
    return f"and {len(others)} more, {duration(sum(launch.time_us for launch in others))} together"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.095 or share == 0 else f"{share * 100:.2g} %"


def three(value: float) -> str:
    """Return a figure with about three digits, never in exponent form."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f}"
