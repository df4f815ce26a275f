"""`stark-lsp runs apply` and `runs delete`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stark_lsp.cli.output import proposal
from stark_lsp.cli.page.run_page import kept_at
from stark_lsp.cli.runs.lookup import ALL, Actions, find
from stark_lsp.cli.terminal import console, documents, figures
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import Decision, WriteMode
from stark_lsp.store import RunStore


def configure(actions: Actions) -> None:
    """Add the actions."""
    applying = actions.add_parser("apply", help="write a run's proposal into its file")
    applying.add_argument("id", metavar="ID")
    applying.add_argument("file", metavar="FILE", nargs="?", help="where its file is now, if it was moved")
    applying.add_argument(
        "--write",
        choices=("beside", "replace", "module"),
        default="beside",
        help="after the class (default), in its place, or as a new file",
    )
    applying.set_defaults(handler=_apply)

    deleting = actions.add_parser("delete", help="delete runs")
    deleting.add_argument("ids", metavar="ID", nargs="*")
    deleting.add_argument("--all", action="store_true", help="delete every run")
    deleting.add_argument("--yes", action="store_true", help="do not ask; needed with --all")
    deleting.set_defaults(handler=_delete)


def _apply(args: argparse.Namespace, store: RunStore) -> int:
    stored = store.load(find(store, args.id).id)
    run, nodes = stored.run, dict(stored.nodes)
    if run.best is None:
        raise BadInput(f"Run {run.id} has no proposal.", cure=f"stark-lsp runs show {run.id} says what came of it.")
    path = Path(args.file or run.problem.path).absolute()
    if not path.exists():
        cure = f"If it was moved: stark-lsp runs apply {run.id} FILE, with the file that it is now."
        raise BadInput("There is no such file.", path=str(path), cure=cure)
    best = nodes[run.best]
    run = replace(run, problem=replace(run.problem, path=str(path)))
    offer = proposal.make(run, best, documents.read(path), WriteMode(args.write))
    out = console.make()
    proposal.write(out, run, offer)
    for note in offer.edit.notes:
        console.line(out, note)
    store.decide(run.id, Decision.ACCEPTED, named=stored.run)
    return 0


def _delete(args: argparse.Namespace, store: RunStore) -> int:
    if args.all == bool(args.ids):
        raise BadInput("Name the runs to delete, or use --all.", cure="stark-lsp runs lists them.")
    if args.all and not args.yes:
        raise BadInput("This would delete every run.", cure="Add --yes if that is meant.")
    # All ids are looked up before the first is deleted: a typing error deletes nothing.
    known = {run.id: run for run in store.list(limit=ALL)}
    # What a later stark-lsp wrote cannot be read, but be deleted.
    unread = [one for one in store.ids() if one not in known]
    unique = set(store.ids()) if args.all else {_id(store, prefix, unread) for prefix in args.ids}
    busy = sorted(one for one in unique & known.keys() if not known[one].state.over)
    if busy:
        raise BadInput(f"Still going on: {', '.join(busy)}.", cure="Stop them first.")
    for run_id in unique:
        store.delete(run_id)
        kept_at(run_id).unlink(missing_ok=True)
    console.line(console.make(), f"Deleted {figures.count(len(unique), 'run')}.")
    return 0


def _id(store: RunStore, prefix: str, unread: Sequence[str]) -> str:
    """Return the id of the run that a prefix stands for, `unread` included."""
    found = [one for one in unread if prefix and one.startswith(prefix)]
    return found[0] if len(found) == 1 else find(store, prefix).id
