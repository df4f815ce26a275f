"""Settings of the agents that a language model answers for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from stark_lsp.core.status import Dialect, Grounding, ModelRole

DIALECTS = ("auto", *(dialect.value for dialect in Dialect if dialect is not Dialect.TORCH))
"""How kernels may be asked for; each but `auto` has rules and an example in `prompts/`."""
SILENCE_S = 600.0
"""Models may think for minutes before a server that sends no pings says anything."""


@dataclass(frozen=True)
class RoleSettings:
    """How a model is asked in one role."""

    model: str = ""
    """Name the service knows it by; empty for the run's default."""
    temperature: float | None = None
    """0 to 1; None leaves it to the model."""
    effort: str | None = None
    """`low`, `medium`, `high` or what else the service takes; None leaves it to the model."""
    max_tokens: int = 32000
    """Most tokens of an answer, thinking included."""


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
    correction_model: str = ""
    """Who corrects within an attempt, whatever the role; empty for the model that the role has."""
    stagnation_model: str = ""
    """Who plans and writes once a search stagnates, whatever the role; empty for nobody else."""
    stagnation_attempts: int = 6
    """Attempts without a new best after which a search stagnates."""
    dialect: str = "auto"
    """One of `DIALECTS`; `auto` is raw."""
    system_message: str = "system"
    """Name of the system message's template in `prompts/`."""
    silence_s: float = SILENCE_S
    """Seconds in which nothing arrives of an answer before it is asked for again."""
    grounding: Grounding = Grounding.REPORT
    """What anchors bind the code agent to."""
    profile: bool = True
    """Show profiles of the reference and the selected node."""
    machine: bool = True
    """Tell what the device can do."""
    edits: bool = True
    """Whether whoever writes may hand in edits to the source that is shown, in place of a whole file."""
    merging: bool = True
    """Whether a plan may combine the selected node with a leader elsewhere in the tree."""
    tool_calls: int = 12
    """Tools that the code agent of a system with tools may call in one attempt."""
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
