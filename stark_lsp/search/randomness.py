"""The engine's state between two attempts, as text: the generator and the exhausted nodes.

All chance in a run comes from one `random.Random`. Each attempt draws the seed of a generator of its
own, which the windows and agents use: however much an agent draws, the selections stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from stark_lsp.core.errors import Fault


@dataclass(frozen=True)
class SearchState:
    """What a resumed search needs besides the tree."""

    rng: Random
    exhausted: frozenset[int] = frozenset()
    """Nodes for which an agent has nothing (more) to propose."""
    why: str = ""
    """What the last of these agents said."""


def dump_state(rng: Random, exhausted: Iterable[int] = (), why: str = "") -> str:
    """Return the state as JSON text."""
    version, internal, gauss = rng.getstate()
    return json.dumps({"random": [version, list(internal), gauss], "exhausted": sorted(exhausted), "why": why})


def load_search_state(text: str) -> SearchState:
    """Read what `dump_state` wrote.

    Raises
    ------
    Fault
        The text is not such a state.
    """
    try:
        data = json.loads(text)
        version, internal, gauss = data["random"]
        rng = Random()
        rng.setstate((version, tuple(internal), gauss))
        return SearchState(rng, frozenset(int(node) for node in data["exhausted"]), str(data["why"]))
    except (ValueError, TypeError, KeyError) as error:
        raise Fault(
            "The stored state of the search cannot be read.", cure="Start a new run.", details=repr(error)
        ) from error


def load_state(text: str) -> Random:
    """Return the generator alone of what `dump_state` wrote.

    Raises
    ------
    Fault
        The text is not such a state.
    """
    return load_search_state(text).rng


def derive(rng: Random) -> Random:
    """Return a new generator, seeded by one draw from `rng`."""
    return Random(rng.getrandbits(64))
