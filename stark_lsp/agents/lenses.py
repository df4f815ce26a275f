"""Lenses: ways to look at a kernel, taken in turns where a model's temperature cannot make plans differ.

They stand in `prompts/lenses.md`: a heading for each, its text below. A user may override that file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

_HEADING = re.compile(r"^#\s+(.+?)\s*$", re.MULTILINE)

FILE = "lenses.md"
"""Their file in the prompt library."""


@dataclass(frozen=True)
class Lens:
    """One way to look at a kernel."""

    name: str
    text: str


def read_lenses(text: str) -> tuple[Lens, ...]:
    """Return the lenses of a file, in its order; what stands above the first heading is left out."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)][: len(headings)]
    return tuple(
        Lens(heading[1], text[heading.end() : end].strip()) for heading, end in zip(headings, ends, strict=True)
    )


def choose(lenses: Sequence[Lens], seed: int, attempt: int, used: Collection[str] = ()) -> Lens | None:
    """Return the lens of an attempt; None if there are none.

    Attempts take turns through an order that the seed decides, so that a run replays and attempts in flight differ.
    A lens that was used on the same node is skipped until all were.

    Parameters
    ----------
    seed
        Of the run.
    attempt
        Id of the attempt's node.
    used
        Names of the lenses that plans on the same node had.
    """
    if not lenses:
        return None
    order = list(lenses)
    Random(seed).shuffle(order)
    turns = order[attempt % len(order) :] + order[: attempt % len(order)]
    return next((lens for lens in turns if lens.name not in used), turns[0])
