"""Cells: what is to be run, one problem by one system with one policy and one seed.

A cell holds all that its result depends on, the problem's text included, so that it can be run on any machine. It never
holds a key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stark_lsp import __version__
from stark_lsp.bench.suite import Entry
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice
from stark_lsp.core.wire import to_wire

_UNFIT = re.compile(r"[^A-Za-z0-9]+")
"""What does not stand in a folder's name."""


@dataclass(frozen=True)
class Cell:
    """One run of a benchmark."""

    level: int
    id: str
    file: str
    """Name of the problem's file, without its folder."""
    text: str
    """The problem's file; empty if there is an `error`."""
    model: str
    """Who answers, as a user writes it."""
    search: SearchSettings
    """System, policy and seed are among them."""
    budget: Budget
    evaluation: EvaluationSettings
    agents: AgentSettings = field(default_factory=AgentSettings)
    device: DeviceChoice = DeviceChoice.AUTO
    settings: str = "default"
    """Name of the preset that `evaluation` was made from."""
    error: str = ""
    """Why the problem cannot be used; then there is nothing to run."""
    drawn: str = ""
    """Of what its problem was drawn; see `suite.Entry`."""
    prompts: dict[str, str] = field(default_factory=dict)
    """A user's own templates by name (`prompts`); empty for the built-in ones alone."""
    version: str = __version__
    """The stark-lsp that made the cell; another one would run it differently."""

    @property
    def problem(self) -> str:
        """What the problem is called: `1/19`."""
        return f"{self.level}/{self.id}"

    @property
    def key(self) -> str:
        """What identifies the cell over time; fit for the name of a folder."""
        wire = to_wire(replace(self, version=""))
        del wire["drawn"]  # it is the same run however it came to be asked for
        if not self.prompts:
            del wire["prompts"]  # as before there were any
        digest = hashlib.sha256(json.dumps(wire, sort_keys=True).encode()).hexdigest()[:12]
        words = f"{self.level}-{self.id[:24]}-{self.search.system}-s{self.search.seed}"
        return f"{_UNFIT.sub('-', words).strip('-').lower()}-{digest}"


@dataclass(frozen=True)
class Wanted:
    """What is to be run on every problem."""

    systems: Sequence[str]
    policies: Sequence[str]
    models: Sequence[str]
    seeds: Sequence[int]
    search: SearchSettings
    """System, policy and seed are replaced by those above."""
    budget: Budget
    evaluation: EvaluationSettings
    agents: AgentSettings = field(default_factory=AgentSettings)
    device: DeviceChoice = DeviceChoice.AUTO
    settings: str = "default"
    prompts: dict[str, str] = field(default_factory=dict)


def cells(entries: Iterable[Entry], wanted: Wanted) -> tuple[Cell, ...]:
    """Return a cell for each combination, those of one problem next to each other.

    So what a benchmark has when it is stopped can be compared.
    """
    return tuple(
        Cell(
            level=entry.level,
            id=entry.id,
            file=re.split(r"[/\\]", entry.path)[-1],
            text=entry.text,
            model=model,
            search=replace(wanted.search, system=system, policy=policy, seed=seed, attempts=wanted.budget.attempts),
            budget=wanted.budget,
            evaluation=wanted.evaluation,
            agents=wanted.agents,
            device=wanted.device,
            settings=wanted.settings,
            prompts=wanted.prompts,
            error=entry.error,
            drawn=entry.drawn,
        )
        for entry in entries
        for seed in wanted.seeds
        for model in wanted.models
        for system in wanted.systems
        for policy in wanted.policies
    )
