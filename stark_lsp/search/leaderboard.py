"""The leaderboard: the best verified nodes, the root among them (paper, Algorithm 1, lines 2 and 18)."""

from __future__ import annotations

import math

from stark_lsp.core.run import Node
from stark_lsp.search.tree import Tree


def leaders(tree: Tree, size: int, *, outside: int | None = None) -> tuple[Node, ...]:
    """Return up to `size` verified nodes with distinct sources, best first.

    A node that only matches when built with the same seed ranks below every one that takes the
    reference's weights. What the user gave up is no leader.

    Parameters
    ----------
    tree
        The tree of attempts; its root is on the leaderboard from the start.
    size
        r in the paper.
    outside
        Leave out this node and everything below it, and copies of it and of its children elsewhere: the window shows
        them already.
    """
    if outside == tree.root_id:
        return ()
    left_out = frozenset[int]() if outside is None else tree.subtree(outside)
    first: list[Node] = []
    second: list[Node] = []
    shown = () if outside is None else {outside, *tree.child_ids(outside)} - tree.unseen_ids
    seen = {tree.nodes[node_id].candidate.source for node_id in shown}
    for score, node_id in tree.ranking:
        if score == math.inf or len(first) == size:
            break
        if node_id in left_out or node_id in tree.given_up:
            continue
        node = tree.nodes[node_id]
        if node.failed or node.candidate.source in seen:
            continue
        seen.add(node.candidate.source)
        if node.verdict is not None and node.verdict.weights_loaded:
            first.append(node)
        elif len(second) < size:
            second.append(node)
    return tuple((first + second)[:size])


def best(tree: Tree) -> Node:
    """Return the best verified node; the root if nothing verified is faster."""
    top = leaders(tree, 1)
    return top[0] if top else tree.root
