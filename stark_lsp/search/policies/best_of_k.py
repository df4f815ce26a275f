"""Best of K: independent samples from the root; the best of them wins (paper, sections 4.2 and 5).

With a system that has a debug agent (`ma-only`) a sample is a whole chain of plan, code and, where that failed, up to
`SearchSettings.repairs` repairs, each a child of the node it repairs. The paper names a plan/code/debug workflow "using
best-of-K sampling instead of search" and does not say how often its debug agent is asked; once is our decision, since
each repair takes an attempt from the budget that an independent sample could have. A system with one agent alone
(`sampling`) repairs nothing: that would be refinement.

A repair that left nothing to judge counts as one that was made. Root throttling and dead-branch pruning do not apply.
"""

from __future__ import annotations

from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing
from stark_lsp.search.policies.registry import register
from stark_lsp.search.systems import find_system
from stark_lsp.search.tree import Tree


@register("best-of-k")
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
            for leaf in reversed(tree.judged_leaves):
                # A leaf may have empty children: repairs that left nothing.
                if tree.nodes[leaf].failed and not tree.child_ids(leaf) and leaf not in standing.busy:
                    made = repairs_made(tree, leaf, self._repairs)
                    if made is not None and made < self._repairs and rules.may_expand(leaf):
                        return leaf
        return tree.root_id if rules.may_expand(tree.root_id) else None


def repairs_made(tree: Tree, node_id: int, most: int) -> int | None:
    """Return how many failed nodes stand between a failed node and the root, None if these are more than `most`."""
    made, current = 0, tree.nodes[node_id].parent
    while current is not None and tree.nodes[current].failed:
        made += 1
        if made > most:
            return None
        current = tree.nodes[current].parent
    return made
