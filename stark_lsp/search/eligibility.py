"""Which nodes may be expanded: root throttling, dead-branch pruning, and what is under way.

A *virtual loss* stands for an attempt in flight: until its verdict is in, it counts as a child that
failed. With one attempt at a time there are none, and the rules are the paper's (section 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.tree import Tree


@dataclass(frozen=True)
class Eligibility:
    """The rules, applied to one state of the search."""

    tree: Tree
    settings: SearchSettings
    busy: Mapping[int, int]
    """Attempts under way on a node whose child is not in the tree yet."""
    exhausted: Set[int]
    """Nodes for which an agent has nothing (more) to propose."""

    def virtual_losses(self, node_id: int) -> int:
        """Return how many attempts on this node have no verdict yet."""
        return self.busy.get(node_id, 0) + self.tree.pending_children(node_id)

    def may_expand(self, node_id: int) -> bool:
        """Whether the node may be selected: judged, not exhausted, not throttled, not a dead branch."""
        tree = self.tree
        if node_id in self.exhausted or tree.nodes[node_id].verdict is None:
            return False
        children = len(tree.child_ids(node_id)) + self.busy.get(node_id, 0)
        if node_id == tree.root_id and children >= self.settings.root_children:
            return False
        if children > self.settings.dead_branch_children:
            return tree.failed_children(node_id) + self.virtual_losses(node_id) < children
        return True

    def best(self) -> int | None:
        """Return the best-scored node that may be expanded, None if there is none.

        A node with fewer virtual losses goes before one with more; ties go to the older node.
        """
        found: int | None = None
        fewest = 0
        for _, node_id in self.tree.ranking:
            if not self.may_expand(node_id):
                continue
            losses = self.virtual_losses(node_id)
            if losses == 0:
                return node_id
            if found is None or losses < fewest:
                found, fewest = node_id, losses
        return found

    def expandable_leaves(self) -> list[int]:
        """Return the judged nodes without children that may be expanded and are not under way, oldest first."""
        busy, exhausted = self.busy, self.exhausted
        return [leaf for leaf in self.tree.judged_leaves if leaf not in exhausted and leaf not in busy]
