"""Selection policies, one file each, by name.

| name | selects |
|---|---|
| `epsilon-greedy` | the best node, now and then a leaf drawn at random (the paper's) |
| `greedy` | the best node |
| `mcts` | by upper confidence bounds down the tree |
| `evolutionary` | the winner of a tournament among the best and the newest |
| `best-of-k` | the root, and failed samples that may be repaired |
| `linear` | the newest attempt |

`Recorded` follows a list and has no name. A new policy is a new file, and a line in the table below.
"""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.core.errors import BadInput
from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.policies.best_of_k import BestOfK
from stark_lsp.search.policies.epsilon_greedy import EpsilonGreedy
from stark_lsp.search.policies.evolutionary import Evolutionary
from stark_lsp.search.policies.greedy import Greedy
from stark_lsp.search.policies.linear import Linear
from stark_lsp.search.policies.mcts import MonteCarloTreeSearch
from stark_lsp.search.policies.policy import Policy
from stark_lsp.search.policies.recorded import Recorded
from stark_lsp.search.systems import find_system

__all__ = ["Policy", "Recorded", "make_policy", "policy_names"]

AUTO = "auto"
"""Stands for the system's own policy."""

_POLICIES: dict[str, Callable[[SearchSettings], Policy]] = {
    "best-of-k": BestOfK,
    "epsilon-greedy": EpsilonGreedy,
    "evolutionary": Evolutionary,
    "greedy": Greedy,
    "linear": Linear,
    "mcts": MonteCarloTreeSearch,
}


def policy_names() -> tuple[str, ...]:
    """Return the names of all policies."""
    return tuple(_POLICIES)


def make_policy(name: str, settings: SearchSettings) -> Policy:
    """Return the policy of a name; for `auto`, that of the system in the settings.

    Raises
    ------
    BadInput
        There is none, or no such system.
    """
    if name == AUTO:
        name = find_system(settings.system).policy
    if name not in _POLICIES:
        names = ", ".join((AUTO, *policy_names()))
        raise BadInput(f"There is no search policy named {name!r}.", cure=f"Choose from: {names}.")
    return _POLICIES[name](settings)
