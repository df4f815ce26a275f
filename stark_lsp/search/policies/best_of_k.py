"""Best of K: independent samples from the root; the best of them wins (paper, sections 4.2 and 5).

With a system that has a debug agent (`ma-only`) a sample is a whole chain of plan, code and, where that failed, up to
`SearchSettings.repairs` repairs, each a child of the node it repairs. The paper names a plan/code/debug workflow "using
best-of-K sampling instead of search" and does not say how often its debug agent is asked; once is our decision, since
each repair takes an attempt from the budget that an independent sample could have. A system with one agent alone
(`sampling`) repairs nothing: that would be refinement.

Samples are repaired the newest first; at most `RECENT` of them are looked at, far more than are ever under way.
A repair that left nothing to judge counts as one that was made. Root throttling and dead-branch pruning do not apply.
"""

from __future__ import annotations

from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing
from stark_lsp.search.systems import find_system
from stark_lsp.search.tree import Tree

RECENT = 64


class BestOfK:
    """The root, but first failed samples that may be repaired, the newest first."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        self._repairs = settings.repairs if find_system(settings.system).repairs else 0

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return a failed sample to repair, or the root."""
        tree = standing.tree
        rules = Eligibility(standing, self._settings, throttle=False, prune=False)
        if self._repairs:
            for sample in reversed(tree.child_ids(tree.root_id)[-RECENT:]):
                end = self._end(tree, sample)
                if end is not None and end not in standing.busy and rules.may_expand(end):
                    return end
        return tree.root_id if rules.may_expand(tree.root_id) else None

    def _end(self, tree: Tree, sample: int) -> int | None:
        """Return the failed node in which a sample ended, None if it did not fail or was repaired often enough."""
        end = sample
        for _ in range(self._repairs):
            if not tree.nodes[end].failed:
                return None
            children = tree.child_ids(end)
            if not children:
                return end
            end = children[-1]
        return None
