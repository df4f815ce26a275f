"""`stark-lsp runs pin | unpin | prune | restore | hint | budget | pause | resume`: a word with a run that goes on.

What is said is written to the store, and the process that drives the run follows it there. So it works from any
terminal, whoever began the run; a run that stands still heeds it when somebody goes on with it.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, TypeAlias

from stark_lsp.cli.runs import run_words
from stark_lsp.cli.runs.lookup import Actions, find, no_attempt
from stark_lsp.cli.terminal import console
from stark_lsp.cli.terminal.console import short_path
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import RunState
from stark_lsp.core.steering import Course, Steering, SteeringKind, course, objection
from stark_lsp.runs.choice import is_told_nothing
from stark_lsp.store import RunStore, StoredRun

Say: TypeAlias = Callable[[argparse.Namespace, StoredRun, Course], Steering | str]

MOST_HINT = 2000
"""Characters of a hint; it stands in every prompt that it is about."""

_WHEN = (
    "Takes effect within a second while the run goes on; on an unfinished run that stands still, when it is resumed."
)


def configure(actions: Actions) -> None:
    """Add the actions."""
    pinning = _add(actions, "pin", _pin, "go on from one attempt as long as it may be expanded")
    pinning.add_argument("node", metavar="NODE", type=int, help="number of the attempt; 0 is the original class")
    _add(actions, "unpin", _unpin, "let the search choose freely again")
    pruning = _add(actions, "prune", _prune, "give an attempt and all below it up")
    pruning.add_argument("node", metavar="NODE", type=int, help="number of the attempt")
    restoring = _add(actions, "restore", _restore, "take an attempt up again that was given up by prune")
    restoring.add_argument("node", metavar="NODE", type=int, help="number of the attempt")
    hinting = _add(actions, "hint", _hint, "tell the agents something")
    hinting.add_argument("text", metavar="TEXT")
    hinting.add_argument("--node", type=int, metavar="N", help="only for this attempt and what comes of it")
    budgeting = _add(actions, "budget", _budget, "change what a run may spend; what is not named stays as it is")
    budgeting.add_argument("--attempts", type=_count, metavar="N")
    budgeting.add_argument("--seconds", type=_limit(float), metavar="S", help="a number, or `none` for no limit")
    budgeting.add_argument("--tokens", type=_limit(int), metavar="N", help="a number, or `none`")
    budgeting.add_argument("--dollars", type=_limit(float), metavar="X", help="a number, or `none`")
    _add(actions, "pause", _pause, "begin no further attempt; those under way are finished")
    _add(
        actions,
        "resume",
        _resume,
        "go on after a pause (a stopped run goes on with `stark-lsp optimize FILE --resume`)",
    )


def _add(actions: Actions, name: str, say: Say, line: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}. {_WHEN}")
    parser.add_argument("id", metavar="ID")
    parser.set_defaults(handler=_steer, say=say)
    return parser


def _steer(args: argparse.Namespace, store: RunStore) -> int:
    stored = store.load(find(store, args.id).id)
    run = stored.run
    if run.state is RunState.FINISHED:
        raise BadInput(
            f"Run {run.id} is finished, so there is nothing to steer.", cure="stark-lsp runs lists those that go on."
        )
    now = replace(course(said for _, said in store.steerings.since(run.id)), budget=store.steerings.budget(run))
    say: Say = args.say
    said = say(args, stored, now)
    out = console.make()
    if isinstance(said, str):
        console.line(out, said)
        return 0
    begun = max(stored.nodes, default=0)
    said = replace(said, attempt=begun, when=datetime.now(timezone.utc).isoformat(timespec="seconds"))
    store.steerings.add(run.id, said)
    console.line(out, f"Run {run.id} was told: {run_words.steering(said)}.", "bold green")
    if run.state.over:
        console.line(
            out,
            f"It stands still. This takes effect when you go on with it: stark-lsp optimize {_target(stored)} --resume",
            "yellow",
        )
    return 0


# --- what can be said ------------------------------------------------------------------------------


def _pin(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    node = _node(args.node, stored)
    if now.pinned == node:
        return f"Attempt {node} is pinned already."
    return _sensible(Steering(SteeringKind.PIN, node), stored, now)


def _unpin(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    return "Nothing is pinned." if now.pinned is None else Steering(SteeringKind.UNPIN)


def _prune(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    node = _node(args.node, stored)
    if node == 0:
        raise BadInput(
            "That is the original class: everything is below it.",
            cure="To end the run, press Ctrl-C where it goes on, or cancel it in the editor.",
        )
    if node in now.pruned:
        return f"Attempt {node} was given up already."
    return Steering(SteeringKind.PRUNE, node)


def _restore(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    return _sensible(Steering(SteeringKind.RESTORE, _node(args.node, stored)), stored, now)


def _hint(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    node = None if args.node is None else _node(args.node, stored)
    text = args.text.encode("utf-8", "replace").decode().strip()  # an argument may hold what UTF-8 cannot encode
    if is_told_nothing(stored.run.model):
        raise BadInput(
            f"No language model answers run {stored.run.id}, so nobody would read it.",
            cure="Pin or give up an attempt instead; --model names a language model for the next run.",
        )
    if not text:
        raise BadInput("The hint is empty.", cure="Say what the agents should know.")
    if len(text) > MOST_HINT:
        raise BadInput(f"The hint has {len(text)} characters; at most {MOST_HINT} fit.", cure="Say it more briefly.")
    return Steering(SteeringKind.HINT, node, text)


def _budget(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    names = ("attempts", "seconds", "tokens", "dollars")
    asked = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    before = now.budget or stored.run.budget
    if not asked:
        raise BadInput("Say what may be spent.", cure="Use --attempts, --seconds, --tokens or --dollars; see --help.")
    changes: dict[str, Any] = {name: None if value == _NONE else value for name, value in asked.items()}
    budget = replace(before, **changes)
    if budget == before:
        return "The budget is that already."
    return Steering(SteeringKind.BUDGET, budget=budget)


def _pause(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    return "The run pauses already." if now.paused else Steering(SteeringKind.PAUSE)


def _resume(args: argparse.Namespace, stored: StoredRun, now: Course) -> Steering | str:
    if now.paused:
        return Steering(SteeringKind.RESUME)
    if not stored.run.state.over:
        return "The run is not paused."
    raise BadInput(
        f"Run {stored.run.id} is not paused, it stands still.",
        cure=f"To go on with it: stark-lsp optimize {_target(stored)} --resume",
    )


# --- helpers ---------------------------------------------------------------------------------------

_NONE = "none"


def _node(number: int, stored: StoredRun) -> int:
    """Return the number of an attempt that is there.

    Raises
    ------
    BadInput
        There is none of this number.
    """
    if number not in stored.nodes:
        raise no_attempt(stored.run, number)
    return number


def _sensible(said: Steering, stored: StoredRun, now: Course) -> Steering:
    """Return what is said, if it makes sense.

    Raises
    ------
    BadInput
        It does not; the cure names what was given up so far.
    """
    why = objection(said, stored.nodes, now)
    if why:
        given_up = ", ".join(str(number) for number in sorted(now.pruned))
        cure = f"Given up so far: {given_up}; `stark-lsp runs restore {stored.run.id} N` takes one up again."
        raise BadInput(why, cure=cure if given_up else "No attempt of this run was given up.")
    return said


def _target(stored: StoredRun) -> str:
    problem = stored.run.problem
    return shlex.quote(f"{short_path(problem.path)}::{problem.qualname}")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _limit(kind: type[float] | type[int]) -> Callable[[str], float | int | str]:
    """Return what reads a limit: a number above 0, or `none`."""

    def read(text: str) -> float | int | str:
        if text.lower() == _NONE:
            return _NONE
        number = kind(text)
        if not 0 < number < 1e12:
            raise argparse.ArgumentTypeError("must be a number above 0, or `none`")
        return number

    read.__name__ = "number"  # argparse names it when the text is no number
    return read
