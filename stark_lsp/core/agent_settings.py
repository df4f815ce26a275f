"""Settings of the agents that a language model answers for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from stark_lsp.core.setting import setting
from stark_lsp.core.settings import DAY_S
from stark_lsp.core.status import Dialect, Grounding, ModelRole

DIALECTS = ("auto", *(dialect.value for dialect in Dialect if dialect is not Dialect.TORCH))
"""How kernels may be asked for; each but `auto` has rules and an example in `prompts/`."""
MOST_TOKENS = 500_000
"""Upper end of `max_tokens`; a service has its own, lower one."""
SILENCE_S = 600.0
"""Models may think for minutes before a server that sends no pings says anything."""


@dataclass(frozen=True)
class RoleSettings:
    """How a model is asked in one role; `{role}` in a description stands for its name."""

    model: str = setting("", "Model of the {role} role; empty for the run's default.")
    """Name the service knows it by."""
    temperature: float | None = setting(
        None, "Temperature of the {role} role; null leaves it to the model.", 0, 1, kind="number"
    )
    effort: str | None = setting(
        None, "Effort of the {role} role, such as low, medium or high; null leaves it to the model.", kind="string"
    )
    max_tokens: int = setting(
        32000, "Most tokens of an answer in the {role} role, thinking included.", 1000, MOST_TOKENS
    )


def _role(temperature: float) -> RoleSettings:
    return RoleSettings(temperature=temperature)


@dataclass(frozen=True)
class AgentSettings:
    """How the agents are asked; temperatures are the paper's (Appendix B)."""

    plan: RoleSettings = field(default_factory=lambda: _role(0.8))
    code: RoleSettings = field(default_factory=lambda: _role(0.1))
    debug: RoleSettings = field(default_factory=lambda: _role(0.1))
    sampling: RoleSettings = field(default_factory=lambda: _role(0.7))
    reflexion: RoleSettings = field(default_factory=lambda: _role(0.7))
    correction_model: str = setting(
        "", "Model of corrections within an attempt, for instance a cheaper one; empty for the model of the role."
    )
    stagnation_model: str = setting(
        "",
        "Model that plans and writes once a search stagnates, for instance a stronger one; empty for no other model.",
    )
    stagnation_attempts: int = setting(6, "Attempts without a new best after which a search stagnates.", 1, 1000)
    dialect: str = "auto"
    """One of `DIALECTS`; `auto` is raw."""
    system_message: str = setting("system", "Name of the system message's template in prompts/.")
    silence_s: float = setting(
        SILENCE_S, "Seconds without a sign of an answer, a ping included, after which it is asked for again.", 1, DAY_S
    )
    grounding: Grounding = Grounding.REPORT
    """What anchors bind the code agent to."""
    profile: bool = True
    """Show profiles of the reference and the selected node."""
    machine: bool = setting(
        True,
        "Tell the agents what the device can do: its units, caches, measured rates, and the software there is for it.",
    )
    history: bool = setting(
        True,
        "Tell agents of attempts outside their window in a line, spare the code agent the sources of slower ones, "
        "and show sources that are alike as what differs.",
    )
    edits: bool = setting(True, "Take edits to the source that is shown in place of a whole file.")
    merging: bool = setting(
        True,
        "Let a plan combine two attempts: the one it goes on from, and one of the best of another branch.",
    )
    tool_calls: int = setting(
        12, "Tools that the code agent may call in one attempt, with the system stark-tools.", 1, 100
    )
    playbook: bool = True
    """Begin with what the built-in playbook knows, for the agents to improve."""
    notes: bool = True
    """Take along what helped or failed in earlier runs of the same project, for the playbook too."""

    def of(self, role: ModelRole) -> RoleSettings:
        """Return the settings of one role."""
        settings: RoleSettings = getattr(self, role.value)
        return settings

    def routed(self, role: ModelRole, *, correction: bool = False, stagnant: int = 0) -> RoleSettings:
        """Return how a role is asked now.

        Parameters
        ----------
        correction
            Whether it is to correct what it made of this attempt.
        stagnant
            Attempts since the last new best. Repairs stay with their own model: they are of an idea that was had.
        """
        settings, model = self.of(role), ""
        if stagnant >= self.stagnation_attempts and role is not ModelRole.DEBUG:
            model = self.stagnation_model
        if correction:
            model = self.correction_model or model
        return replace(settings, model=model) if model else settings

    def models(self, roles: Iterable[ModelRole], default: str) -> tuple[str, ...]:
        """Return all models that may be asked in these roles; `default` stands for those that are not named."""
        named = [self.of(role).model or default for role in roles]
        return tuple(dict.fromkeys(filter(None, (*named, self.correction_model, self.stagnation_model))))
