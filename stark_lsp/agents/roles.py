"""The roles of the paper (section 4.1) as Protocols: what search asks of whoever answers.

They are words of the domain and live in `stark_lsp.core.roles`; this is the place to look for them when
writing an agent. An agent is any object with the one method of its role; it gets a `Context` and a seeded
`random.Random`, and draws every random choice from it, so that a run replays.
"""

from stark_lsp.core.roles import CodeAgent, Context, DebugAgent, Judge, NothingToPropose, PlanAgent

__all__ = ["CodeAgent", "Context", "DebugAgent", "Judge", "NothingToPropose", "PlanAgent"]
