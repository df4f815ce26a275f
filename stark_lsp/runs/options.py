"""What the user asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import WriteMode
from stark_lsp.runs.providers import Providers

DEFAULT_DOLLARS = 10.0
"""What one run may cost at most if the user said nothing: some hundred questions to a Sonnet."""


@dataclass(frozen=True)
class RunOptions:
    """Options of one run; everything has a default that suits the editor."""

    model: str = "playbook"
    """Who answers as the agents, as a user writes it (`runs.models.parse`): `auto`, `playbook`, `anthropic`,
    `anthropic:NAME`, `openai:NAME`, `openai:NAME@ADDRESS`, `editor`, `replay:FILE`."""
    agents: AgentSettings = field(default_factory=AgentSettings)
    """How a language model is asked; without effect on the playbook."""
    providers: Providers = field(default_factory=Providers)
    """What the front end lends the run."""
    budget: Budget = field(default_factory=Budget)
    default_dollars: float | None = None
    """A limit of money for a run without any limit of its own on tokens or money, where all prices are known."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """Its `attempts` is overruled by `budget.attempts`."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    interpreter: str | None = None
    """The Python that has the project's torch; None finds it (see `evaluation.interpreters`)."""
    prompt_dirs: tuple[str, ...] = ()
    """Folders whose templates win over the built-in ones of `prompts/`; the first that has one wins."""
    resume: bool = False
    """Go on with the newest unfinished run on the same, unchanged class, if there is one; a run that had spent its
    budget is unfinished where this one is larger."""
    run: str | None = None
    """With `resume`: this run and no other is gone on with, in its own system."""
    complete: bool = False
    """Whether settings at their default are meant, as in an editor; else a run taken up keeps its own there."""
    write_mode: WriteMode | None = None
    """Where the proposal would be written; the file so edited is tried before anything is offered. None tries none."""
