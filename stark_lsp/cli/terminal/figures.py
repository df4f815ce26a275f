"""Numbers as a person reads them. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stark_lsp.core.profile_phrases import duration as microseconds
from stark_lsp.core.profile_phrases import three

if TYPE_CHECKING:
    from stark_lsp.core.conversation import Spend
    from stark_lsp.core.verdict import Interval, Timing


def milliseconds(ms: float) -> str:
    """Return a duration in the unit that suits it: `38.5 µs`, `1.42 ms`, `2.10 s`."""
    return microseconds(ms * 1000)


def timing(value: Timing) -> str:
    """Return a median with its interval in one unit: `1.42 ms (1.40–1.45)`."""
    scale = 1000 if value.median_ms < 0.9995 else 1 if value.median_ms < 999.5 else 1 / 1000
    return f"{milliseconds(value.median_ms)} ({three(value.low_ms * scale)}–{three(value.high_ms * scale)})"


def times(ratio: float) -> str:
    """Return a speed-up: `2.26x`."""
    return f"{three(ratio)}x"


def times_interval(ratio: Interval) -> str:
    """Return a speed-up with its interval: `2.26x (2.20–2.31)`."""
    return f"{times(ratio.value)} ({three(ratio.low)}–{three(ratio.high)})"


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
