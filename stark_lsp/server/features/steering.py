"""What the user tells a run while it goes on: pin, prune, hint, budget, pause.

Each command is written to the store, which the run follows, whoever drives it; the run of this server is told to look
at once. For an unfinished run that nobody drives, it takes effect when the run is taken up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from stark_lsp.core.errors import BadInput
from stark_lsp.core.setting import shown
from stark_lsp.core.status import RunState, SteeringKind
from stark_lsp.server.client.setting_list import SETTINGS
from stark_lsp.server.runs.views import Phase, RunView, no_course
from stark_lsp.server.text.markup import plain

if TYPE_CHECKING:
    from stark_lsp.core.run import Budget, Node
    from stark_lsp.core.steering import Course, Steering
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk

PIN, UNPIN = "stark.pin", "stark.unpin"
PRUNE, RESTORE = "stark.prune", "stark.restore"
HINT = "stark.hint"
PAUSE, RESUME = "stark.pause", "stark.resume"

KINDS = {f"stark.{kind.value}": kind for kind in SteeringKind}
"""Each command, and what it tells a run."""

NOBODY_READS = "No language model answers this run, so nobody would read it."
HINT_LIMIT = 2000
"""Characters of a hint; it enters every prompt from then on."""

_NEED_NODE = frozenset({SteeringKind.PIN, SteeringKind.PRUNE, SteeringKind.RESTORE})
_TAKE_NODE = _NEED_NODE | {SteeringKind.HINT}
_LIMITS = {"attempts": "attempts", "seconds": "timeLimit", "tokens": "tokenLimit", "dollars": "costLimit"}
"""Fields of a budget, each with the setting whose range it has."""


@dataclass(frozen=True)
class Target:
    """The run a command is about."""

    id: str
    name: str
    """Of the class."""
    nodes: frozenset[int]
    """Attempts that can be named."""
    budget: Budget
    """What it may spend as things stand."""
    view: RunView | None
    """What is shown of it, if this server drives it."""
    tree: Mapping[int, Node] = field(default_factory=dict)
    """Its attempts so far."""
    course: Course = field(default_factory=no_course)
    """What all that was said to it adds up to."""
    model: str = ""
    """Who answers."""


def read(kind: SteeringKind, arguments: dict[str, Any], target: Target, when: str) -> Steering:
    """Read what a command says.

    Parameters
    ----------
    arguments
        The JSON object that came with it: `node`, `text`, or fields of a budget.
    when
        The moment, ISO 8601.

    Raises
    ------
    BadInput
        Something in it is missing or wrong.
    """
    from stark_lsp.core import steering as words

    attempt = target.view.attempts if target.view is not None else max(target.nodes, default=0)
    steering = words.Steering(kind, attempt=attempt, when=when)
    node = arguments.get("node")
    if kind in _TAKE_NODE and (node is not None or kind in _NEED_NODE):
        if isinstance(node, bool) or not isinstance(node, int) or node not in target.nodes:
            what = "No attempt was named." if node is None else f"Run {target.id} has no attempt {shown(node)}."
            raise BadInput(what, cure="Use the code action on a plan, or give {run, node}.")
        steering = replace(steering, node=node)
    if kind is SteeringKind.PRUNE and node == 0:
        raise BadInput("The class itself cannot be given up.", cure="Cancel the run instead.")
    if kind is SteeringKind.HINT:
        steering = replace(steering, text=_hint(arguments.get("text")))
    if kind is SteeringKind.BUDGET:
        steering = replace(steering, budget=_budget(arguments, target.budget))
    return steering


def _hint(text: Any) -> str:
    words = plain(text, HINT_LIMIT + 1) if isinstance(text, str) else ""
    if not words:
        raise BadInput("There is nothing to tell the agents.", cure="Give the text: {run, text}.")
    if len(words) > HINT_LIMIT:
        raise BadInput(f"A hint may have {HINT_LIMIT} characters.", cure="Say it shorter.")
    return words


def _budget(arguments: dict[str, Any], now: Budget) -> Budget:
    ranges = {setting.name: setting for setting in SETTINGS}
    changes: dict[str, Any] = {}
    for limit, name in _LIMITS.items():
        if limit not in arguments:
            continue
        value = arguments[limit]
        if value is None and limit != "attempts":
            changes[limit] = None
        elif ranges[name].accepts(value):
            changes[limit] = float(value) if ranges[name].kind == "number" else int(value)
        else:
            raise BadInput(f"{limit} must be {ranges[name].allowed}, not {shown(value)}.")
    if not changes:
        raise BadInput("No limit was named.", cure="Give one of attempts, seconds, tokens and dollars.")
    return replace(now, **changes)


def is_read(view: RunView) -> bool:
    """Whether somebody reads what the agents are told."""
    from stark_lsp.runs.choice import is_told_nothing

    return not is_told_nothing(view.run.model)


async def find(desk: Desk, run: str) -> Target:
    """Return the run a command is about; with no id, the one that has its turn.

    Raises
    ------
    BadInput
        There is no such run, it has not begun, or it has ended for good.
    """
    if not run:
        running = [view for view in desk.active() if view.phase is Phase.RUNNING]
        if not running:
            raise BadInput("No run is under way.", cure="Optimize a class first.")
        run = running[0].id
    view = desk.find(run)
    if view is not None and view.active:
        if view.phase is Phase.QUEUED:
            raise BadInput(f"The run on {view.problem.class_name} has not begun.", cure="Say it once it has its turn.")
        nodes = frozenset(view.nodes) | frozenset(view.plans)
        now = view.session.course if view.session is not None else no_course()
        driven = view.session.run if view.session is not None else view.run
        budget = await asyncio.to_thread(desk.store().steerings.budget, driven)
        return Target(view.id, view.problem.class_name, nodes, budget, view, view.nodes, now, view.run.model)
    from stark_lsp.core import steering as words

    store = desk.store()
    stored = await asyncio.to_thread(store.load, run)
    if stored.run.state is RunState.FINISHED:
        raise BadInput(f"Run {stored.run.id} is over.", cure="Optimize the class again.")
    told = await asyncio.to_thread(store.steerings.since, stored.run.id, 0)
    now = words.course(steering for _, steering in told)
    name, budget = stored.run.problem.class_name, await asyncio.to_thread(store.steerings.budget, stored.run)
    return Target(stored.run.id, name, frozenset(stored.nodes), budget, None, stored.nodes, now, stored.run.model)


def register(server: StarkServer, desk: Desk) -> None:
    """Register the commands."""

    async def tell(kind: SteeringKind, *arguments: Any) -> dict[str, Any]:
        from stark_lsp.core import steering as words
        from stark_lsp.runs.choice import is_told_nothing

        first = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
        run = first.get("run")
        target = await find(desk, run if isinstance(run, str) else "")
        if kind is SteeringKind.HINT and is_told_nothing(target.model):
            raise BadInput(NOBODY_READS, cure="Pin or give up an attempt instead, or set stark.model.")
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        steering = read(kind, first, target, now)
        # What is planned and has no node yet can be named too.
        if steering.node in target.tree and (why := words.objection(steering, target.tree, target.course)):
            raise BadInput(why, cure="`stark.status` says how the run stands.")
        await asyncio.to_thread(desk.store().steerings.add, target.id, steering)
        driven = target.view is not None and target.view.session is not None
        if target.view is not None:
            desk.told(target.view, steering)
        later = "" if driven else " It takes effect where the run is driven, or when it is taken up again."
        from stark_lsp.runs.sitting import spoken

        server.say(f"STARK: {target.name}: {spoken(steering)}{later}")
        return {"status": "told", "run": target.id, "effect": "now" if driven else "later"}

    for command, kind in KINDS.items():
        server.own_command(command)(partial(tell, kind))
