"""A run on a language model in a process of its own, to be killed: `python driven_run.py FOLDER ATTEMPTS`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from model_runs import options, problem_in, session

from stark_lsp.store import RunStore


def main() -> None:
    """Go on with the run, or begin it, and say when it has ended."""
    folder, attempts = Path(sys.argv[1]), int(sys.argv[2])
    store = RunStore(folder / "state" / "runs.sqlite3")
    store.mark_interrupted()
    wanted = replace(options(attempts, in_flight=2), resume=True)
    run = asyncio.run(session(problem_in(folder), wanted, store, []).execute())
    print(run.state.value, run.id, flush=True)


if __name__ == "__main__":
    main()
