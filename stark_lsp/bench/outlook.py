"""What the runs of a benchmark on language models will take, told before the first of them begins.

As for a single run (`agents.models.estimate`), from the real size of prompts and from assumptions about answers. Of all
problems that one system is to be run on, that of the middle length stands for the others: how long answers are is far
less certain than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from stark_lsp.agents.models.estimate import Estimate, estimate, measure, taking
from stark_lsp.agents.models.names import default_model
from stark_lsp.agents.models.prices import Prices, prices_of
from stark_lsp.agents.models.replay import ReplayModel
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.bench import prompts
from stark_lsp.bench.cells import Cell
from stark_lsp.bench.suite import CLASS
from stark_lsp.core.conversation import Question
from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import DeviceChoice, Mode, ModelRole
from stark_lsp.core.verdict import Baselines, Environment, Reference, Timing
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs import choice
from stark_lsp.runs.options import DEFAULT_DOLLARS
from stark_lsp.search.systems import find_system

_MS = Timing(1.0, 0.9, 1.1, 20)
"""Stands for times that nobody has taken yet."""
_NODE = 3000
"""Characters that a context window shows of an attempt besides its source."""


@dataclass(frozen=True)
class Outlook:
    """The least and the most that is likely, of all runs together."""

    runs: int
    calls: tuple[int, int]
    tokens: tuple[int, int]
    dollars: tuple[float, float] | None
    """US dollars, within the limits of the runs; None if a price is unknown."""
    limit: float | None
    """US dollars that all runs together cannot cross; None if there is no such limit."""
    unpriced: tuple[str, ...] = ()
    """Models whose price is unknown."""
    prices_date: str = ""

    @property
    def text(self) -> str:
        """The outlook for a person, in a sentence or two."""
        taken = taking(self.calls, self.tokens, self.dollars, self.prices_date)
        told = f"An estimate for {self.runs} {'run' if self.runs == 1 else 'runs'} on language models: {taken}."
        if self.unpriced:
            told += f" The price of {', '.join(self.unpriced)} is unknown."
        if self.limit is not None:
            each = f"Each stops before ${self.limit / self.runs:,.2f}, so all of them" if self.runs > 1 else "It"
            told += f" {each} cannot cost more than ${self.limit:,.2f}."
        return told


def outlook(cells: Sequence[Cell]) -> Outlook | None:
    """Return what cells will take that are to be run; None if no language model is asked.

    Raises
    ------
    BadInput
        A template cannot be filled in, or the user's own price list cannot be read.
    """
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        asked = choice.parse(cell.model)
        if not cell.error and asked is not None and asked.learned:
            groups.setdefault((cell.search.system, cell.model), []).append(cell)
    if not groups:
        return None
    prices = prices_of(choice.ANTHROPIC)
    found = []
    for own in groups.values():
        middle = sorted(own, key=lambda cell: (len(cell.text), cell.key))[len(own) // 2]
        one = _of_one(middle, prices)
        found.append((len(own), one, _limit(middle, one)))
    runs = sum(count for count, _, _ in found)
    limits = [(count, limit) for count, _, limit in found if limit is not None]
    money = [
        (count, [min(end, limit) if limit is not None else end for end in one.dollars])
        for count, one, limit in found
        if one.dollars is not None
    ]
    return Outlook(
        runs,
        calls=(sum(n * one.calls[0] for n, one, _ in found), sum(n * one.calls[1] for n, one, _ in found)),
        tokens=(sum(n * one.tokens[0] for n, one, _ in found), sum(n * one.tokens[1] for n, one, _ in found)),
        dollars=(sum(n * ends[0] for n, ends in money), sum(n * ends[1] for n, ends in money))
        if len(money) == len(found)
        else None,
        limit=sum(n * limit for n, limit in limits) if len(limits) == len(found) else None,
        unpriced=tuple(dict.fromkeys(name for _, one, _ in found for name in one.unpriced)),
        prices_date=prices.date,
    )


def _of_one(cell: Cell, prices: Prices) -> Estimate:
    problem = make_problem(cell.file, cell.text, CLASS, mode=Mode.AS_CONSTRUCTED, device=cell.device)
    questions = _questions(cell, problem)
    sizes = {question.role: measure(question, 2 * len(problem.slice.text) + _NODE) for question in questions}
    return estimate(cell.search.system, cell.budget.attempts, sizes, cell.agents, prices, _name(cell))


def _questions(cell: Cell, problem: Problem) -> tuple[Question, ...]:
    """Return the first question of each role, with times that stand for those that are yet to be taken."""
    from stark_lsp.agents.team import ModelSolo, ModelTeam

    where = ("A CPU", "cpu") if cell.device is DeviceChoice.CPU else ("A GPU", "cuda")
    reference = Reference(Environment(*where, "3.11", "python", "2.9"), Baselines(_MS, _MS))
    nobody = ReplayModel(())
    solo = find_system(cell.search.system).solo
    with TemporaryDirectory() as folder:
        prompts.write(cell.prompts, Path(folder))
        library = PromptLibrary((folder,))
        if solo is not None:
            return ModelSolo(nobody, problem, reference, solo, cell.agents, prompts=library).rehearse(solo)
        team = ModelTeam(nobody, problem, reference, cell.agents, prompts=library)
        return team.rehearse(ModelRole.PLAN, ModelRole.CODE, ModelRole.DEBUG)


def _limit(cell: Cell, one: Estimate) -> float | None:
    """Return the dollars before which a run stops, the limit that comes by itself included."""
    if cell.budget.dollars is not None or cell.budget.tokens is not None or one.unpriced:
        return cell.budget.dollars
    return DEFAULT_DOLLARS


def _name(cell: Cell) -> str:
    """Return the model that is asked where a role names none."""
    asked = choice.parse(cell.model)
    if asked is not None and asked.argument:
        return asked.argument
    try:
        return default_model()
    except LookupError as error:
        raise BadInput("The installed SDK lists no model.", cure="Name one: --model anthropic:NAME.") from error
