"""Numbers as a person reads them. Pure functions."""

from __future__ import annotations

from stark_lsp.core.conversation import Spend
from stark_lsp.core.verdict import Interval, Timing


def milliseconds(ms: float) -> str:
    """Return a duration in the unit that suits it: `38.5 µs`, `1.42 ms`, `2.10 s`."""
    if ms < 1:
        return f"{_three(ms * 1000)} µs"
    if ms < 1000:
        return f"{_three(ms)} ms"
    return f"{_three(ms / 1000)} s"


def timing(value: Timing) -> str:
    """Return a median with its interval in one unit: `1.42 ms (1.40–1.45)`."""
    scale = 1000 if value.median_ms < 1 else 1 if value.median_ms < 1000 else 1 / 1000
    return f"{milliseconds(value.median_ms)} ({_three(value.low_ms * scale)}–{_three(value.high_ms * scale)})"


def times(ratio: float) -> str:
    """Return a speed-up: `2.26x`."""
    return f"{_three(ratio)}x"


def times_interval(ratio: Interval) -> str:
    """Return a speed-up with its interval: `2.26x (2.20–2.31)`."""
    return f"{times(ratio.value)} ({_three(ratio.low)}–{_three(ratio.high)})"


def duration(seconds: float) -> str:
    """Return an elapsed time: `8 s`, `2 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def spend(total: Spend) -> str:
    """Return what a run cost so far: `$0.42`, `31k tokens` where no price is known, empty where nothing was asked."""
    if not total.calls:
        return ""
    if total.dollars > 0 or not total.unpriced:
        return f"${total.dollars:.2f}" + ("+" if total.unpriced else "")
    return f"{total.usage.total / 1000:.0f}k tokens"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 attempt`, `3 attempts`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def _three(value: float) -> str:
    """Return `value` with about three digits, never in exponent form."""
    magnitude = abs(value)
    digits = 0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2
    return f"{value:.{digits}f}"
