"""The tree of attempts, with the orders that selection and windows need kept up to date.

The root is the reference; every other node is a candidate made from its parent (paper, section 4.2).
Adding or judging a node costs a few list insertions, so that a tree of 10,000 nodes stays cheap.
Every order is a function of the nodes alone, never of the sequence in which they arrived: a tree
loaded from the store behaves exactly like the one that grew.

A node whose verdict is `NO_CANDIDATE` is *empty*: an attempt that left nothing to judge. It is in the tree, so that
it is seen and counted, and in none of the orders: its parent is as much a leaf as before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence, Set

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole, Dialect, VerdictStatus
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.search.backup import Backup


def make_root(problem: Problem, reference: Reference) -> Node:
    """Return the root: the reference's source, verified by definition, as fast as eager PyTorch."""
    return Node(
        id=0,
        parent=None,
        role=AgentRole.ROOT,
        candidate=Candidate(problem.slice.text, Dialect.TORCH, problem.class_name),
        verdict=Verdict(VerdictStatus.OK, runtime=reference.baselines.eager, environment=reference.environment),
    )


def is_empty(node: Node) -> bool:
    """Whether the attempt left nothing to judge."""
    return node.verdict is not None and node.verdict.status is VerdictStatus.NO_CANDIDATE


class Tree:
    """Nodes by id, with parents and children.

    Parameters
    ----------
    root
        The node without a parent.
    nodes
        Further nodes, in any order; used to build a tree from the store.

    Raises
    ------
    ValueError
        The root has a parent, a node's parent is not in the tree, or an id occurs twice.
    """

    def __init__(self, root: Node, nodes: Iterable[Node] = ()) -> None:
        if root.parent is not None:
            raise ValueError(f"node {root.id} has parent {root.parent}, so it is not a root")
        self.root_id = root.id
        self.nodes: dict[int, Node] = {}
        self._children: dict[int, list[int]] = {}
        self._counted: dict[int, int] = {}
        self._failed: dict[int, int] = {}
        self._unjudged: dict[int, int] = {}
        self._pending: list[int] = []
        self._unseen: set[int] = set()
        self._ranking: list[tuple[float, int]] = []
        self._judged_leaves: list[int] = []
        self.given_up: Set[int] = frozenset()
        """Ids of what the user gave up, with all below: seen by agents as what was tried, never a leader."""
        self._next_id = root.id + 1
        self._backup: Backup | None = None
        self._insert(root)
        for node in sorted(nodes, key=lambda node: node.id):
            if node.id != root.id:
                self.add(node)

    @classmethod
    def from_nodes(cls, nodes: Iterable[Node]) -> Tree:
        """Build a tree from stored nodes, one of which is the root.

        Raises
        ------
        ValueError
            There is no root, or the nodes do not form one tree.
        """
        listed = list(nodes)
        roots = [node for node in listed if node.parent is None]
        if len(roots) != 1:
            raise ValueError(f"a tree has one root, not {len(roots)}")
        return cls(roots[0], listed)

    @property
    def root(self) -> Node:
        """The reference."""
        return self.nodes[self.root_id]

    @property
    def ranking(self) -> Sequence[tuple[float, int]]:
        """(score, id) of every judged node that is not empty, best first; ties go to the older node."""
        return self._ranking

    @property
    def judged_leaves(self) -> Sequence[int]:
        """Ids of judged nodes without children, in order of creation; empty ones are none, and count as none."""
        return self._judged_leaves

    @property
    def pending(self) -> tuple[Node, ...]:
        """Nodes whose verdict is not in yet, in order of creation."""
        return tuple(self.nodes[node_id] for node_id in self._pending)

    @property
    def unseen_ids(self) -> Set[int]:
        """Ids of nodes that no agent is shown: their verdict is not in yet, or they are empty."""
        return self._unseen

    @property
    def backup(self) -> Backup:
        """Sums over subtrees, for policies that need them; kept up to date from the first use on."""
        if self._backup is None:
            self._backup = Backup(self.nodes, self._children, self.root_id)
        return self._backup

    def add(self, node: Node) -> None:
        """Add a child to its parent.

        Raises
        ------
        ValueError
            The id is taken, or the parent is not in the tree.
        """
        if node.id in self.nodes:
            raise ValueError(f"node {node.id} is already in the tree")
        if node.parent is None or node.parent not in self.nodes:
            raise ValueError(f"node {node.id} has parent {node.parent}, which is not in the tree")
        insort(self._children[node.parent], node.id)
        self._insert(node)
        self._next_id = max(self._next_id, node.id + 1)

    def replace(self, node: Node) -> None:
        """Put `node` in the place of the one with its id, for instance when its verdict is in.

        Raises
        ------
        ValueError
            There is no such node, or its parent is another one.
        """
        old = self.nodes.get(node.id)
        if old is None or old.parent != node.parent:
            raise ValueError(f"there is no node {node.id} under {node.parent} to replace")
        self._forget(old)
        self._remember(node)

    def children(self, node_id: int) -> tuple[Node, ...]:
        """Return the node's children in order of creation."""
        nodes = self.nodes
        return tuple([nodes[child] for child in self._children[node_id]])

    def child_ids(self, node_id: int) -> Sequence[int]:
        """Return the ids of the node's children in order of creation."""
        return self._children[node_id]

    def counted_children(self, node_id: int) -> int:
        """Return how many children the node has that are not empty."""
        return self._counted[node_id]

    def siblings(self, node_id: int) -> tuple[Node, ...]:
        """Return the other children of the node's parent in order of creation; none for the root."""
        nodes, parent = self.nodes, self.nodes[node_id].parent
        if parent is None:
            return ()
        return tuple([nodes[child] for child in self._children[parent] if child != node_id])

    def grandchild_ids(self, node_id: int) -> Sequence[int]:
        """Return the ids of the children of the node's children."""
        children = self._children
        return [below for child in children[node_id] if children[child] for below in children[child]]

    def first_failure(self, node_id: int) -> Node | None:
        """Return the failed node that repairs began from, if this one is a repair that failed; else None."""
        node = self.nodes[node_id]
        first = node
        while first.failed and first.parent is not None and self.nodes[first.parent].failed:
            first = self.nodes[first.parent]
        return None if first is node else first

    def repaired_beside(self, node_id: int) -> bool:
        """Whether this is a repair that failed, and a sibling, which has the same plan, is one that did not."""
        node = self.nodes[node_id]
        if not node.failed or node.parent is None or not self.nodes[node.parent].failed:
            return False
        return any(one.verdict is not None and one.verdict.ok for one in self.siblings(node_id))

    def last_correct(self, node_id: int) -> Node | None:
        """Return the nearest verified node that a failed one comes from; None for the root, which every agent sees."""
        node = self.nodes[node_id]
        while node.failed and node.parent is not None:
            node = self.nodes[node.parent]
        return None if node.id in (node_id, self.root_id) else node

    def ancestors(self, node_id: int) -> tuple[int, ...]:
        """Return the ids of the node's parent and of all above it, the root last."""
        found: list[int] = []
        above = self.nodes[node_id].parent
        while above is not None:
            found.append(above)
            above = self.nodes[above].parent
        return tuple(found)

    def subtree(self, node_id: int) -> frozenset[int]:
        """Return the ids of the node and everything below it."""
        found = [node_id]
        for current in found:  # grows while it is walked
            found.extend(self._children[current])
        return frozenset(found)

    def failed_children(self, node_id: int) -> int:
        """Return how many children were judged and failed; empty ones do not count."""
        return self._failed[node_id]

    def pending_children(self, node_id: int) -> int:
        """Return how many children have no verdict yet."""
        return self._unjudged[node_id]

    def newest_first(self) -> Iterator[Node]:
        """Return all nodes, those with the highest ids first."""
        for node_id in range(self._next_id - 1, self.root_id - 1, -1):
            node = self.nodes.get(node_id)
            if node is not None:
                yield node

    def next_id(self) -> int:
        """Return the id above all ids in the tree."""
        return self._next_id

    def _insert(self, node: Node) -> None:
        self._children[node.id] = []
        self._counted[node.id] = 0
        self._failed[node.id] = 0
        self._unjudged[node.id] = 0
        self._remember(node)

    def _remember(self, node: Node) -> None:
        self.nodes[node.id] = node
        if node.verdict is None or is_empty(node):
            self._unseen.add(node.id)
        if node.verdict is None:
            insort(self._pending, node.id)
        elif not is_empty(node):
            insort(self._ranking, (node.score, node.id))
            if not self._counted[node.id]:
                insort(self._judged_leaves, node.id)
        self._count(node, +1)

    def _forget(self, node: Node) -> None:
        self._unseen.discard(node.id)
        if node.verdict is None:
            _discard(self._pending, node.id)
        elif not is_empty(node):
            del self._ranking[bisect_left(self._ranking, (node.score, node.id))]
            _discard(self._judged_leaves, node.id)
        self._count(node, -1)

    def _count(self, node: Node, step: int) -> None:
        if node.parent is None:
            self._backup = None  # values are relative to the root
            return
        if is_empty(node):
            return
        if self._backup is not None:
            self._backup.count(self.nodes, node, step)
        self._counted[node.parent] += step
        if node.verdict is None:
            self._unjudged[node.parent] += step
        elif node.failed:
            self._failed[node.parent] += step
        parent = self.nodes[node.parent]
        if step > 0 and self._counted[node.parent] == 1:
            _discard(self._judged_leaves, node.parent)
        elif step < 0 and not self._counted[node.parent] and parent.verdict is not None and not is_empty(parent):
            insort(self._judged_leaves, node.parent)


def _discard(ordered: list[int], value: int) -> None:
    """Remove `value` from a sorted list if it is there."""
    at = bisect_left(ordered, value)
    if at < len(ordered) and ordered[at] == value:
        del ordered[at]
