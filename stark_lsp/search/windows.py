"""Dynamic context windows: which past attempts each role is shown (paper, section 4.4 and Appendix B).

With D(i) the children of i, S(i) its siblings and Top-r the leaders outside i's subtree:

- plan:  {i, root} ∪ D(i) ∪ Top-r
- code:  {i, root} ∪ D(i) ∪ children of S(i)
- debug: {i, root} ∪ S(i)

Convention: a window is a set, so the selected node and the root are in it once each (once in all when
the root is selected). Only judged nodes are in a window, since an attempt under way has no observation
yet. When a window has more than `window_size` nodes, that many are drawn uniformly from all of
it; the selected node and the root may fall out, as `Context.selected` and `Context.root` always hold
them. Nodes come in order of creation.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.leaderboard import leaders
from stark_lsp.search.tree import Tree


def plan_members(tree: Tree, node_id: int, leaderboard_size: int) -> frozenset[int]:
    """Return the ids in the plan agent's window, before any are left out."""
    top = [node.id for node in leaders(tree, leaderboard_size, outside=node_id)]
    return _members(tree, node_id, tree.child_ids(node_id), top)


def code_members(tree: Tree, node_id: int) -> frozenset[int]:
    """Return the ids in the code agent's window, before any are left out."""
    parent = tree.nodes[node_id].parent
    # S(i) holds i itself, whose children are in the window anyway.
    cousins = () if parent is None else tree.grandchild_ids(parent)
    return _members(tree, node_id, tree.child_ids(node_id), cousins)


def debug_members(tree: Tree, node_id: int) -> frozenset[int]:
    """Return the ids in the debug agent's window, before any are left out."""
    parent = tree.nodes[node_id].parent
    return _members(tree, node_id, () if parent is None else tree.child_ids(parent))


def plan_window(tree: Tree, node_id: int, settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    """Return what the plan agent is shown for node `node_id`."""
    return _sample(tree, plan_members(tree, node_id, settings.leaderboard_size), settings, rng)


def code_window(tree: Tree, node_id: int, settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    """Return what the code agent is shown for node `node_id`."""
    return _sample(tree, code_members(tree, node_id), settings, rng)


def debug_window(tree: Tree, node_id: int, settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    """Return what the debug agent is shown for node `node_id`."""
    return _sample(tree, debug_members(tree, node_id), settings, rng)


def _members(tree: Tree, node_id: int, *parts: Iterable[int]) -> frozenset[int]:
    members = {node_id, tree.root_id}
    members.update(*parts)
    members.difference_update(tree.pending_ids)
    return frozenset(members)


def _sample(tree: Tree, members: frozenset[int], settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    ordered = sorted(members)
    if len(ordered) > settings.window_size:
        ordered = sorted(rng.sample(ordered, settings.window_size))
    return tuple(tree.nodes[node_id] for node_id in ordered)
