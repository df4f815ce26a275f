"""Linear refinement: each attempt goes on from the one before it, as in Reflexion (paper, section 5).

The newest attempt that has a candidate, failed or not; the root at first. An attempt that left nothing to judge is
passed over, and so is one that an agent has nothing to propose for. With several attempts in flight one under way is
passed over too, which makes as many lines. Root throttling and dead-branch pruning do not apply: an older node is only
expanded while no newer one can be.

Shinn et al., Reflexion: Language Agents with Verbal Reinforcement Learning, https://arxiv.org/abs/2303.11366
"""

from __future__ import annotations

from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing


class Linear:
    """The newest attempt that may be expanded."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the newest eligible node, one that is not under way if there is one."""
        rules = Eligibility(standing, self._settings, throttle=False, prune=False)
        closed = standing.closed
        return rules.least_busy(
            node.id
            for node in standing.tree.newest_first()
            if node.id not in closed and rules.may_expand(node.id)  # in a large tree most are closed
        )
