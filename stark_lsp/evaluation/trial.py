"""Inputs that run: tries a draft in the user's interpreter, and mends it by what the failure says."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import Fault
from stark_lsp.core.status import DeviceChoice, Mode
from stark_lsp.discovery.drafting.drafts import Draft
from stark_lsp.discovery.drafting.guesses import BATCH, GROWN, LENGTH
from stark_lsp.discovery.drafting.stubs import Stub
from stark_lsp.discovery.mending import mend
from stark_lsp.discovery.mending.failures import STAGES, Failure, read_failure
from stark_lsp.discovery.mending.mend_constructors import narrow
from stark_lsp.discovery.workspaces import project_root
from stark_lsp.evaluation.judge import START_LIMIT_S
from stark_lsp.evaluation.supervisor import Supervisor, WorkerTimeout

TRIES = 400
"""Drafts that are tried at most."""
STUCK = 60
"""Tries without a failure of a new kind after which the search is given up."""
SEARCH_S = 45.0
"""Seconds for all tries after the file is loaded."""
TRY_S = 12.0
"""Seconds for one of them; the worker is ended after that."""
STEP = 5
"""Places in a list of proposals that one more step from the first draft counts."""
SLOW_S = 0.6
"""Seconds of a failing try after which a narrower draft is tried next."""
LOSSES = 3
"""Workers that may end at a try, for whatever reason, before the search is given up."""
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
    params = {
        "path": path,
        "text": stub.document,
        "qualname": stub.qualname,
        "device": device.value,
        "limit_s": LOAD_S,
    }

    async def start() -> Supervisor:
        worker = Supervisor(interpreter, str(project_root(Path(path))), log)
        try:
            await worker.start()
            await worker.request("try_class", params, limit_s=START_LIMIT_S, progress=lambda text: tell(text, 0.0))
        except BaseException:
            await asyncio.shield(worker.close())
            raise
        return worker

    return await search(start, stub, mode, tell)


class _Tries:
    """Tries drafts in a worker, and in another one after a try that ended it."""

    def __init__(self, start: Callable[[], Awaitable[Supervisor]], stub: Stub, mode: Mode) -> None:
        self._start = start
        self._stub = stub
        self._mode = mode
        self._worker: Supervisor | None = None

    async def ready(self) -> None:
        """Start a worker if there is none."""
        if self._worker is None:
            self._worker = await self._start()

    async def answer(self, draft: Draft) -> Mapping[str, Any] | str:
        """Return what the worker answers; a text says why it did not."""
        await self.ready()
        assert self._worker is not None
        init, call = self._stub.functions(draft)
        params = {"init": init, "inputs": call, "mode": self._mode.value}
        try:
            answer: Mapping[str, Any] = await self._worker.request("try_inputs", params, limit_s=TRY_S)
        except (WorkerTimeout, Fault) as error:
            await self.close()
            return f"One call took longer than {TRY_S:g} s." if isinstance(error, WorkerTimeout) else str(error)
        return answer

    async def close(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.shield(worker.close())


async def search(
    start: Callable[[], Awaitable[Supervisor]],
    stub: Stub,
    mode: Mode,
    tell: Callable[[str, float], None] = lambda text, share: None,
) -> Outcome:
    """Try the likeliest draft next: one that was made of a try that came far.

    Parameters
    ----------
    start
        Starts a worker that has loaded the class: once, and again after a try that ended one.
    """
    tries = _Tries(start, stub, mode)
    try:
        await tries.ready()
        return await _search(tries, stub, tell)
    finally:
        await tries.close()


async def _search(worker: _Tries, stub: Stub, tell: Callable[[str, float], None]) -> Outcome:
    order = itertools.count()
    waiting: list[tuple[tuple[int, int], int, int, Draft]] = [((0, 0), 0, next(order), stub.draft)]
    seen: set[tuple[str, str]] = set()
    best: tuple[tuple[int, int], Draft, Failure] | None = None
    begin = time.monotonic()
    tries = losses = 0
    news, told = 0, set[str]()
    while waiting and tries < min(TRIES, news + STUCK) and (passed := time.monotonic() - begin) < SEARCH_S:
        came, cost, _, draft = heapq.heappop(waiting)
        text = stub.functions(draft)
        if text in seen:
            continue
        seen.add(text)
        tries += 1
        tell(f"Trying inputs ({tries})", passed / SEARCH_S)
        began = time.monotonic()
        answer = await worker.answer(draft)
        seconds = time.monotonic() - began
        if isinstance(answer, str):
            # It is not known where that was; its maker came at least so far.
            failure = Failure(STAGES[max(1, -came[0])], -came[1], "TooSlow", answer, answer)
            losses += 1
            if losses == LOSSES:
                return Outcome(draft, best[2] if best is not None else failure, tries)
        elif answer["ok"]:
            return Outcome(await _grown(worker, draft), None, tries)
        else:
            failure = read_failure(answer)
        if best is None or failure.progress > best[0]:
            best = failure.progress, draft, failure
        form = re.sub(r"\d+", "", failure.said)
        if form not in told:
            told.add(form)
            news = tries
        stage, steps = failure.progress
        if seconds > SLOW_S and tries > 1:
            heapq.heappush(waiting, ((-stage, -steps - 1), cost, next(order), narrow(draft)))
        for place, proposal in enumerate(mend(draft, failure)):
            # Early proposals of a proposal go before late ones of its maker.
            heapq.heappush(waiting, ((-stage, -steps), cost + STEP + place, next(order), proposal))
    assert best is not None
    return Outcome(best[1], best[2], tries)


async def _grown(worker: _Tries, draft: Draft) -> Draft:
    """Return the draft with batches and lengths worth optimizing for, as far as the class takes them."""
    for sizes in (GROWN, {BATCH: GROWN[BATCH]}, {LENGTH: GROWN[LENGTH]}):
        larger = draft.grown(sizes)
        if larger == draft:
            continue
        answer = await worker.answer(larger)
        if isinstance(answer, str):
            return draft
        if answer["ok"]:
            return larger
    return draft
