"""Best of K, linear, Monte-Carlo tree search, evolutionary and recorded selection, each held against its rule."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ROOT, failed, node, ok, tree_of
from test_tree import EMPTY, trees

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility, Standing
from stark_lsp.search.policies import Recorded, make_policy, policy_names
from stark_lsp.search.policies.evolutionary import ELITE, NEWCOMERS, population
from stark_lsp.search.policies.mcts import upper_bound
from stark_lsp.search.tree import Tree, is_empty

NONE: frozenset[int] = frozenset()
NAMES = st.sampled_from(policy_names())


def select(
    tree: Tree,
    name: str,
    *,
    busy: dict[int, int] | None = None,
    closed: frozenset[int] = NONE,
    seed: int = 0,
    **changes: object,
) -> int | None:
    settings = SearchSettings(policy=name, **changes)  # type: ignore[arg-type]
    return make_policy(name, settings).select(Standing(tree, busy or {}, closed), Random(seed))


# --- all of them -----------------------------------------------------------------------------------


@given(
    trees(with_empty=True), NAMES, st.integers(0, 2**32), st.data(), st.sampled_from(["stark", "sampling", "ma-only"])
)
def test_no_policy_selects_what_is_closed_unjudged_or_empty(
    tree: Tree, name: str, seed: int, data: st.DataObject, system: str
) -> None:
    closed = frozenset(data.draw(st.sets(st.sampled_from(sorted(tree.nodes)))))
    ready = [n.id for n in tree.nodes.values() if n.verdict is not None and not is_empty(n)]
    busy = data.draw(st.dictionaries(st.sampled_from(ready), st.integers(1, 3), max_size=3))
    selected = select(tree, name, busy=busy, closed=closed, seed=seed, system=system)
    if selected is not None:
        assert selected in ready
        assert selected not in closed
    elif name == "linear":
        assert closed >= set(ready)
    elif name == "best-of-k":
        assert 0 in closed
    else:
        rules = Eligibility(Standing(tree, busy, closed), SearchSettings())
        assert all(not rules.may_expand(i) or i in busy for i in tree.nodes)


@given(trees(with_empty=True), NAMES, st.integers(0, 1000))
def test_a_loaded_tree_is_selected_from_like_the_one_that_grew(tree: Tree, name: str, seed: int) -> None:
    assert select(tree, name, seed=seed) == select(Tree.from_nodes(tree.nodes.values()), name, seed=seed)


@given(trees(with_empty=True), NAMES, st.integers(0, 1000))
def test_what_left_nothing_to_judge_changes_no_selection(tree: Tree, name: str, seed: int) -> None:
    without = Tree.from_nodes(n for n in tree.nodes.values() if not is_empty(n))
    assert select(tree, name, seed=seed) == select(without, name, seed=seed)


# --- best of K -------------------------------------------------------------------------------------


@given(trees(with_empty=True), st.integers(0, 3))
def test_sampling_always_selects_the_root(tree: Tree, repairs: int) -> None:
    assert select(tree, "best-of-k", system="sampling", repairs=repairs, root_children=1) == 0


def test_a_team_repairs_a_failed_sample_once_before_the_next_one() -> None:
    team = {"system": "ma-only"}
    assert select(tree_of(node(1, 0, failed())), "best-of-k", **team) == 1
    assert select(tree_of(node(1, 0, failed()), node(2, 1, failed())), "best-of-k", **team) == 0
    assert select(tree_of(node(1, 0, failed()), node(2, 1, failed())), "best-of-k", repairs=2, **team) == 2
    assert select(tree_of(node(1, 0, failed()), node(2, 1, ok(3.0))), "best-of-k", repairs=9, **team) == 0
    assert select(tree_of(node(1, 0, failed())), "best-of-k", repairs=0, **team) == 0


def test_a_repair_that_is_under_way_or_left_nothing_is_not_made_again() -> None:
    sample = node(1, 0, failed())
    assert select(tree_of(sample), "best-of-k", system="ma-only", busy={1: 1}) == 0
    assert select(tree_of(sample, node(2, 1)), "best-of-k", system="ma-only") == 0
    assert select(tree_of(sample, node(2, 1, EMPTY)), "best-of-k", system="ma-only") == 0
    assert select(tree_of(sample), "best-of-k", system="ma-only", closed=frozenset({1})) == 0


# --- linear ----------------------------------------------------------------------------------------


@given(trees(with_empty=True))
def test_linear_goes_on_from_the_newest_attempt_with_a_candidate(tree: Tree) -> None:
    ready = [n.id for n in tree.nodes.values() if n.verdict is not None and not is_empty(n)]
    if not tree.pending:
        assert select(tree, "linear") == max(ready)


def test_linear_makes_as_many_lines_as_attempts_are_in_flight() -> None:
    tree = tree_of(node(1, 0, failed()), node(2, 0, ok(4.0)))
    assert select(tree, "linear") == 2
    assert select(tree, "linear", busy={2: 1}) == 1
    assert select(tree, "linear", busy={2: 1, 1: 1}) == 0
    assert select(tree_of(*(node(i, 0) for i in range(1, 9))), "linear") == 0, "no cap on the root"


# --- Monte-Carlo tree search -----------------------------------------------------------------------


def test_the_bound_is_that_of_uct() -> None:
    assert upper_bound(3 * 2**28, 4, math.log(9)) == pytest.approx(0.1875 + 0.5 * math.sqrt(math.log(9) / 4))


def by_definition(tree: Tree, root_children: int = 5, dead: int = 3) -> int | None:
    """The rule of the module's text, written out without sums that are kept."""
    rules = Eligibility(
        Standing(tree, {}, NONE), SearchSettings(root_children=root_children, dead_branch_children=dead)
    )

    def below(i: int) -> list[int]:
        return [j for j in sorted(tree.subtree(i)) if not is_empty(tree.nodes[j])]

    def total(i: int) -> float:
        scores = [tree.nodes[j].score for j in below(i)]
        return sum(ROOT.score / (ROOT.score + score) for score in scores)

    def descend(i: int) -> int | None:
        children = [j for j in tree.child_ids(i) if not is_empty(tree.nodes[j])]
        if rules.may_expand(i) and len(children) < math.sqrt(len(below(i))):
            return i

        def bound(j: int) -> float:
            count = len(below(j))
            return total(j) / count + 0.5 * math.sqrt(math.log(len(below(i))) / count)

        ready = [j for j in children if tree.nodes[j].verdict is not None]
        for j in sorted(ready, key=lambda j: (-round(bound(j), 7), j)):
            found = descend(j)
            if found is not None:
                return found
        return i if rules.may_expand(i) else None

    return descend(0)


@given(trees(with_empty=True), st.integers(1, 5), st.integers(1, 3))
def test_the_descent_is_the_one_that_is_documented(tree: Tree, root_children: int, dead: int) -> None:
    selected = select(tree, "mcts", root_children=root_children, dead_branch_children=dead)
    assert selected == by_definition(tree, root_children, dead)


def test_attempts_in_flight_spread_over_the_tree() -> None:
    tree = tree_of(*(node(i, 0, ok(5.0)) for i in range(1, 6)))
    busy: Counter[int] = Counter()
    for _ in range(5):
        selected = select(tree, "mcts", busy=dict(busy))
        assert selected is not None
        busy[selected] += 1
    assert busy == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}


def test_every_branch_comes_to_its_turn() -> None:
    # One branch is ten times as fast as the four others; all of them are gone on from all the same.
    tree = tree_of(*(node(i, 0, ok(1.0 if i == 1 else 12.0)) for i in range(1, 6)))
    for node_id in range(6, 200):
        selected = select(tree, "mcts")
        assert selected is not None
        tree.add(node(node_id, selected, ok(1.0 if selected in tree.subtree(1) else 12.0)))
    sizes = [len(tree.subtree(i)) for i in range(1, 6)]
    assert min(sizes) > 1
    assert sizes[0] == max(sizes)


# --- evolutionary ----------------------------------------------------------------------------------


@given(trees(with_empty=True))
def test_the_population_are_the_best_and_the_newest(tree: Tree) -> None:
    rules = Eligibility(Standing(tree, {}, NONE), SearchSettings())
    ready = [n for n in tree.nodes.values() if rules.may_expand(n.id)]
    distinct: dict[str, int] = {}
    for one in sorted((n for n in ready if not n.failed), key=lambda n: (n.score, n.id)):
        distinct.setdefault(one.candidate.source, one.id)
    best = list(distinct.values())[:ELITE]
    newest = sorted((n.id for n in ready), reverse=True)[:NEWCOMERS]
    assert population(Standing(tree, {}, NONE), SearchSettings()) == sorted({*best, *newest})


def test_the_fittest_of_a_tournament_wins_and_all_but_the_weakest_can() -> None:
    tree = tree_of(*(node(i, 0, ok(1.0 + i) if i < 5 else failed()) for i in range(1, 7)))
    counts = Counter(select(tree, "evolutionary", seed=seed) for seed in range(2000))
    # Six members (the root is throttled), three drawn: the best is among them in half of all cases.
    assert set(counts) == {1, 2, 3, 4}
    assert abs(counts[1] - 1000) < 112  # five standard deviations
    assert counts[1] > counts[2] > counts[3] > counts[4]


# --- recorded --------------------------------------------------------------------------------------


def test_a_recorded_selection_follows_its_list() -> None:
    policy = Recorded({1: 0, 2: 1, 4: 0})
    tree = tree_of(node(1, 0, ok(3.0)), node(2, 1))

    def at(attempt: int) -> int | None:
        return policy.select(Standing(tree, {}, NONE, attempt), Random(0))

    assert [at(1), at(2), at(3), at(4), at(5)] == [0, 1, None, 0, None]
    assert [policy.number(free) for free in range(1, 6)] == [1, 2, 4, 4, None]
    assert Recorded({3: 2}).select(Standing(tree, {}, NONE, 3), Random(0)) is None, "no verdict yet"
