"""Dynamic context windows: which past attempts each role is shown (paper, section 4.4 and Appendix B).

With D(i) the children of i, S(i) its siblings and Top-r the leaders outside i's subtree:

- plan:  {i, root} ∪ D(i) ∪ Top-r
- code:  {i, root} ∪ D(i) ∪ children of S(i)
- debug: {i, root} ∪ S(i)

Convention: a window is a set, so the selected node and the root are in it once each (once in all when the root is
selected). Only judged nodes are in a window, since an attempt under way has no observation yet, and one that left
nothing to judge never will. When a window has more than `window_size` nodes, that many are drawn uniformly from all
of it; the selected node and the root may fall out, as `Context.selected` and `Context.root` always hold them. Nodes
come in order of creation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from random import Random

from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.leaderboard import leaders
from stark_lsp.search.tree import Tree


def plan_members(tree: Tree, node_id: int, leaderboard_size: int) -> Set[int]:
    """Return the ids in the plan agent's window, before any are left out."""
    top = [node.id for node in leaders(tree, leaderboard_size, outside=node_id)]
    return _members(tree, node_id, tree.child_ids(node_id), top)


def code_members(tree: Tree, node_id: int) -> Set[int]:
    """Return the ids in the code agent's window, before any are left out."""
    parent = tree.nodes[node_id].parent
    # S(i) holds i itself, whose children are in the window anyway.
    cousins = () if parent is None else tree.grandchild_ids(parent)
    return _members(tree, node_id, tree.child_ids(node_id), cousins)


def debug_members(tree: Tree, node_id: int) -> Set[int]:
    """Return the ids in the debug agent's window, before any are left out."""
    parent = tree.nodes[node_id].parent
    return _members(tree, node_id, () if parent is None else tree.child_ids(parent))


@dataclass(frozen=True)
class Windows:
    """What each role is shown in one search."""

    settings: SearchSettings
    """Sizes of window and leaderboard."""
    dynamic: bool = True
    """False shows every role the naive window."""

    def plan(self, tree: Tree, node_id: int, rng: Random) -> tuple[Node, ...]:
        """Return what the plan agent is shown for node `node_id`."""
        return self._sample(tree, node_id, lambda: plan_members(tree, node_id, self.settings.leaderboard_size), rng)

    def code(self, tree: Tree, node_id: int, rng: Random) -> tuple[Node, ...]:
        """Return what the code agent is shown for node `node_id`."""
        return self._sample(tree, node_id, lambda: code_members(tree, node_id), rng)

    def debug(self, tree: Tree, node_id: int, rng: Random) -> tuple[Node, ...]:
        """Return what the debug agent is shown for node `node_id`."""
        return self._sample(tree, node_id, lambda: debug_members(tree, node_id), rng)

    def _sample(self, tree: Tree, node_id: int, members: Callable[[], Set[int]], rng: Random) -> tuple[Node, ...]:
        ordered = sorted(members() if self.dynamic else _members(tree, node_id))
        if len(ordered) > self.settings.window_size:
            ordered = sorted(rng.sample(ordered, self.settings.window_size))
        return tuple(tree.nodes[member] for member in ordered)


def _members(tree: Tree, node_id: int, *parts: Iterable[int]) -> Set[int]:
    members = {node_id, tree.root_id}
    members.update(*parts)
    unseen = tree.unseen_ids
    # Either may be large; the smaller one is walked.
    members.difference_update(unseen if len(unseen) < len(members) else [i for i in members if i in unseen])
    return members
