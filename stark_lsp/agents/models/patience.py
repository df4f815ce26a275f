"""Patience: how often, how long and after what pauses a service is asked again."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from stark_lsp.core.agent_settings import SILENCE_S


@dataclass(frozen=True)
class Patience:
    """Limits of one question; all times in seconds."""

    tries: int = 8
    first_pause: float = 1.0
    """Pause after the first failed try; each further one doubles it."""
    longest_pause: float = 60.0
    """A pause that the service itself asks for may be longer."""
    pauses: float = 600.0
    """All pauses together; a service that asks for more is given up."""
    connect: float = 10.0
    silence: float = SILENCE_S
    """Longest time in which nothing arrives at all, not even a ping: asking again pays twice for a slow answer."""
    ending: float = 5.0
    """For what follows a whole answer, such as its tokens; some servers send nothing, and do not hang up either."""
    one_try: float = 6 * 3600.0
    """From sending a question to the end of its answer; only an endless stream of pings takes so long."""


def pause(patience: Patience, failed: int, asked_for: float | None, rng: Random) -> float:
    """Return how long to wait after the `failed`-th failed try (1 is the first).

    The pause doubles with each try and is scattered over its upper half, so that parallel questions do not return all
    at once; it is never shorter than what the service asked for.
    """
    doubled = min(patience.longest_pause, patience.first_pause * 2.0 ** min(failed - 1, 30))
    scattered = doubled * (0.5 + 0.5 * rng.random())
    return max(scattered, asked_for or 0.0)
