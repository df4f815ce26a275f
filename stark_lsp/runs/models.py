"""Who answers as plan, code and debug agent: a registry of teams by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import CodeAgent, DebugAgent, PlanAgent
from stark_lsp.core.verdict import Reference


@dataclass(frozen=True)
class Team:
    """The three agents of a run."""

    plan: PlanAgent
    code: CodeAgent
    debug: DebugAgent


class Analyst(Protocol):
    """What a team may ask of the judge before the search: the measured graph of the reference."""

    async def analyze(self) -> dict[str, Any]:
        """Return the analysis made in the worker (`worker/analysis`)."""
        ...


TeamBuilder = Callable[[Problem, Reference, Analyst, tuple[str, ...]], Awaitable[Team]]
"""Builds a team for one problem; may ask the worker for the analysis. The texts are folders of templates."""

_builders: dict[str, TeamBuilder] = {}


def register(name: str) -> Callable[[TeamBuilder], TeamBuilder]:
    """Register a team builder under `name`."""

    def add(builder: TeamBuilder) -> TeamBuilder:
        _builders[name] = builder
        return builder

    return add


def available() -> tuple[str, ...]:
    """Names that can be asked for."""
    return tuple(sorted(_builders))


def check(name: str) -> None:
    """Raise `BadInput` if `name` is not a registered model."""
    if name not in _builders:
        raise BadInput(f"There is no model {name!r}.", cure=f"Choose one of: {', '.join(available())}.")


async def build(
    name: str, problem: Problem, reference: Reference, analyst: Analyst, prompt_dirs: tuple[str, ...] = ()
) -> Team:
    """Build the team called `name`; templates in `prompt_dirs` win over the built-in ones.

    Raises
    ------
    BadInput
        There is no such model.
    """
    check(name)
    return await _builders[name](problem, reference, analyst, prompt_dirs)


@register("playbook")
async def _playbook(problem: Problem, reference: Reference, analyst: Analyst, prompt_dirs: tuple[str, ...]) -> Team:
    from stark_lsp.playbook.agents import PlaybookAgents

    agents = PlaybookAgents(await analyst.analyze(), problem, reference, prompt_dirs)
    return Team(agents, agents, agents)
