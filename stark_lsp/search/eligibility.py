"""Which nodes may be expanded: root throttling, dead-branch pruning, and what is under way.

A *virtual loss* stands for an attempt in flight: until its verdict is in, it counts as a child that failed, and
where nodes are compared each one makes its node count as 10 % slower. So a node far ahead of all others gets several
attempts at once, and nodes that are nearly equal one each. As measured for `benchmarks/parallel.py` a larger penalty
finds slower kernels where improvements build on improvements; none at all did about as well there (within 0.02 of the
share of the speed-up), and would leave equal nodes to the order of their numbers. With one attempt at a time there are
no virtual losses, and the rules are the paper's (section 4.2).
An attempt that left nothing to judge is neither a child nor a node that could be expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.tree import Tree, is_empty

VIRTUAL_LOSS = 1.1
"""The runtime counts as so many times longer for each attempt in flight."""


@dataclass(frozen=True)
class Standing:
    """Where the search stands when a node is to be selected."""

    tree: Tree
    """All attempts so far."""
    busy: Mapping[int, int]
    """Attempts under way on a node whose child is not in the tree yet."""
    closed: Set[int]
    """Nodes that must not be selected: an agent has nothing (more) to propose, or the user gave them up."""
    attempt: int = 0
    """Number of the attempt that the selection is for."""

    def virtual_losses(self, node_id: int) -> int:
        """Return how many attempts on this node have no verdict yet."""
        return self.busy.get(node_id, 0) + self.tree.pending_children(node_id)

    def comparable(self, node_id: int) -> tuple[float, int, int]:
        """Return what a node is compared by, less is better: its score with its losses, their number, its age."""
        losses = self.virtual_losses(node_id)
        return self.tree.nodes[node_id].score * VIRTUAL_LOSS**losses, losses, node_id


class Eligibility:
    """The rules, applied to one standing of the search."""

    def __init__(
        self, standing: Standing, settings: SearchSettings, *, throttle: bool = True, prune: bool = True
    ) -> None:
        self.standing = standing
        self._tree, self._busy, self._closed = standing.tree, standing.busy, standing.closed
        self._root_cap = settings.root_children if throttle else None
        self._dead = settings.dead_branch_children if prune else None
        self._skip_repaired = settings.repair_help

    def may_expand(self, node_id: int) -> bool:
        """Whether the node may be selected: judged, not closed, not throttled, not a dead branch."""
        tree = self._tree
        if node_id in self._closed:
            return False
        node = tree.nodes[node_id]
        if node.verdict is None or is_empty(node):
            return False
        children = tree.counted_children(node_id) + self._busy.get(node_id, 0)
        if self._root_cap is not None and node_id == tree.root_id and children >= self._root_cap:
            return False
        if self._dead is not None and children > self._dead:
            return tree.failed_children(node_id) + self.standing.virtual_losses(node_id) < children
        return True

    def ranked(self) -> Iterator[int]:
        """Return the nodes that may be expanded, best-scored first; ties go to the older node."""
        for _, node_id in self._tree.ranking:
            if self.may_expand(node_id):
                yield node_id

    def best(self) -> int | None:
        """Return the best-scored node that may be expanded, None if there is none.

        Virtual losses make a score worse; ties go to the node with fewer of them, then to the older one.
        """
        best: tuple[float, int, int] | None = None
        for node_id in self.ranked():
            key = self.standing.comparable(node_id)
            if best is None or key < best:
                best = key
            # Those that follow have no better score, let alone with losses of their own.
            if key[1] == 0:
                break
        return None if best is None else best[2]

    def least_busy(self, candidates: Iterator[int]) -> int | None:
        """Return the first of `candidates` with the fewest virtual losses, None if there are none."""
        found: int | None = None
        fewest = 0
        for node_id in candidates:
            losses = self.standing.virtual_losses(node_id)
            if losses == 0:
                return node_id
            if found is None or losses < fewest:
                found, fewest = node_id, losses
        return found

    def expandable_leaves(self) -> list[int]:
        """Return the judged nodes without children that may be expanded and are not under way, oldest first."""
        busy, closed = self._busy, self._closed
        return [
            leaf
            for leaf in self._tree.judged_leaves
            if leaf not in closed
            and leaf not in busy
            and not (self._skip_repaired and self._tree.repaired_beside(leaf))
        ]
