"""What a policy is, and the policies there are by name.

A policy is made from the settings and sees the standing of the search and the generator; it keeps
nothing between selections, so that a run resumed from the store selects as it would have.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from stark_lsp.core.errors import BadInput
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.eligibility import Standing
from stark_lsp.search.systems import find_system

AUTO = "auto"
"""Stands for the system's own policy."""


class Policy(Protocol):
    """Picks node i of Algorithm 1 (line 4)."""

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node to expand, None if none may be expanded now.

        Parameters
        ----------
        standing
            The tree and what is under way. A node without a verdict, an empty or a closed one must not be returned.
        rng
            The run's generator; the only source of chance.
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
        if name in _factories or name == AUTO:
            raise ValueError(f"there is already a policy named {name!r}")
        _factories[name] = factory
        return factory

    return add


def policy_names() -> tuple[str, ...]:
    """Return the names of all registered policies."""
    return tuple(sorted(_factories))


def make_policy(name: str, settings: SearchSettings) -> Policy:
    """Return the policy registered under `name`; for `auto`, that of the system in the settings.

    Raises
    ------
    BadInput
        There is none, or no such system.
    """
    if name == AUTO:
        name = find_system(settings.system).policy
    factory = _factories.get(name)
    if factory is None:
        names = ", ".join((AUTO, *policy_names()))
        raise BadInput(f"There is no search policy named {name!r}.", cure=f"Choose from: {names}.")
    return factory(settings)
