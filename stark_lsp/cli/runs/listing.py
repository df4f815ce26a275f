"""`stark-lsp runs list`: a line for each run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from stark_lsp.cli.runs.lookup import local_time, print_json
from stark_lsp.cli.terminal import console, figures, words
from stark_lsp.cli.terminal.console import clean, short_path
from stark_lsp.core.run import Run
from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore


def show_list(args: argparse.Namespace, store: RunStore) -> int:
    summaries = [summary(run, store) for run in store.list(limit=max(args.limit, 1))]
    if args.json:
        return print_json(summaries)
    show(console.make(), summaries)
    return 0


def show(out: Console, summaries: Sequence[Mapping[str, Any]]) -> None:
    """Show a line for each of some summaries."""
    if not summaries:
        console.line(out, "No runs yet. stark-lsp optimize FILE makes the first one.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("id", "when", "state", "against eager", "on", "class"):
        table.add_column(column, no_wrap=column != "class", overflow="fold")
    for one in summaries:
        gain = one["speedup_vs_eager"]
        table.add_row(
            one["id"],
            local_time(one["created"]),
            words.STATE[RunState(one["state"])],
            figures.times(gain) if gain is not None else "",
            clean(one["device"] or ""),
            clean(f"{short_path(one['path'])}::{one['class']}"),
        )
    if not out.is_terminal:
        out.width = 400
    out.print(table)


def summary(run: Run, store: RunStore) -> dict[str, Any]:
    """Return one line of the list, as JSON values."""
    gain = None
    if run.best is not None:
        verdict = store.verdict(run.id, run.best)
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
