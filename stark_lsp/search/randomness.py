"""The engine's state between two attempts, as text: the generator and the exhausted nodes.

All chance in a run comes from one `random.Random`. Each attempt draws the seed of a generator of its
own, which the windows and agents use: however much an agent draws, the selections stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from stark_lsp.core.errors import Fault


@dataclass(frozen=True)
class SearchState:
    """What a resumed search needs besides the tree."""

    generator: tuple[Any, ...]
    """`Random.getstate()` of the run's generator."""
    exhausted: frozenset[int] = frozenset()
    """Nodes for which an agent has nothing (more) to propose."""
    why: str = ""
    """What the last of these agents said."""


def dump_state(rng: Random, exhausted: Iterable[int] = (), why: str = "") -> str:
    """Return the state as JSON text."""
    version, internal, gauss = rng.getstate()
    return json.dumps({"random": [version, list(internal), gauss], "exhausted": sorted(exhausted), "why": why})


def parse_state(text: str) -> SearchState:
    """Read what `dump_state` wrote.

    Raises
    ------
    Fault
        The text is not such a state.
    """
    try:
        data = json.loads(text)
        version, internal, gauss = data["random"]
        generator = (version, tuple(internal), gauss)
        Random().setstate(generator)
        return SearchState(generator, frozenset(int(node) for node in data["exhausted"]), str(data["why"]))
    except (ValueError, TypeError, KeyError) as error:
        raise Fault(
            "The stored state of the search cannot be read.", cure="Start a new run.", details=repr(error)
        ) from error


def load_state(rng: Random, text: str) -> None:
    """Put `rng` into the state that `dump_state` wrote; `Engine(state=...)` does this and takes the rest as well.

    Raises
    ------
    Fault
        The text is not such a state.
    """
    rng.setstate(parse_state(text).generator)


def derive(rng: Random) -> Random:
    """Return a new generator, seeded by one draw from `rng`."""
    return Random(rng.getrandbits(64))
