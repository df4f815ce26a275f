"""What the actions of `stark-lsp runs` share: the store, finding the run that was meant, times, JSON."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from stark_lsp.cli.terminal.console import clean
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Run

if TYPE_CHECKING:
    from stark_lsp.store import RunStore

Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

ALL = 1_000_000
"""More runs than anyone has."""


def open_store() -> RunStore:
    """Return the store, in which the runs of processes that died are noted now."""
    from stark_lsp.store import RunStore
    from stark_lsp.store.paths import default_store_path

    store = RunStore(default_store_path())
    store.mark_interrupted()
    return store


def find(store: RunStore, prefix: str) -> Run:
    """Return the one run whose id begins with `prefix`.

    Raises
    ------
    BadInput
        There is none, or more than one.
    """
    found = [run for run in store.list(limit=ALL) if run.id.startswith(prefix)] if prefix else []
    exact = [run for run in found if run.id == prefix]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise BadInput(f"There is no run {prefix!r}.", cure="stark-lsp runs lists them.")
    ids = ", ".join(run.id for run in found[:8])
    raise BadInput(f"{prefix!r} stands for {len(found)} runs: {ids}.", cure="Write one more character of the id.")


def no_attempt(run: Run, number: int) -> BadInput:
    """Return the error that a run has no attempt of this number."""
    cure = f"stark-lsp runs show {run.id} shows the attempts there are."
    return BadInput(f"Run {run.id} has no attempt {number}.", cure=cure)


def add_list(parser: argparse.ArgumentParser, actions: Actions, line: str, handler: Any) -> None:
    """Add the action `list`, which is also what the command does without an action; `line` is its help."""
    listing = actions.add_parser("list", help=f"{line} (also what plain `{parser.prog}` does)")
    # Given before the action or after it, an option means the same.
    listing.add_argument("--limit", type=int, default=argparse.SUPPRESS, metavar="N", help="list this many")
    listing.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="list this many (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    for each in (parser, listing):
        each.set_defaults(handler=handler)


def print_json(value: Any) -> int:
    """Write a JSON value to standard output and return the exit code."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    return 0


def local_time(iso: str) -> str:
    """Return a recorded time in this machine's time zone."""
    try:
        return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return clean(iso)
