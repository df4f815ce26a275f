"""Lenses: ways to look at a kernel, taken in turns where a model's temperature cannot make plans differ.

They stand in `prompts/lenses.md`: a heading for each, `For:` with the bottlenecks that it is a way out of, its text
below. A user may override that file; a lens without `For:` suits every bottleneck.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from stark_lsp.agents.diagnosis import Bottleneck

_FOR = re.compile(r"\s*For:(.*)\n")
_HEADING = re.compile(r"^#\s+(.+?)\s*$", re.MULTILINE)

FILE = "lenses.md"
"""Their file in the prompt library."""


@dataclass(frozen=True)
class Lens:
    """One way to look at a kernel."""

    name: str
    text: str
    bottlenecks: frozenset[str] = frozenset()
    """Values of `Bottleneck`; empty for all of them."""


def read_lenses(text: str) -> tuple[Lens, ...]:
    """Return the lenses of a file, in its order; what stands above the first heading is left out."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)][: len(headings)]
    return tuple(_lens(heading[1], text[heading.end() : end]) for heading, end in zip(headings, ends, strict=True))


def _lens(name: str, text: str) -> Lens:
    told = _FOR.match(text)
    if told is None:
        return Lens(name, text.strip())
    return Lens(name, text[told.end() :].strip(), frozenset(told[1].replace(",", " ").split()))


def choose(
    lenses: Sequence[Lens], seed: int, attempt: int, used: Collection[str] = (), bottleneck: Bottleneck | None = None
) -> Lens | None:
    """Return the lens of an attempt; None if there are none.

    Those that suit the bottleneck come first. Of them, attempts take turns through an order that the seed decides, so
    that a run replays and attempts in flight differ. A lens that was used on the same node is skipped until all were.

    Parameters
    ----------
    seed
        Of the run.
    attempt
        Id of the attempt's node.
    used
        Names of the lenses that plans on the same node had.
    bottleneck
        What limits the node; None where that is not known, and all lenses suit it.
    """
    order = list(lenses)
    Random(seed).shuffle(order)
    suits = [bottleneck is None or not lens.bottlenecks or bottleneck.value in lens.bottlenecks for lens in order]
    turns: list[Lens] = []
    for wanted in (True, False):
        group = [lens for lens, suited in zip(order, suits, strict=True) if suited is wanted]
        start = attempt % len(group) if group else 0
        turns += group[start:] + group[:start]
    return next((lens for lens in turns if lens.name not in used), turns[0] if turns else None)
