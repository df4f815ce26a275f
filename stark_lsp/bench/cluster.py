"""Cells on the workers of a Dask.distributed scheduler: one worker for each GPU, on any number of machines.

No file system is shared: a cell's text travels to the worker, its row, store and log travel back. A worker offers its
GPU as the resource `GPU`, so that it runs one cell at a time. When a worker is lost, its cell is run on another one.
Keys do not travel: each worker takes the key of a model from its own environment.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.crew import Result, Say
from stark_lsp.bench.remote import TOPIC, work
from stark_lsp.bench.rows import Outcome, Row, of_failure
from stark_lsp.core.errors import BadInput
from stark_lsp.core.wire import dumps, loads

RESOURCE = "GPU"
"""What a worker must offer; also where cells run on the CPU."""
RETRIES = 2
"""So often a cell that a worker cannot run is given to another. How many lost workers a cell survives is decided by the
scheduler (`distributed.scheduler.allowed-failures`, 3 by default)."""
CONNECT_S = 20
WORKERS_S = 10.0
"""What workers that are just starting are given to appear."""


class Cluster:
    """Runs cells on the workers of a scheduler.

    Parameters
    ----------
    address
        Of the scheduler: `tcp://host:8786`; for `tls://` the certificates are those of Dask's own configuration.
    interpreter
        The Python that has torch on the workers' machines; None has each find its own.
    """

    def __init__(self, address: str, interpreter: str | None = None) -> None:
        self._address = address
        self._interpreter = interpreter

    async def results(self, cells: Sequence[Cell], say: Say) -> AsyncGenerator[Result, None]:
        """See `Crew.results`."""
        client_class, as_completed = _dask()
        try:
            client = await client_class(self._address, asynchronous=True, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            raise BadInput(
                f"No scheduler answers at {self._address}.", cure="Start one: dask scheduler.", details=repr(error)
            ) from error
        futures: dict[Any, Cell] = {}
        try:
            await self._check_workers(client)
            client.subscribe_topic(TOPIC, lambda event: _told(event, say))
            token = secrets.token_hex(4)
            for cell in cells:
                future = client.submit(
                    work,
                    dumps(cell),
                    self._interpreter,
                    key=f"stark-{cell.key}-{token}",
                    resources={RESOURCE: 1},
                    retries=RETRIES,
                    pure=False,
                )
                futures[future] = cell
            async for future in as_completed(list(futures), loop=client.loop):
                yield await _result(future, futures[future])
                future.release()
        finally:
            if futures:
                await client.cancel(list(futures), force=True)
            await client.close()

    async def _check_workers(self, client: Any) -> None:
        """Say at once what would otherwise be waiting for ever.

        Raises
        ------
        BadInput
            No worker offers the resource.
        """
        deadline = time.monotonic() + WORKERS_S
        while True:
            workers = (await client.scheduler.identity())["workers"].values()
            if any(worker.get("resources", {}).get(RESOURCE, 0) >= 1 for worker in workers):
                return
            if time.monotonic() < deadline:
                await asyncio.sleep(0.5)
                continue
            raise BadInput(
                f"None of the {len(workers)} workers at {self._address} offers a {RESOURCE}.",
                cure=f'Start one for each GPU: dask worker {self._address} --nthreads 1 --resources "{RESOURCE}=1".',
            )


def _dask() -> tuple[Any, Any]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise BadInput(
            "--scheduler needs Dask.distributed, which is not installed.", cure="pip install distributed"
        ) from error
    return Client, as_completed


def _told(event: Any, say: Say) -> None:
    """Pass on what a worker says; an event is `(time, message)`."""
    message = event[1] if isinstance(event, (tuple, list)) and len(event) == 2 else None
    if isinstance(message, dict):
        say(str(message.get("key", "")), str(message.get("text", "")))


async def _result(future: Any, cell: Cell) -> Result:
    """Return what came of a task.

    Raises
    ------
    BadInput
        No worker could run it, for a reason that others would meet too.
    """
    if future.status == "finished":
        row, files = await future.result()
        return Result(loads(row, Row), files)
    error = await future.exception()
    if isinstance(error, BadInput):
        raise error
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300] if error is not None else future.status
    return Result(of_failure(cell, Outcome.FAULT, f"No worker could finish it. {reason}"))
