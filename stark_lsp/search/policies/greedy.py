"""Greedy: always the best node. Gets stuck where the best node leads nowhere; for comparison."""

from __future__ import annotations

from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing


class Greedy:
    """Always the best-scored node that may be expanded."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the best-scored eligible node."""
        return Eligibility(standing, self._settings).best()
