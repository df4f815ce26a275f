"""What a policy is.

A policy is made from the settings and sees the standing of the search and the generator; it keeps
nothing between selections, so that a run resumed from the store selects as it would have.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from stark_lsp.search.eligibility import Standing


class Policy(Protocol):
    """Picks node i of Algorithm 1 (line 4)."""

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node to expand, None if none may be expanded now.

        Parameters
        ----------
        standing
            The tree and what is under way. A node without a verdict, an empty or a closed one must not be returned.
        rng
            The run's generator; the only source of chance.
        """
        ...
