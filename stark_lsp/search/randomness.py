"""The engine's state between two attempts, as text: the generator, the exhausted nodes, the attempts under way.

All chance in a run comes from one `random.Random`. Each attempt draws the seed of generators of its own, one for each
role that is asked in it, which the windows and agents use: however much an agent draws, the selections stay the same,
and a role that is asked once more draws the same again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from stark_lsp.core.errors import Fault
from stark_lsp.search.attempts import Attempt


@dataclass(frozen=True)
class SearchState:
    """What a resumed search needs besides the tree."""

    generator: tuple[Any, ...]
    """`Random.getstate()` of the run's generator."""
    exhausted: frozenset[int] = frozenset()
    """Nodes for which an agent has nothing (more) to propose."""
    why: str = ""
    """What the last of these agents said."""
    begun: tuple[Attempt, ...] = ()
    """Attempts under way: a resumed search makes exactly these first."""
    floor: int = 0
    """Numbers of attempts below this one are not given again."""


def dump_state(
    rng: Random,
    exhausted: Iterable[int] = (),
    why: str = "",
    begun: Iterable[Attempt] = (),
    floor: int = 0,
) -> str:
    """Return the state as JSON text."""
    version, internal, gauss = rng.getstate()
    return json.dumps(
        {
            "random": [version, list(internal), gauss],
            "exhausted": sorted(exhausted),
            "why": why,
            "begun": [[attempt.id, attempt.selected, attempt.seed] for attempt in begun],
            "floor": floor,
        }
    )


def parse_state(text: str) -> SearchState:
    """Read what `dump_state` wrote, of this version or one that knew no attempts under way.

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
        return SearchState(
            generator,
            frozenset(int(node) for node in data["exhausted"]),
            str(data["why"]),
            tuple(Attempt(int(number), int(node), int(seed)) for number, node, seed in data.get("begun", ())),
            int(data.get("floor", 0)),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise Fault(
            "The stored state of the search cannot be read.", cure="Start a new run.", details=repr(error)
        ) from error


def draw_seed(rng: Random) -> int:
    """Return a seed for one attempt, by one draw."""
    return rng.getrandbits(64)


def generator_for(seed: int, role: str) -> Random:
    """Return the generator of one role in the attempt with this seed; equal arguments give equal generators."""
    return Random(f"{seed} {role}")
