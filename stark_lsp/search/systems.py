"""Systems: who proposes, what is shown, and which policy is their own (paper, section 5).

| name | agents | windows | policy |
|---|---|---|---|
| `stark` | plan, code, debug | dynamic | `epsilon-greedy` |
| `sampling` | one | selected node and root | `best-of-k` |
| `reflexion` | one | selected node and root | `linear` |
| `search-agent` | one | dynamic | `epsilon-greedy` |
| `ma-only` | plan, code, debug | selected node and root | `best-of-k`, failed samples repaired |
| `stark-tools` | plan, code with tools, debug | dynamic | `epsilon-greedy` |

`stark` is the paper's system; `sampling` and `reflexion` are its baselines (Table 1), the next two its ablation
(Table 3); `stark-tools` is ours. A new system is one more line in the table below.
"""

from __future__ import annotations

from dataclasses import dataclass

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import AgentRole, ModelRole


@dataclass(frozen=True)
class System:
    """One way to put agents and search together."""

    name: str
    policy: str
    """Name of its own policy, which `SearchSettings.policy` may overrule."""
    solo: ModelRole | None = None
    """The role in which its one agent is asked; None for a team of plan, code and debug agent."""
    dynamic_windows: bool = True
    """Windows of section 4.4; else the selected node and the root alone."""
    repairs: bool = False
    """Whether failed samples are repaired under `best-of-k`."""

    tools: bool = False
    """Whether the code agent may try its code, and look around, before it hands it in."""

    @property
    def node_role(self) -> AgentRole:
        """Who made its nodes, apart from repairs by a team's debug agent."""
        return AgentRole.CODE if self.solo is None else AgentRole(self.solo.value)


_ALL = (
    System("stark", "epsilon-greedy"),
    System("sampling", "best-of-k", solo=ModelRole.SAMPLING, dynamic_windows=False),
    System("reflexion", "linear", solo=ModelRole.REFLEXION, dynamic_windows=False),
    System("search-agent", "epsilon-greedy", solo=ModelRole.REFLEXION),
    System("ma-only", "best-of-k", dynamic_windows=False, repairs=True),
    System("stark-tools", "epsilon-greedy", tools=True),
)


def system_names() -> tuple[str, ...]:
    """Return the names of all systems, the paper's own first."""
    return tuple(system.name for system in _ALL)


def find_system(name: str) -> System:
    """Return the system of a name.

    Raises
    ------
    BadInput
        There is none.
    """
    system = next((system for system in _ALL if system.name == name), None)
    if system is None:
        raise BadInput(f"There is no system named {name!r}.", cure=f"Choose from: {', '.join(system_names())}.")
    return system
