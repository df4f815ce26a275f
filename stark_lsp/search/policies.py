"""Selection policies: which node to expand next, by name.

A policy is made from the settings and sees the tree, the generator and what is under way; it keeps
nothing between selections, so that a run resumed from the store selects as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from random import Random
from typing import Protocol

from stark_lsp.core.errors import BadInput
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Eligibility
from stark_lsp.search.tree import Tree


class Policy(Protocol):
    """Picks node i of Algorithm 1 (line 4)."""

    def select(self, tree: Tree, rng: Random, busy: Mapping[int, int], exhausted: Set[int]) -> int | None:
        """Return the node to expand, None if none may be expanded.

        Parameters
        ----------
        tree
            All attempts so far. A node without a verdict must not be returned.
        rng
            The run's generator; the only source of chance.
        busy
            For each node with attempts under way whose child is not in the tree yet, how many.
        exhausted
            Nodes for which an agent has nothing to propose; must not be returned.
        """
        ...


PolicyFactory = Callable[[SearchSettings], Policy]

_factories: dict[str, PolicyFactory] = {}


def register(name: str) -> Callable[[PolicyFactory], PolicyFactory]:
    """Register a policy under `name`; for use as a decorator of its class.

    Raises
    ------
    ValueError
        The name is taken.
    """

    def add(factory: PolicyFactory) -> PolicyFactory:
        if name in _factories:
            raise ValueError(f"there is already a policy named {name!r}")
        _factories[name] = factory
        return factory

    return add


def policy_names() -> tuple[str, ...]:
    """Return the names of all registered policies."""
    return tuple(sorted(_factories))


def make_policy(name: str, settings: SearchSettings) -> Policy:
    """Return the policy registered under `name`.

    Raises
    ------
    BadInput
        There is none.
    """
    factory = _factories.get(name)
    if factory is None:
        raise BadInput(f"There is no search policy named {name!r}.", cure=f"Choose from: {', '.join(policy_names())}.")
    return factory(settings)


@register("greedy")
class Greedy:
    """Always the best-scored node that may be expanded."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, tree: Tree, rng: Random, busy: Mapping[int, int], exhausted: Set[int]) -> int | None:
        """Return the best-scored eligible node."""
        return Eligibility(tree, self._settings, busy, exhausted).best()


@register("epsilon-greedy")
class EpsilonGreedy:
    """The paper's adapted rule (section 4.2, "Policy choice and an adapted epsilon-greedy rule").

    With probability epsilon a uniform draw from all expandable leaves, failed ones or not; otherwise,
    or when no leaf can be expanded, the best-scored eligible node.
    """

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, tree: Tree, rng: Random, busy: Mapping[int, int], exhausted: Set[int]) -> int | None:
        """Return a leaf drawn at random, or the best-scored eligible node."""
        standing = Eligibility(tree, self._settings, busy, exhausted)
        if rng.random() < self._settings.epsilon:
            leaves = standing.expandable_leaves()
            if leaves:
                return rng.choice(leaves)
        return standing.best()
