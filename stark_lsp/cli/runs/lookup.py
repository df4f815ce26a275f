"""What the actions of `stark-lsp runs` share: finding the run that was meant, times, JSON."""

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
