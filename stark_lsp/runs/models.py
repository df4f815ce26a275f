"""The agents of a run: who answers (`choice`) becomes a team."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.conversation import Journal, Model, Question, Spend
from stark_lsp.core.errors import BadInput
from stark_lsp.core.roles import CodeAgent, DebugAgent, Draft, PlanAgent, SoloAgent
from stark_lsp.core.run import Budget, Node, Note, Rejection, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole
from stark_lsp.core.verdict import Reference
from stark_lsp.evaluation.pool import RunJudge
from stark_lsp.runs.choice import EDITOR, PLAYBOOK, REPLAY, ModelChoice
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.resumption import with_default
from stark_lsp.search.seeds import Seeds
from stark_lsp.search.systems import System, find_system

if TYPE_CHECKING:
    from stark_lsp.agents.models.prices import Prices
    from stark_lsp.agents.models.purse import Purse
    from stark_lsp.playbook.agents import PlaybookAgents
    from stark_lsp.store.transcripts import Transcript


@dataclass(frozen=True)
class Team:
    """The agents of a run."""

    plan: PlanAgent | None = None
    code: CodeAgent | None = None
    debug: DebugAgent | None = None
    solo: SoloAgent | None = None
    """For systems of a single agent."""
    seeds: Seeds = field(default_factory=dict)
    """What the playbook knows, below the root before a model is asked."""
    purse: Purse | None = None
    """Holds the budget of tokens and money; None for the playbook."""
    model: Model | None = None
    """Who answers, to be closed at the end; None for the playbook."""
    names: tuple[str, ...] = ()
    """Names of the models that are asked."""
    budget: Budget | None = None
    """What holds, with the limit that comes by itself; None for the budget as it was given."""
    outlook: str = ""
    """What the run will take, for a person; empty where nothing is paid."""


@dataclass(frozen=True)
class Begun:
    """Where a search stands at its beginning, and what the user asked for."""

    run: Run
    reference: Reference
    nodes: dict[int, Node]
    state: str
    """The engine's state as last stored."""
    choice: ModelChoice
    search: SearchSettings
    agents: AgentSettings
    options: RunOptions
    transcript: Transcript | None = None
    """What is replayed."""

    @property
    def system(self) -> System:
        """Who works together in which way."""
        return find_system(self.search.system)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the run took along from earlier ones, unless the user wants that no more."""
        return self.run.notes if self.agents.notes else ()


@dataclass(frozen=True)
class Setting:
    """All that a team may need."""

    begun: Begun
    judge: RunJudge
    journal: Journal
    budget: Budget
    spend: Spend
    """What earlier sittings of the run cost."""
    rejections: tuple[Rejection, ...]
    """What the user turned down in earlier runs on this class."""
    on_spend: Callable[[Spend], None]
    say: Callable[[str], None]
    """Told what goes on, for a person."""
    find: Callable[[int], Node | None]
    """Returns an attempt of the run by its number, None if there is none (yet)."""
    log: Callable[[str], None]


SEEDS = 3
"""Candidates of the playbook that a model finds below the root; at most a third of all attempts."""


def check(choice: ModelChoice, system: System) -> None:
    """Refuse what cannot work together, before anything is begun.

    Raises
    ------
    BadInput
        The playbook was chosen for a system of a single agent, or what calls no tools for one with tools.
    """
    if choice.kind == PLAYBOOK and system.solo is not None:
        raise BadInput(
            f"The playbook works as a team, so it cannot be used with the system {system.name}.",
            cure="Use the system stark or ma-only, or a language model.",
        )
    if choice.kind in (PLAYBOOK, EDITOR) and system.tools:
        who = "The playbook" if choice.kind == PLAYBOOK else "A model that the editor lends"
        raise BadInput(
            f"{who} calls no tools, so it cannot be used with the system {system.name}.",
            cure="Use the system stark, or another model.",
        )


async def build(setting: Setting) -> Team:
    """Build the team that was chosen.

    Raises
    ------
    BadInput
        What was chosen cannot work as asked: no key, unknown prices under a limit of money, the playbook alone.
    """
    if setting.begun.choice.kind != PLAYBOOK:
        return await _learned(setting)

    def tell(note: str) -> None:
        setting.say(note)
        setting.log(note)

    agents = await _playbook_agents(setting, tell)
    return Team(agents, agents, agents)


async def _playbook_agents(setting: Setting, tell: Callable[[str], None] = lambda note: None) -> PlaybookAgents:
    """Return the playbook on the class.

    To load it and to read a long file takes half a second: in a thread, since the editor must not wait for it.
    """
    begun, analysis = setting.begun, await setting.judge.analyze()

    def make() -> PlaybookAgents:
        from stark_lsp.playbook.agents import PlaybookAgents

        return PlaybookAgents(
            analysis,
            begun.run.problem,
            begun.reference,
            begun.options.prompt_dirs,
            setting.judge.written,
            begun.notes,
            tell,
            any_length=begun.search.any_length,
        )

    return await asyncio.to_thread(make)


async def _learned(setting: Setting) -> Team:
    """Build the agents around a language model."""
    from stark_lsp.agents.models import registry

    choice, providers, transcript = setting.begun.choice, setting.begun.options.providers, setting.begun.transcript
    model = await registry.BUILDERS[choice.kind](
        registry.Wanted(
            argument=choice.argument,
            address=choice.address,
            find_key=providers.find_key,
            editor=providers.editor,
            exchanges=transcript.exchanges if transcript is not None else (),
            lenses=transcript is not None and any(node.plan and node.plan.lens for node in transcript.nodes),
            silence_s=setting.begun.agents.silence_s,
            on_wait=setting.say,
            agree=providers.agree,
        ),
    )
    try:
        return await _around(model, setting)
    except BaseException:
        await asyncio.shield(model.close())
        raise


async def _around(model: Model, setting: Setting) -> Team:
    """Build the agents around a model."""
    from stark_lsp.agents.models.journaled import JournaledModel
    from stark_lsp.agents.models.prices import prices_of
    from stark_lsp.agents.models.purse import Purse
    from stark_lsp.agents.prompts import PromptLibrary
    from stark_lsp.agents.team import ModelSolo, ModelTeam
    from stark_lsp.agents.tool_team import ToolTeam
    from stark_lsp.agents.toolbox import Sources

    begun = setting.begun
    run, system, agents = begun.run, begun.system, begun.agents
    # The first look at the name imports the SDK, which takes a second: the editor must not wait for it.
    name = await asyncio.to_thread(lambda: model.name)
    replayed = begun.choice.kind == REPLAY
    prices = await asyncio.to_thread(prices_of, begun.choice.kind)
    roles = _roles(system)
    names = agents.models(roles, name)
    free = replace(setting.budget, tokens=None, dollars=None)
    budget, uncounted = (free, ()) if replayed else _limited(setting, names, prices)
    purse = Purse(budget, prices, setting.spend, setting.on_spend, uncounted)
    purse.check(names)
    journaled = JournaledModel(model, setting.journal, purse)

    def note(attempt: int, text: str) -> None:
        setting.log(f"attempt {attempt}: {text}")

    about: dict[str, Any] = {
        "settings": agents,
        "prompts": PromptLibrary(begun.options.prompt_dirs),
        "seed": run.seed,
        "notes": begun.notes,
        "tried": system.dynamic_windows,
        "tune": begun.search.tune,
        "on_note": note,
        "counted": setting.judge.counted,
    }
    asked: ModelSolo | ModelTeam
    if system.solo is not None:
        asked = ModelSolo(journaled, run.problem, begun.reference, system.solo, **about)
        team = Team(solo=asked)
    else:
        if system.tools:
            sources = Sources(setting.judge, setting.find, begun.notes, setting.say)
            asked = ToolTeam(sources, journaled, run.problem, begun.reference, **about)
        else:
            asked = ModelTeam(journaled, run.problem, begun.reference, **about)
        team = Team(asked, asked, asked)
    # Shows a template that cannot be filled in before anything is paid for.
    questions = await asyncio.to_thread(asked.rehearse, *roles)
    seeds = await _seeds(setting)
    outlook = ""
    if not replayed:
        outlook = f"{_outlook(setting, len(seeds), questions, prices, name)} {_held(budget, setting.budget, uncounted)}"
    return replace(team, seeds=seeds, purse=purse, model=model, names=names, budget=budget, outlook=outlook)


def _limited(setting: Setting, names: tuple[str, ...], prices: Prices) -> tuple[Budget, tuple[str, ...]]:
    """Return the budget, with the limit that comes by itself where none was set, and models that this does not count.

    It is held over those whose price is known, and not at all where none is.
    """
    unpriced = tuple(name for name in names if prices.of(name) is None)
    if len(unpriced) == len(names):
        return setting.budget, ()
    budget = with_default(setting.budget, setting.begun.options.default_dollars)
    return budget, () if budget == setting.budget else unpriced


def _held(budget: Budget, asked: Budget, uncounted: tuple[str, ...]) -> str:
    """Return which limit holds, of tokens or money."""
    if budget.tokens is None and budget.dollars is None:
        return "No limit of tokens or dollars holds."
    if budget.dollars is None or asked.dollars is not None:
        return "No question is asked that could cross a limit."
    but = f"; what {' and '.join(uncounted)} takes is not counted, its price is unknown" if uncounted else ""
    return f"The run stops before ${budget.dollars:.2f}, since no other limit was set{but}."


def _roles(system: System) -> tuple[ModelRole, ...]:
    """Return the roles that a system asks in."""
    return (ModelRole.PLAN, ModelRole.CODE, ModelRole.DEBUG) if system.solo is None else (system.solo,)


def _outlook(setting: Setting, seeds: int, questions: tuple[Question, ...], prices: Prices, name: str) -> str:
    """Return what the run will take."""
    from stark_lsp.agents.models.estimate import estimate, measure

    # As a window shows an attempt: a kernel is some times as long as what it stands for, and what came of it is shown.
    begun = setting.begun
    size = 2 * len(begun.run.problem.slice.text) + 3000
    sizes = {question.role: measure(question, size) for question in questions}
    done = max(seeds, sum(1 for node in begun.nodes.values() if node.parent is not None))
    left = max(1, setting.budget.attempts - done)
    text = estimate(begun.system.name, left, sizes, begun.agents, prices, name).text
    return f"{text} {_routing(begun.agents)}".rstrip()


def _routing(agents: AgentSettings) -> str:
    """Return who else is asked, and when; the estimate does not know how often that will be."""
    parts = []
    if agents.correction_model:
        parts.append(f"{agents.correction_model} corrects within an attempt")
    if agents.stagnation_model:
        count = agents.stagnation_attempts
        after = "1 attempt" if count == 1 else f"{count} attempts"
        parts.append(f"{agents.stagnation_model} plans and writes after {after} without a new best")
    return f"Not in that: {'; '.join(parts)}." if parts else ""


async def _seeds(setting: Setting) -> Seeds:
    """Return what the playbook knows, by the attempts that it takes; of a replay, what it knew then."""
    begun = setting.begun
    if begun.transcript is not None:
        nodes = begun.transcript.nodes
        return {node.id: Draft(node.candidate, node.plan) for node in nodes if node.parent == 0 and _is_seed(node)}
    count = min(SEEDS, setting.budget.attempts // 3)
    # Once a model was asked, its answers belong to the attempts that are open.
    if not begun.agents.playbook or count == 0 or setting.spend.calls:
        return {}
    agents = await _playbook_agents(setting)
    if reason := await agents.reason():
        setting.log(f"no candidates of the playbook to begin with: {reason}")
    return dict(enumerate(await agents.seeds(count, setting.rejections), start=1))


def _is_seed(node: Node) -> bool:
    return node.plan is not None and bool(node.plan.strategy)
