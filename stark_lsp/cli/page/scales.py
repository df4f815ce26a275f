"""Where a figure stands in a plot. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

MOST = 1e12
"""Figures beyond this, or below its inverse, are nobody's measurement: imported runs may hold anything."""


def usable(value: float | None) -> TypeGuard[float]:
    """Whether a figure can be drawn on a logarithmic scale."""
    return value is not None and 1 / MOST < value < MOST


@dataclass(frozen=True)
class Scale:
    """A straight or logarithmic scale from figures to places; what lies beyond its ends is drawn at them."""

    low: float
    high: float
    start: float
    """Where `low` is drawn."""
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a figure."""
        low, high, value = (math.log(each) if self.log else each for each in (self.low, self.high, value))
        share = (min(max(value, low), high) - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, most: int = 8) -> list[float]:
        """Return round figures to mark, at most about `most`."""
        if not self.log:
            step = _step((self.high - self.low) / most)
            first = math.ceil(self.low / step)
            return [step * number for number in range(first, math.floor(self.high / step * (1 + 1e-9)) + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for digits in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
            every = [digit * 10.0**power for power in powers for digit in digits]
            found = [value for value in every if self.low <= value <= self.high]
            if len(found) <= most:
                return found
        return found[:: math.ceil(len(found) / most)]


def log_scale(values: Iterable[float], start: float, end: float, room: float = 1.15) -> Scale:
    """Return a logarithmic scale that holds all values, with some room at both ends."""
    kept = [value for value in values if usable(value)] or [1.0]
    return Scale(min(kept) / room, max(kept) * room, start, end, log=True)


def _step(rough: float) -> float:
    """Return the next larger of 1, 2, 5, 10, …"""
    power = 10.0 ** math.floor(math.log10(max(rough, 1.0)))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= max(rough, 1.0))


def spread(places: Iterable[float], apart: float) -> list[float]:
    """Return places for labels, each as near to its own as others allow that stand `apart` from it, in order."""
    wanted = list(places)
    found = dict.fromkeys(range(len(wanted)), 0.0)
    last = -math.inf
    for index in sorted(found, key=lambda each: wanted[each]):
        last = found[index] = max(wanted[index], last + apart)
    return [found[index] for index in range(len(wanted))]
