"""`stark-lsp notes`: what later runs take along from earlier ones."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from stark_lsp.agents.observations import noted
from stark_lsp.cli.runs.lookup import add_list, find, local_time, open_store, print_json
from stark_lsp.cli.terminal import console, figures
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Note, Run
from stark_lsp.core.wire import to_wire
from stark_lsp.store import RunStore

DESCRIPTION = """\
What earlier runs found to help or to fail. A run takes up to five notes along, of runs of the same project, on the
same device, on classes with similar operators: a model is told of them, and the playbook tries first what won.
--no-notes of `optimize` takes none, and changes here hold for runs that begin afterwards.
"""

EPILOG = """\
examples:
  stark-lsp notes                         list the notes of the newest runs
  stark-lsp notes show 1f3a.4             one of them; the first characters of the run's id are enough
  stark-lsp notes edit 1f3a.4 "One kernel for norm and gelu: 1.4x, but only in rows below 4096"
                                          put your words in its place
  stark-lsp notes forget 1f3a.4 77c0.2    drop two; the runs keep what was recorded of them
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    add_list(parser, actions, "list the notes of the newest runs", _list)
    showing = actions.add_parser("show", help="show a note and where it comes from")
    showing.add_argument("id", metavar="ID")
    showing.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    showing.set_defaults(handler=_show)
    editing = actions.add_parser("edit", help="put your words in the place of a note")
    editing.add_argument("id", metavar="ID")
    editing.add_argument("text", metavar="TEXT")
    editing.set_defaults(handler=_edit)
    forgetting = actions.add_parser("forget", help="drop notes")
    forgetting.add_argument("ids", metavar="ID", nargs="+")
    forgetting.set_defaults(handler=_forget)


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit code."""
    return int(args.handler(args, open_store()))


def _list(args: argparse.Namespace, store: RunStore) -> int:
    found = list(islice(store.notes.all(), max(args.limit, 1)))
    if args.json:
        return print_json([_as_json(run, note) for run, note in found])
    out = console.make()
    if not found:
        console.line(out, "No notes yet. Runs leave them when they end.")
    for _, note in found:
        console.line(out, f"{note.id}  {noted(note)}")
    return 0


def _show(args: argparse.Namespace, store: RunStore) -> int:
    run, note = _find(store, args.id)
    if args.json:
        return print_json(_as_json(run, note))
    out = console.make()
    console.line(out, noted(note), "bold")
    target = f"{console.short_path(run.problem.path)}::{run.problem.qualname}"
    console.line(out, f"Attempt {note.node} of run {run.id}, {local_time(run.created)}, on {target}, {note.device}.")
    if note.text:
        console.line(out, f"These are your words; it was about: {note.title}", "dim")
    console.line(out, f"All of it: stark-lsp runs show {run.id} --node {note.node}", "dim")
    return 0


def _edit(args: argparse.Namespace, store: RunStore) -> int:
    _, note = _find(store, args.id)
    store.notes.rewrite(note, args.text)
    console.line(console.make(), f"Kept as {note.id}.")
    return 0


def _forget(args: argparse.Namespace, store: RunStore) -> int:
    # All are looked up before the first is dropped: a typing error drops nothing.
    notes = {note.id: note for _, note in (_find(store, given) for given in args.ids)}
    for note in notes.values():
        store.notes.rewrite(note, None)
    console.line(console.make(), f"Forgot {figures.count(len(notes), 'note')}.")
    return 0


def _find(store: RunStore, given: str) -> tuple[Run, Note]:
    """Return the note of an id with its run.

    Raises
    ------
    BadInput
        There is none.
    """
    prefix, _, node = given.rpartition(".")
    if not prefix:
        raise BadInput(f"{given!r} is no id of a note.", cure="It is RUN.NODE, as stark-lsp notes lists it.")
    run = find(store, prefix)
    found = [note for note in store.notes.of(run) if str(note.node) == node]
    if not found:
        raise BadInput(f"There is no note {given!r}.", cure="stark-lsp notes lists them.")
    return run, found[0]


def _as_json(run: Run, note: Note) -> dict[str, Any]:
    return {
        "id": note.id,
        "line": noted(note),
        "path": run.problem.path,
        "class": run.problem.qualname,
        **to_wire(note),
    }
