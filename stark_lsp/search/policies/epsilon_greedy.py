"""Adapted epsilon-greedy: the paper's rule (section 4.2, "Policy choice and an adapted epsilon-greedy rule")."""

from __future__ import annotations

from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing


class EpsilonGreedy:
    """The best node, now and then a leaf.

    With probability epsilon a uniform draw from all expandable leaves, failed ones or not; otherwise,
    or when no leaf can be expanded, the best-scored eligible node.
    """

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return a leaf drawn at random, or the best-scored eligible node."""
        rules = Eligibility(standing, self._settings)
        if rng.random() < self._settings.epsilon:
            leaves = rules.expandable_leaves()
            if leaves:
                return rng.choice(leaves)
        return rules.best()
