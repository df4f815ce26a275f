"""Figures as a person reads them: at most three significant digits."""

from __future__ import annotations


def three_digits(value: float) -> str:
    """Return a number with at most three significant digits: `96`, `1.23`, `1240`."""
    if abs(value) >= 999.5:
        digits = len(str(int(abs(value)))) - 3
        return str(round(value, -digits)).partition(".")[0]
    return f"{float(f'{value:.3g}'):g}"


def duration(milliseconds: float) -> str:
    """Return a time: `96 ms`, `1.23 ms`, `38 µs`, `1.2 s`."""
    if abs(milliseconds) >= 999.5:
        return f"{three_digits(milliseconds / 1e3)} s"
    if abs(milliseconds) >= 0.9995 or milliseconds == 0:
        return f"{three_digits(milliseconds)} ms"
    if abs(milliseconds) >= 9.995e-4:
        return f"{three_digits(milliseconds * 1e3)} µs"
    return "less than 1 µs"


def size(mib: float) -> str:
    """Return an amount of memory: `576 MiB`, `1.5 GiB`, `12 KiB`."""
    if mib >= 999.5:
        return f"{three_digits(mib / 1024)} GiB"
    if mib >= 0.1 or mib == 0:
        return f"{three_digits(mib)} MiB"
    return f"{three_digits(mib * 1024)} KiB"
