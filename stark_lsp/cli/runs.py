"""`stark-lsp runs`: what was tried so far."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stark_lsp.core.run import Run
    from stark_lsp.store import RunStore

DESCRIPTION = "List, show, apply or delete past runs. The first characters of an id are enough."

EPILOG = """\
examples:
  stark-lsp runs                          list the newest runs
  stark-lsp runs show 1f3a                tree, numbers and proposal of one
  stark-lsp runs apply 1f3a --write replace
                                          write its proposal into the file
  stark-lsp runs delete 1f3a 77c0         delete two
  stark-lsp runs delete --all --yes       delete all of them
"""

ALL = 1_000_000
"""More runs than anyone has."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `stark-lsp runs`."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    # Without an action the list is shown, with the list's defaults.
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="list this many (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_list)

    listing = actions.add_parser("list", help="list the newest runs (also what plain `stark-lsp runs` does)")
    # Given before the action or after it, an option means the same.
    listing.add_argument("--limit", type=int, default=argparse.SUPPRESS, metavar="N", help="list this many")
    listing.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    listing.set_defaults(handler=_list)

    showing = actions.add_parser("show", help="show tree, numbers and proposal of a run")
    showing.add_argument("id", metavar="ID")
    showing.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print what `optimize --json` writes"
    )
    showing.set_defaults(handler=_show)

    applying = actions.add_parser("apply", help="write a run's proposal into its file")
    applying.add_argument("id", metavar="ID")
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


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit code."""
    from stark_lsp.store import RunStore
    from stark_lsp.store.paths import default_store_path

    store = RunStore(default_store_path())
    store.mark_interrupted()
    return int(args.handler(args, store))


def find(store: RunStore, prefix: str) -> Run:
    """Return the one run whose id begins with `prefix`.

    Raises
    ------
    BadInput
        There is none, or more than one.
    """
    from stark_lsp.core.errors import BadInput

    found = [run for run in store.list(limit=ALL) if run.id.startswith(prefix)] if prefix else []
    exact = [run for run in found if run.id == prefix]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise BadInput(f"There is no run {prefix!r}.", cure="stark-lsp runs lists them.")
    ids = ", ".join(run.id for run in found[:8])
    raise BadInput(f"{prefix!r} stands for {len(found)} runs: {ids}.", cure="Write one more character of the id.")


def _list(args: argparse.Namespace, store: RunStore) -> int:
    from rich.table import Table

    from stark_lsp.cli import console, figures, words
    from stark_lsp.cli.console import clean, short_path

    runs = list(store.list(limit=max(args.limit, 1)))
    if args.json:
        return _print_json([_summary(run, store) for run in runs])
    out = console.make()
    if not runs:
        console.line(out, "No runs yet. stark-lsp optimize FILE makes the first one.")
        return 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("id", "when", "state", "against eager", "on", "class"):
        table.add_column(column, no_wrap=column != "class", overflow="fold")
    for run in runs:
        summary = _summary(run, store)
        gain = summary["speedup_vs_eager"]
        target = f"{short_path(run.problem.path)}::{run.problem.qualname}"
        table.add_row(
            run.id,
            _local_time(run.created),
            words.STATE[run.state],
            figures.times(gain) if gain is not None else "",
            summary["device"] or "",
            clean(target),
        )
    if not out.is_terminal:
        out.width = 400
    out.print(table)
    return 0


def _show(args: argparse.Namespace, store: RunStore) -> int:
    from stark_lsp.cli import console, diffs, documents, outcome, proposal, report, words
    from stark_lsp.core.errors import StarkError
    from stark_lsp.core.status import WriteMode

    stored = store.load(find(store, args.id).id)
    run, nodes = stored.run, dict(stored.nodes)
    if args.json:
        return _print_json(report.of_run(run, nodes))
    out = console.make()
    console.line(out, f"Run {run.id}, {_local_time(run.created)}, {words.STATE[run.state]}", "bold")
    console.line(out, f"{console.short_path(run.problem.path)}::{run.problem.qualname}")
    if run.reference is not None:
        environment = run.reference.environment
        console.line(out, f"{words.device(environment)}, torch {environment.torch}, {words.inputs(environment)}", "dim")
    outcome.show(out, run, nodes)
    if run.best is None:
        return 0
    # The patch against the text the run was made for; whether it still applies is said, not assumed.
    made_for = documents.of_text(Path(run.problem.path), run.problem.text)
    diffs.show(out, proposal.make(run, nodes[run.best], made_for, WriteMode.BESIDE).patch, whole=True)
    try:
        proposal.make(run, nodes[run.best], documents.read(Path(run.problem.path)), WriteMode.BESIDE)
    except StarkError as error:
        console.line(out, str(error), "yellow")
    else:
        console.line(out, f"To put it into the file: stark-lsp runs apply {run.id}", "dim")
    return 0


def _apply(args: argparse.Namespace, store: RunStore) -> int:
    from dataclasses import replace

    from stark_lsp.cli import console, documents, proposal
    from stark_lsp.core.errors import BadInput
    from stark_lsp.core.status import Decision, WriteMode

    stored = store.load(find(store, args.id).id)
    run, nodes = stored.run, dict(stored.nodes)
    if run.best is None:
        raise BadInput(f"Run {run.id} has no proposal.", cure=f"stark-lsp runs show {run.id} says what came of it.")
    document = documents.read(Path(run.problem.path))
    offer = proposal.make(run, nodes[run.best], document, WriteMode(args.write))
    out = console.make()
    for path in proposal.apply(offer):
        console.line(out, f"Written: {console.short_path(path)}", "bold green")
    store.update(replace(run, decision=Decision.ACCEPTED))
    return 0


def _delete(args: argparse.Namespace, store: RunStore) -> int:
    from stark_lsp.cli import console, figures
    from stark_lsp.core.errors import BadInput

    if args.all == bool(args.ids):
        raise BadInput("Name the runs to delete, or use --all.", cure="stark-lsp runs lists them.")
    if args.all and not args.yes:
        raise BadInput("This would delete every run.", cure="Add --yes if that is meant.")
    # All ids are looked up before the first is deleted: a typing error deletes nothing.
    doomed = list(store.list(limit=ALL)) if args.all else [find(store, prefix) for prefix in args.ids]
    busy = [run.id for run in doomed if not run.state.over]
    if busy:
        raise BadInput(f"Still going on: {', '.join(busy)}.", cure="Stop them first.")
    unique = {run.id for run in doomed}
    for run_id in unique:
        store.delete(run_id)
    console.line(console.make(), f"Deleted {figures.count(len(unique), 'run')}.")
    return 0


def _summary(run: Run, store: RunStore) -> dict[str, Any]:
    """Return one line of the list, as JSON values."""
    gain = None
    if run.best is not None:
        verdict = dict(store.load(run.id).nodes)[run.best].verdict
        gain = verdict.speedup_vs_eager.value if verdict is not None and verdict.speedup_vs_eager else None
    return {
        "id": run.id,
        "created": run.created,
        "state": run.state.value,
        "message": run.message,
        "path": run.problem.path,
        "class": run.problem.qualname,
        "device": run.reference.environment.device_type if run.reference is not None else None,
        "speedup_vs_eager": gain,
        "decision": run.decision.value,
    }


def _print_json(value: Any) -> int:
    import json

    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    return 0


def _local_time(iso: str) -> str:
    from datetime import datetime

    try:
        return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return iso
