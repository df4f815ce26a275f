"""The tree keeps its orders whatever happens to it, and is the same however it came about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ROOT, failed, node, ok, tree_of

from stark_lsp.core.run import Node
from stark_lsp.core.status import VerdictStatus
from stark_lsp.search.backup import SCALE
from stark_lsp.search.tree import Tree

VERDICTS = st.one_of(st.none(), st.just(failed()), st.builds(ok, st.floats(0.1, 50), weights_loaded=st.booleans()))


EMPTY = failed(VerdictStatus.NO_CANDIDATE)


@st.composite
def trees(draw: st.DrawFn, max_size: int = 25, with_empty: bool = False) -> Tree:
    """A tree of any shape, with judged, failed and pending nodes; a parent is always judged and never empty."""
    tree = Tree(ROOT)
    verdicts = st.one_of(VERDICTS, st.just(EMPTY)) if with_empty else VERDICTS
    for node_id in range(1, draw(st.integers(0, max_size)) + 1):
        parents = [known.id for known in tree.nodes.values() if known.verdict not in (None, EMPTY)]
        tree.add(node(node_id, draw(st.sampled_from(parents)), draw(verdicts), source=f"# {draw(st.integers(0, 30))}"))
    return tree


def orders(tree: Tree) -> tuple[object, ...]:
    ids = sorted(tree.nodes)
    return (
        list(tree.ranking),
        list(tree.judged_leaves),
        [n.id for n in tree.pending],
        [tuple(tree.child_ids(i)) for i in ids],
        [tree.failed_children(i) for i in ids],
        [tree.pending_children(i) for i in ids],
        [tree.counted_children(i) for i in ids],
        [(tree.backup.visits.get(i, 0), tree.backup.values.get(i, 0)) for i in ids],
        sorted(tree.unseen_ids),
        [n.id for n in tree.newest_first()],
        tree.next_id(),
    )


@given(trees(with_empty=True))
def test_its_orders_say_what_a_count_over_all_nodes_says(tree: Tree) -> None:
    nodes = list(tree.nodes.values())
    empty = {n.id for n in nodes if n.verdict == EMPTY}
    judged = [n for n in nodes if n.verdict is not None and n.id not in empty]
    assert list(tree.ranking) == sorted((n.score, n.id) for n in judged)
    parents = {n.parent for n in nodes if n.id not in empty}
    assert list(tree.judged_leaves) == sorted(n.id for n in judged if n.id not in parents)
    assert [n.id for n in tree.newest_first()] == sorted(tree.nodes, reverse=True)
    assert tree.unseen_ids == empty | {n.id for n in nodes if n.verdict is None}
    for one in nodes:
        children = [n for n in nodes if n.parent == one.id]
        assert list(tree.children(one.id)) == children
        assert tree.failed_children(one.id) == sum(n.failed for n in children if n.id not in empty)
        assert tree.counted_children(one.id) == sum(n.id not in empty for n in children)
        assert tree.pending_children(one.id) == sum(n.verdict is None for n in children)
        expected = [n for n in nodes if n.parent == one.parent and n.id != one.id] if one.parent is not None else []
        assert list(tree.siblings(one.id)) == expected
        below = {one.id}
        for other in nodes:  # parents come before children
            if other.parent in below:
                below.add(other.id)
        assert tree.subtree(one.id) == below
        counted = [tree.nodes[i] for i in below - empty]
        assert tree.backup.visits.get(one.id, 0) == len(counted)
        total = sum(ROOT.score / (ROOT.score + n.score) for n in counted)  # 0 for +inf
        assert tree.backup.values.get(one.id, 0) / SCALE == pytest.approx(total, abs=1e-6)


@given(trees(with_empty=True), st.randoms(use_true_random=False), st.data())
def test_a_tree_that_grew_equals_the_one_loaded_from_its_nodes(tree: Tree, chance: object, data: st.DataObject) -> None:
    grown = Tree(ROOT)
    assert grown.backup.visits == {0: 1}
    for final in sorted(tree.nodes.values(), key=lambda n: n.id):
        if final.parent is not None:
            grown.add(node(final.id, final.parent, None, source=final.candidate.source))
    late = [n for n in tree.nodes.values() if n.verdict is not None and n.parent is not None]
    for final in data.draw(st.permutations(late)):
        grown.replace(final)
    shuffled = list(tree.nodes.values())
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert orders(grown) == orders(tree) == orders(Tree.from_nodes(shuffled))


@given(trees(max_size=12), st.data())
def test_a_verdict_can_be_replaced_by_a_better_founded_one(tree: Tree, data: st.DataObject) -> None:
    old = tree.nodes[data.draw(st.sampled_from(sorted(tree.nodes)))]
    new = Node(old.id, old.parent, old.role, old.candidate, old.plan, data.draw(VERDICTS))
    tree.replace(new)
    assert orders(tree) == orders(Tree.from_nodes(tree.nodes.values()))


def test_a_node_whose_children_left_nothing_to_judge_stays_a_leaf() -> None:
    tree = tree_of(node(1, 0, ok(3.0)), node(2, 1, EMPTY))
    assert list(tree.judged_leaves) == [1]
    tree.add(node(3, 1))
    assert list(tree.judged_leaves) == []


def test_what_is_not_a_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="already in the tree"):
        tree_of(node(1, 0), node(1, 0))
    with pytest.raises(ValueError, match="parent 7, which is not in the tree"):
        tree_of(node(1, 7))
    with pytest.raises(ValueError, match="one root, not 0"):
        Tree.from_nodes([node(1, 0)])
    with pytest.raises(ValueError, match="not a root"):
        Tree(node(1, 0))
    with pytest.raises(ValueError, match="no node 3 under 0 to replace"):
        tree_of(node(1, 0)).replace(node(3, 0))
