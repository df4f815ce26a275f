"""Selection policies, one file each, by name in a registry.

| name | selects |
|---|---|
| `epsilon-greedy` | the best node, now and then a leaf drawn at random (the paper's) |
| `greedy` | the best node |
| `mcts` | by upper confidence bounds down the tree |
| `evolutionary` | the winner of a tournament among the best and the newest |
| `best-of-k` | the root, and failed samples that may be repaired |
| `linear` | the newest attempt |

`Recorded` follows a list and has no name. A new policy is a new file that `register`s a class.
"""

from stark_lsp.search.policies.best_of_k import BestOfK
from stark_lsp.search.policies.epsilon_greedy import EpsilonGreedy
from stark_lsp.search.policies.evolutionary import Evolutionary
from stark_lsp.search.policies.greedy import Greedy
from stark_lsp.search.policies.linear import Linear
from stark_lsp.search.policies.mcts import MonteCarloTreeSearch
from stark_lsp.search.policies.recorded import Recorded
from stark_lsp.search.policies.registry import Policy, make_policy, policy_names, register

__all__ = [
    "BestOfK",
    "EpsilonGreedy",
    "Evolutionary",
    "Greedy",
    "Linear",
    "MonteCarloTreeSearch",
    "Policy",
    "Recorded",
    "make_policy",
    "policy_names",
    "register",
]
