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
    top = (node.id for node in leaders(tree, leaderboard_size, outside=node_id))
    return frozenset({node_id, tree.root_id, *_judged(tree, tree.child_ids(node_id)), *top})


def code_members(tree: Tree, node_id: int) -> frozenset[int]:
    """Return the ids in the code agent's window, before any are left out."""
    cousins = (child for sibling in tree.siblings(node_id) for child in tree.child_ids(sibling.id))
    own = tree.child_ids(node_id)
    return frozenset({node_id, tree.root_id, *_judged(tree, own), *_judged(tree, cousins)})


def debug_members(tree: Tree, node_id: int) -> frozenset[int]:
    """Return the ids in the debug agent's window, before any are left out."""
    siblings = (sibling.id for sibling in tree.siblings(node_id))
    return frozenset({node_id, tree.root_id, *_judged(tree, siblings)})


def plan_window(tree: Tree, node_id: int, settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    """Return what the plan agent is shown for node `node_id`."""
    return _sample(tree, plan_members(tree, node_id, settings.leaderboard_size), settings, rng)


def code_window(tree: Tree, node_id: int, settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    """Return what the code agent is shown for node `node_id`."""
    return _sample(tree, code_members(tree, node_id), settings, rng)


def debug_window(tree: Tree, node_id: int, settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    """Return what the debug agent is shown for node `node_id`."""
    return _sample(tree, debug_members(tree, node_id), settings, rng)


def _judged(tree: Tree, ids: Iterable[int]) -> Iterable[int]:
    return (node_id for node_id in ids if tree.nodes[node_id].verdict is not None)


def _sample(tree: Tree, members: frozenset[int], settings: SearchSettings, rng: Random) -> tuple[Node, ...]:
    ordered = sorted(members)
    if len(ordered) > settings.window_size:
        ordered = sorted(rng.sample(ordered, settings.window_size))
    return tuple(tree.nodes[node_id] for node_id in ordered)
