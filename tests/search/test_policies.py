"""Selection obeys throttling, pruning, leaf exploration and what is in flight."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import failed, node, ok, tree_of
from test_tree import trees

from stark_lsp.core.errors import BadInput
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Standing
from stark_lsp.search.policies import Policy, make_policy, policy_names
from stark_lsp.search.tree import Tree

NONE: frozenset[int] = frozenset()


def policy(**changes: object) -> Policy:
    settings = SearchSettings(**changes)  # type: ignore[arg-type]
    return make_policy(settings.policy, settings)


def chosen(tree: Tree, one: Policy, exhausted: frozenset[int] = NONE, draws: int = 300) -> set[int | None]:
    rng = Random(0)
    return {one.select(Standing(tree, {}, exhausted), rng) for _ in range(draws)}


NAMES = st.sampled_from(["epsilon-greedy", "greedy", "mcts", "evolutionary"])


def test_no_leaf_is_drawn_whose_plan_a_sibling_has_repaired() -> None:
    tree = tree_of(
        node(1, 0, ok(3.0)), node(2, 1, failed()), node(3, 2, failed()), node(4, 2, ok(2.5)), node(5, 1, failed())
    )
    assert chosen(tree, policy(epsilon=1.0)) == {4, 5}
    assert chosen(tree, policy(epsilon=1.0, repair_help=0)) == {3, 4, 5}, "as the paper draws"


@given(trees())
def test_who_debugs_sees_the_nearest_verified_candidate_above(tree: Tree) -> None:
    for i in tree.nodes:
        found = tree.last_correct(i)
        above = []
        one = tree.nodes[i]
        while one.parent is not None:
            one = tree.nodes[one.parent]
            above.append(one)
        first = next((one for one in above if not one.failed), None) if tree.nodes[i].failed else None
        assert found == (None if first is None or first.id == 0 else first)


@given(trees(), NAMES, st.integers(0, 2**32), st.data(), st.integers(1, 5), st.integers(1, 4))
def test_no_policy_selects_what_may_not_be_expanded(
    tree: Tree, name: str, seed: int, data: st.DataObject, root_children: int, dead: int
) -> None:
    ids = sorted(tree.nodes)
    exhausted = frozenset(data.draw(st.sets(st.sampled_from(ids))))
    judged = [i for i in ids if tree.nodes[i].verdict is not None]
    busy = data.draw(st.dictionaries(st.sampled_from(judged), st.integers(1, 2), max_size=3))
    one = policy(policy=name, root_children=root_children, dead_branch_children=dead)
    selected = one.select(Standing(tree, busy, exhausted), Random(seed))

    def pruned(i: int) -> bool:
        children = tree.children(i)
        return len(children) > dead and all(n.failed for n in children)

    if selected is not None:
        assert tree.nodes[selected].verdict is not None
        assert selected not in exhausted
        assert selected != 0 or len(tree.children(0)) + busy.get(0, 0) < root_children
        assert not pruned(selected)
    elif not busy and not tree.pending:
        # No starvation: the search only stops when every single node is ruled out.
        assert all(i in exhausted or pruned(i) or (i == 0 and len(tree.children(0)) >= root_children) for i in ids)


def test_the_best_scored_node_is_expanded() -> None:
    tree = tree_of(node(1, 0, ok(4.0)), node(2, 0, ok(3.0)), node(3, 0, failed()))
    assert chosen(tree, policy(policy="greedy")) == {2}
    assert chosen(tree, policy(epsilon=0.0)) == {2}


def test_ties_go_to_the_older_node() -> None:
    assert chosen(tree_of(node(1, 0, ok(4.0)), node(2, 0, ok(4.0))), policy(policy="greedy")) == {1}


def test_the_root_is_not_expanded_beyond_its_cap() -> None:
    few = tree_of(*(node(i, 0, ok(20.0 + i)) for i in range(1, 5)))
    full = tree_of(*(node(i, 0, ok(20.0 + i)) for i in range(1, 6)))
    assert chosen(few, policy(policy="greedy")) == {0}
    assert chosen(full, policy(policy="greedy")) == {1}
    assert 0 not in chosen(full, policy(epsilon=0.5))


def test_a_branch_is_dead_with_more_than_three_children_that_all_failed() -> None:
    def tree(*verdicts: object) -> Tree:
        below = (node(2 + k, 1, verdict) for k, verdict in enumerate(verdicts))  # type: ignore[arg-type]
        return tree_of(node(1, 0, ok(2.0)), *below)

    greedy = policy(policy="greedy")
    assert chosen(tree(failed(), failed(), failed()), greedy) == {1}
    assert chosen(tree(failed(), failed(), failed(), failed()), greedy) == {0}
    assert chosen(tree(failed(), failed(), failed(), failed(), ok(9.0)), greedy) == {1}


def test_a_failed_node_is_repaired_when_nothing_better_is_left() -> None:
    tree = tree_of(*(node(i, 0, failed()) for i in range(1, 6)))
    assert chosen(tree, policy(policy="greedy")) == {1}
    assert chosen(tree, policy(policy="greedy"), exhausted=frozenset({1})) == {2}


def test_exploration_draws_leaves_uniformly_with_probability_epsilon() -> None:
    # Node 1 is best and no leaf; leaves are 2 to 6, some failed.
    tree = tree_of(
        node(1, 0, ok(1.0)), node(2, 1, ok(5.0)), node(3, 1, failed()), node(4, 1, ok(7.0)), node(5, 0, failed()),
        node(6, 0, ok(8.0)),
    )  # fmt: skip
    one = policy(epsilon=0.3)
    rng = Random(20)
    draws = 10_000
    counts = Counter(one.select(Standing(tree, {}, NONE), rng) for _ in range(draws))
    # Binomial: standard deviations are 46 and 24; five of them are allowed.
    assert abs(counts[1] - 0.7 * draws) < 230
    for leaf in range(2, 7):
        assert abs(counts[leaf] - 0.06 * draws) < 120
    assert sum(counts.values()) == counts[1] + sum(counts[leaf] for leaf in range(2, 7))


def test_every_expandable_leaf_comes_to_its_turn() -> None:
    leaves = set(range(2, 40))
    tree = tree_of(node(1, 0, ok(1.0)), *(node(i, 1, ok(5.0) if i % 2 else failed()) for i in leaves))
    assert chosen(tree, policy(), draws=4000) == {1} | leaves


def test_without_an_expandable_leaf_exploring_takes_the_best_node() -> None:
    tree = tree_of(node(1, 0, ok(1.0)), node(2, 1, ok(5.0)))
    assert chosen(tree, policy(epsilon=1.0), exhausted=frozenset({2})) == {1}


def test_an_attempt_in_flight_is_a_virtual_loss() -> None:
    tree = tree_of(node(1, 0, ok(4.0)), node(2, 0, ok(3.0)))

    def select(tree: Tree, busy: dict[int, int], seed: int = 0, **changes: object) -> int | None:
        return policy(**changes).select(Standing(tree, busy, NONE), Random(seed))

    near = tree_of(node(1, 0, ok(3.2)), node(2, 0, ok(3.0)))
    assert select(near, {2: 1}, policy="greedy") == 1
    assert select(near, {2: 1, 1: 1}, policy="greedy") == 2
    assert select(near, {2: 2, 1: 1}, policy="greedy") == 1
    # Far ahead of the others a node is worth several attempts at once; no more than make it a dead branch.
    assert select(tree, {2: 3}, policy="greedy") == 2
    assert select(tree, {2: 4}, policy="greedy") == 1
    assert select(tree_of(*(node(i, 0, failed()) for i in range(1, 6))), {1: 1}, policy="greedy") == 2
    # As a child that failed it counts for throttling and pruning too.
    assert select(tree_of(), {0: 3}, policy="greedy") == 0
    assert select(tree_of(), {0: 4}, policy="greedy") is None
    assert select(tree_of(), {0: 5}, policy="greedy", dead_branch_children=9) is None
    assert {select(tree, {2: 1}, seed, epsilon=1.0) for seed in range(50)} == {1}


def test_policies_are_made_by_name() -> None:
    assert policy_names() == ("best-of-k", "epsilon-greedy", "evolutionary", "greedy", "linear", "mcts")
    with pytest.raises(BadInput, match=r"no search policy named 'ucb'.*auto, best-of-k, epsilon-greedy"):
        policy(policy="ucb")
