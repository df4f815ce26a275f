"""The process that runs one cell for `crew.Processes`, which says how it is begun.

One JSON line comes in by standard input: `{"cell", "folder", "interpreter"}`. JSON lines go out by standard output:
`{"says"}` while it works, and at the end `{"row"}` or `{"bad_input"}`. When standard input closes, or on SIGTERM, the
run is stopped as by Ctrl-C, and recorded so.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.measure import measure
from stark_lsp.core.errors import BadInput
from stark_lsp.core.wire import from_wire, to_wire


def main() -> int:
    """Run the cell; returns the exit code."""
    # Whatever else prints here must not get among the answers.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return asyncio.run(_serve(answers))


async def _serve(answers: int) -> int:
    def tell(answer: dict[str, Any]) -> None:
        os.write(answers, json.dumps(answer).encode("ascii") + b"\n")

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    request = json.loads(await reader.readline())
    cell = from_wire(request["cell"], Cell)
    work = asyncio.ensure_future(
        measure(
            cell,
            Path(request["folder"]),
            interpreter=request["interpreter"],
            say=lambda text: tell({"says": text}),
        )
    )
    loop.add_signal_handler(signal.SIGTERM, work.cancel)
    for meant in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C and the end of a terminal are for whoever started us
        loop.add_signal_handler(meant, lambda: None)

    async def watch() -> None:
        while await reader.read(1024):
            pass
        work.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        row = await work
    except asyncio.CancelledError:
        return 130
    except BadInput as error:
        tell({"bad_input": {name: getattr(error, name) for name in ("message", "cure", "path", "line", "details")}})
        return 0
    finally:
        watcher.cancel()
    tell({"row": to_wire(row)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
