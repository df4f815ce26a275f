"""Inputs that run: tries a draft in the user's interpreter, and mends it by what the failure says."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stark_lsp.core.errors import Fault
from stark_lsp.core.status import DeviceChoice, Mode
from stark_lsp.discovery.drafts import Draft
from stark_lsp.discovery.failures import Failure, read_failure
from stark_lsp.discovery.guesses import BATCH, GROWN, LENGTH
from stark_lsp.discovery.mending import mend
from stark_lsp.discovery.stubs import Stub
from stark_lsp.evaluation.judge import START_LIMIT_S, _working_directory
from stark_lsp.evaluation.supervisor import Supervisor, WorkerTimeout

TRIES = 400
"""Drafts that are tried at most."""
STUCK = 60
"""Tries without a failure of a new kind after which the search is given up."""
SEARCH_S = 30.0
"""Seconds for all tries after the file is loaded."""
TRY_S = 20.0
"""Seconds for one of them; the worker is ended after that."""
LOAD_S = 60.0
"""Seconds for loading the file."""


@dataclass(frozen=True)
class Outcome:
    """What came of trying."""

    draft: Draft
    """The draft that ran, else the one that came furthest."""
    failure: Failure | None
    """What the best one failed with; None if it ran."""
    tries: int


async def find_inputs(
    stub: Stub,
    path: str,
    *,
    interpreter: str,
    device: DeviceChoice,
    mode: Mode,
    log: Callable[[str], None],
    tell: Callable[[str, float], None] = lambda text, share: None,
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Try the draft of a class, and mend it until it runs or time is over.

    Parameters
    ----------
    log
        Told each line that the user's code prints.
    tell
        Told what goes on, and which share of the time has passed.

    Raises
    ------
    BadInput
        There is no usable torch, or the file cannot be loaded.
    Fault
        The worker broke.
    """
    worker = Supervisor(interpreter, _working_directory(path), log, variables)
    await worker.start()
    try:
        params = {
            "path": path,
            "text": stub.document,
            "qualname": stub.qualname,
            "device": device.value,
            "limit_s": LOAD_S,
        }
        await worker.request("try_class", params, limit_s=START_LIMIT_S, progress=lambda text: tell(text, 0.0))
        return await search(worker, stub, mode, tell)
    finally:
        await asyncio.shield(worker.close())


async def search(
    worker: Supervisor, stub: Stub, mode: Mode, tell: Callable[[str, float], None] = lambda text, share: None
) -> Outcome:
    """Try the likeliest draft next: one that was made of a try that came far."""
    order = itertools.count()
    waiting: list[tuple[tuple[int, int], int, int, Draft]] = [((0, 0), 0, next(order), stub.draft)]
    seen: set[tuple[str, str]] = set()
    best: tuple[tuple[int, int], Draft, Failure] | None = None
    begin = time.monotonic()
    tries = 0
    news, told = 0, set[str]()
    while waiting and tries < min(TRIES, news + STUCK) and (passed := time.monotonic() - begin) < SEARCH_S:
        _, depth, _, draft = heapq.heappop(waiting)
        init, call = stub.functions(draft)
        if (init, call) in seen:
            continue
        seen.add((init, call))
        tries += 1
        tell(f"Trying inputs ({tries})", passed / SEARCH_S)
        try:
            answer = await worker.request(
                "try_inputs", {"init": init, "inputs": call, "mode": mode.value}, limit_s=TRY_S
            )
        except (WorkerTimeout, Fault) as error:
            said = f"One call took longer than {TRY_S:g} s." if isinstance(error, WorkerTimeout) else str(error)
            failure = Failure("construct", 0, "TooSlow", said, said)
            return Outcome(draft, best[2] if best is not None else failure, tries)
        if answer["ok"]:
            return Outcome(await _grown(worker, stub, draft, mode), None, tries)
        failure = read_failure(answer)
        if best is None or failure.progress > best[0]:
            best = failure.progress, draft, failure
        form = re.sub(r"\d+", "", failure.said)
        if form not in told:
            told.add(form)
            news = tries
        stage, steps = failure.progress
        for proposal in mend(draft, failure):
            heapq.heappush(waiting, ((-stage, -steps), depth + 1, next(order), proposal))
    assert best is not None
    return Outcome(best[1], best[2], tries)


async def _grown(worker: Supervisor, stub: Stub, draft: Draft, mode: Mode) -> Draft:
    """Return the draft with batches and lengths worth optimizing for, as far as the class takes them."""
    for sizes in (GROWN, {BATCH: GROWN[BATCH]}, {LENGTH: GROWN[LENGTH]}):
        larger = draft.grown(sizes)
        init, call = stub.functions(larger)
        if larger == draft:
            continue
        try:
            answer = await worker.request(
                "try_inputs", {"init": init, "inputs": call, "mode": mode.value}, limit_s=TRY_S
            )
        except (WorkerTimeout, Fault):
            return draft
        if answer["ok"]:
            return larger
    return draft
