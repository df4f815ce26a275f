"""Context windows and the leaderboard are the paper's formulas."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Agents, HashJudge, failed, make_engine, node, ok, tree_of
from test_tree import EMPTY, trees

from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.leaderboard import best, leaders
from stark_lsp.search.tree import Tree, is_empty
from stark_lsp.search.windows import Windows, code_members, debug_members, plan_members


def judged(tree: Tree) -> list[Node]:
    return [n for n in tree.nodes.values() if n.verdict is not None and not is_empty(n)]


def selectable(tree: Tree, data: st.DataObject) -> int:
    return int(data.draw(st.sampled_from([n.id for n in judged(tree)])))


def top(tree: Tree, size: int, without: frozenset[int], shown: frozenset[int] = frozenset()) -> list[int]:
    """The leaderboard written out: sort, drop equal sources and those of `shown`, cut."""
    order = sorted((n for n in judged(tree) if not n.failed), key=lambda n: (n.score, n.id))
    seen = {tree.nodes[one].candidate.source for one in shown}
    distinct = []
    for one in order:
        if one.id not in without and one.candidate.source not in seen:
            seen.add(one.candidate.source)
            distinct.append(one)
    distinct.sort(key=lambda n: not (n.verdict and n.verdict.weights_loaded))
    return [n.id for n in distinct[:size]]


@given(trees(), st.data(), st.integers(1, 4))
def test_the_plan_window_is_children_and_leaders_outside_the_subtree(
    tree: Tree, data: st.DataObject, size: int
) -> None:
    i = selectable(tree, data)
    children = {n.id for n in judged(tree) if n.parent == i}
    assert plan_members(tree, i, size) == {i, 0} | children | set(
        top(tree, size, tree.subtree(i), frozenset({i, *children}))
    )


@given(trees(), st.data())
def test_the_code_window_is_children_and_children_of_siblings(tree: Tree, data: st.DataObject) -> None:
    i = selectable(tree, data)
    parent = tree.nodes[i].parent
    siblings = {n.id for n in tree.nodes.values() if parent is not None and n.parent == parent}
    expected = {i, 0} | {n.id for n in judged(tree) if n.parent in siblings | {i}}
    assert code_members(tree, i) == expected


@given(trees(), st.data())
def test_the_debug_window_is_the_siblings(tree: Tree, data: st.DataObject) -> None:
    i = selectable(tree, data)
    parent = tree.nodes[i].parent
    expected = {i, 0} | {n.id for n in judged(tree) if parent is not None and n.parent == parent}
    assert debug_members(tree, i) == expected


@given(trees(), st.data(), st.integers(1, 7), st.integers(0, 1000))
def test_a_window_holds_at_most_window_size_of_its_members_each_once(
    tree: Tree, data: st.DataObject, size: int, seed: int
) -> None:
    i = selectable(tree, data)
    settings = SearchSettings(window_size=size)
    windows = Windows(settings)
    for window, members in (
        (windows.plan(tree, i, Random(seed)), plan_members(tree, i, settings.leaderboard_size)),
        (windows.code(tree, i, Random(seed)), code_members(tree, i)),
        (windows.debug(tree, i, Random(seed)), debug_members(tree, i)),
    ):
        ids = [n.id for n in window]
        assert ids == sorted(set(ids))
        assert set(ids) <= members
        assert len(ids) == min(size, len(members))
        assert all(tree.nodes[n.id] is n and n.verdict is not None for n in window)


def test_a_window_that_is_too_large_is_sampled_uniformly() -> None:
    tree = tree_of(*(node(i, 0, ok(5.0 + i)) for i in range(1, 10)))
    windows = Windows(SearchSettings())
    counts = dict.fromkeys(range(10), 0)
    rng = Random(1)
    for _ in range(4000):
        for one in windows.plan(tree, 0, rng):
            counts[one.id] += 1
    # Each of 10 members is kept with probability 1/2; five standard deviations are 158.
    assert all(abs(count - 2000) < 158 for count in counts.values()), counts


def test_the_root_is_on_the_leaderboard_from_the_start() -> None:
    assert [n.id for n in leaders(tree_of(), 2)] == [0]
    assert [n.id for n in leaders(tree_of(node(1, 0, ok(20.0)), node(2, 0, ok(3.0))), 2)] == [2, 0]


def test_failed_pending_and_repeated_nodes_are_no_leaders() -> None:
    tree = tree_of(
        node(1, 0, failed()), node(2, 0), node(3, 0, ok(2.0), source="same"), node(4, 0, ok(2.5), source="same")
    )
    assert [n.id for n in leaders(tree, 5)] == [3, 0]


def test_no_leader_repeats_what_the_window_shows_already() -> None:
    tree = tree_of(
        node(1, 0, ok(2.0), source="one"),
        node(2, 1, ok(3.0), source="two"),
        node(3, 0, ok(2.0), source="one"),
        node(4, 3, ok(3.0), source="two"),
        node(5, 0, ok(4.0)),
    )
    assert [n.id for n in leaders(tree, 2, outside=1)] == [5, 0]


def test_a_leader_may_repeat_a_child_that_left_nothing_to_judge() -> None:
    tree = tree_of(node(1, 0, ok(2.0)), node(2, 1, EMPTY, source="one"), node(3, 0, ok(2.0), source="one"))
    assert [n.id for n in leaders(tree, 1, outside=1)] == [3]


def test_a_node_that_does_not_take_the_weights_ranks_below_all_that_do() -> None:
    tree = tree_of(node(1, 0, ok(1.0, weights_loaded=False)), node(2, 0, ok(4.0)))
    assert [n.id for n in leaders(tree, 3)] == [2, 0, 1]
    assert best(tree).id == 2


@given(trees(), st.integers(1, 5))
def test_leaders_are_the_best_distinct_verified_nodes(tree: Tree, size: int) -> None:
    assert [n.id for n in leaders(tree, size)] == top(tree, size, frozenset())


@pytest.mark.parametrize("i", [0, 1, 2])
def test_equal_seeds_draw_equal_windows(i: int) -> None:
    tree = tree_of(*(node(k, max(0, k - 3), ok(5.0 + k)) for k in range(1, 20)))
    windows = Windows(SearchSettings(window_size=3))
    assert windows.code(tree, i, Random(4)) == windows.code(tree, i, Random(4))


@given(trees(with_empty=True), st.data())
def test_no_window_shows_what_left_nothing_to_judge(tree: Tree, data: st.DataObject) -> None:
    i = selectable(tree, data)
    without = Tree.from_nodes(n for n in tree.nodes.values() if not is_empty(n))
    assert plan_members(tree, i, 3) == plan_members(without, i, 3)
    assert code_members(tree, i) == code_members(without, i)
    assert debug_members(tree, i) == debug_members(without, i)


@given(trees(with_empty=True), st.data(), st.integers(0, 100))
def test_the_naive_window_is_the_node_and_the_root_for_every_role(tree: Tree, data: st.DataObject, seed: int) -> None:
    i = selectable(tree, data)
    windows = Windows(SearchSettings(), dynamic=False)
    for window in (windows.plan, windows.code, windows.debug):
        assert {n.id for n in window(tree, i, Random(seed))} == {i, 0}


# --- where repairs began ---------------------------------------------------------------------------


@given(trees(with_empty=True), st.data())
def test_the_first_failure_is_the_top_of_the_chain_of_failed_nodes(tree: Tree, data: st.DataObject) -> None:
    i = data.draw(st.sampled_from(sorted(tree.nodes)))
    chain = [tree.nodes[i]]
    while chain[-1].parent is not None:
        chain.append(tree.nodes[chain[-1].parent])
    working = next(place for place, one in enumerate(chain) if not one.failed)
    assert tree.first_failure(i) == (chain[working - 1] if working > 1 else None)


async def test_who_repairs_a_repair_is_given_the_first_failure() -> None:
    agents = Agents()
    tree = tree_of(node(1, 0, ok(3.0)), node(2, 1, failed()))
    options = SearchSettings(attempts=5, policy="linear")
    await make_engine(tree=tree, agents=agents, judge=HashJudge(100), settings=options).run()
    repairs = [context for role, context in agents.contexts if role == "debug"]
    assert [context.selected.id for context in repairs] == [2, 3, 4]
    assert [context.first_failure and context.first_failure.id for context in repairs] == [None, 2, 2]
