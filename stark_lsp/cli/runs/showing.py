"""`stark-lsp runs show`: one run, or one attempt of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console

from stark_lsp.cli.output import outcome, proposal, results
from stark_lsp.cli.runs import run_words
from stark_lsp.cli.runs.lookup import Actions, find, local_time, print_json
from stark_lsp.cli.terminal import console, diffs, figures, words
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import WriteMode
from stark_lsp.core.steering import Steering
from stark_lsp.store import RunStore, StoredRun


def configure(actions: Actions) -> None:
    """Add the action."""
    showing = actions.add_parser(
        "show",
        help="show tree, numbers and proposal of a run, or one attempt",
        description="Show tree, numbers, spend and proposal of a run; with --node, one attempt of it.",
    )
    showing.add_argument("id", metavar="ID")
    showing.add_argument("--node", type=int, metavar="N", help="show this attempt: its plan, candidate and verdict")
    showing.add_argument(
        "--prompts", action="store_true", help="show what was asked and answered, of one attempt or of all"
    )
    showing.add_argument(
        "--sizes", action="store_true", help="show which sections the questions had, with characters and tokens"
    )
    showing.add_argument("--diff", action="store_true", help="show the proposal as a patch of the whole file")
    showing.add_argument(
        "--source", action="store_true", help="print the candidate's file alone: the attempt's, or the proposal's"
    )
    showing.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    showing.set_defaults(handler=_show)


def _show(args: argparse.Namespace, store: RunStore) -> int:
    stored = store.load(find(store, args.id).id)
    if args.source:
        return _print_source(stored, args.node)
    if args.node is not None or args.prompts or args.sizes:
        from stark_lsp.cli.runs import attempt_page

        return attempt_page.show(store, stored, args.node, prompts=args.prompts, sizes=args.sizes, as_json=args.json)
    if args.json:
        return print_json(results.of_run(stored.run, dict(stored.nodes), store))
    return _show_page(store, stored, diff=args.diff)


def _print_source(stored: StoredRun, number: int | None) -> int:
    """Print a candidate's file as it was judged.

    Raises
    ------
    BadInput
        There is none.
    """
    wanted = stored.run.best if number is None else number
    node = stored.nodes.get(wanted) if wanted is not None else None
    if node is None or not node.candidate.source:
        which = "no proposal" if number is None else f"no candidate of an attempt {number}"
        raise BadInput(
            f"Run {stored.run.id} has {which}.",
            cure=f"stark-lsp runs show {stored.run.id} shows the attempts there are.",
        )
    source = node.candidate.source
    sys.stdout.write(console.clean(source) if sys.stdout.isatty() else source)
    return 0


def _show_page(store: RunStore, stored: StoredRun, *, diff: bool) -> int:
    run, nodes = stored.run, dict(stored.nodes)
    out = console.make()
    show_run(out, run, nodes)
    spent = run_words.spend(store.exchanges.spend(run.id))
    if spent:
        console.line(out, spent)
        console.line(out, f"To read them: stark-lsp runs show {run.id} --node N --prompts", "dim")
        out.print()
    _show_steering(out, run, [said for _, said in store.steerings.since(run.id)])
    if run.best is None:
        return 0
    offer, stale = proposal.standing(run, nodes[run.best], WriteMode.BESIDE)
    diffs.show(out, offer.patch if diff else proposal.folded(run, offer), whole=diff)
    if stale:
        console.line(out, stale, "yellow")
    else:
        console.line(out, f"To put it into the file: stark-lsp runs apply {run.id}", "dim")
    return 0


def show_run(out: Console, run: Run, nodes: Mapping[int, Node]) -> None:
    """Show which run it is and where it was made, with its tree, numbers and conclusion."""
    console.line(out, f"Run {run.id}, {local_time(run.created)}, {words.STATE[run.state]}", "bold")
    console.line(out, f"{console.short_path(run.problem.path)}::{run.problem.qualname}")
    if run.reference is not None:
        environment = run.reference.environment
        console.line(out, f"{words.device(environment)}, torch {environment.torch}, {words.inputs(environment)}", "dim")
    outcome.show(out, run, nodes)


def _show_steering(out: Console, run: Run, said: Sequence[Steering]) -> None:
    """Show what the user told the run, in order."""
    if not said:
        return
    console.line(out, "The run was told:", "bold")
    for one in said:
        console.line(out, f"  after {figures.count(one.attempt, 'attempt')}: {run_words.steering(one)}")
    out.print()
