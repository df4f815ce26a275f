"""The sweep: which values of what a verified candidate leaves open are fastest, found out within its attempt.

1. What changes one constant is timed first, then combinations, those first that promise most: as if each change made
   the same of any time (`_promise`).
2. What came out faster than the candidate's own values is judged in full, the fastest first; the first that is right
   and really as fast takes the candidate's place. Else its own values stay, and are judged once more as they are
   offered, without the declaration.

Quick figures choose and count for nothing else. A sweep keeps nothing: where it is cut off the candidate stands as it
was written, and a resumed run begins the sweep anew.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.run import Node
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Stage, Swept, Verdict
from stark_lsp.search.tunable import NAME, Misdeclared, Tunable, Tuning, read

AT_ONCE = 4
"""Values under way at a time: on a GPU some are built while others are timed."""
FINALS = 2
"""So many of the fastest are judged in full at most, beside the candidate's own values."""


async def declared(candidate: Candidate) -> Tunable | None:
    """Return what a candidate leaves open.

    Raises
    ------
    Misdeclared
        It cannot be used.
    """
    if NAME not in candidate.source:
        return None
    # In a thread: the editor must not wait for a long source.
    return await asyncio.to_thread(read, candidate.source)


async def misdeclared(candidate: Candidate) -> Verdict | None:
    """Return the verdict on a candidate whose declaration cannot be used; None if there is nothing against it."""
    try:
        await declared(candidate)
    except Misdeclared as reason:
        return Verdict(VerdictStatus.REFUSED, str(reason), reason.line, failed_in=Stage.CHECK)
    return None


async def sweep(
    node: Node,
    tunable: Tunable,
    most: int,
    *,
    glance: Callable[[Candidate], Awaitable[Verdict | None]],
    judge: Callable[[Node], Awaitable[Verdict | None]],
    over: Callable[[], bool],
    say: Callable[[str], None],
) -> Node | None:
    """Return the node with the values that won, and the full verdict on them; None if a judge gave up.

    Parameters
    ----------
    node
        A verified candidate.
    tunable
        What it leaves open.
    most
        So many combinations of values are timed at most.
    glance, judge
        Times quickly; judges in full.
    over
        Whether no further values are to be timed.
    say
        Told what goes on.
    """
    assert node.verdict is not None
    found, scores = {tunable.own: node.verdict}, {tunable.own: node.score}
    left, total = list(tunable.others), min(most, len(tunable.others))

    def written(tuning: Tuning) -> Candidate:
        return replace(node.candidate, source=tunable.source(tuning))

    while len(found) <= total and not over():
        left.sort(key=lambda tuning: _promise(tunable, tuning, scores))
        count = min(AT_ONCE, total + 1 - len(found))
        batch, left = left[:count], left[count:]
        begun = [asyncio.ensure_future(glance(written(tuning))) for tuning in batch]
        try:
            for tuning, coming in zip(batch, begun, strict=True):
                say(f"Tuning {len(found)}/{total}")
                verdict = await coming
                if verdict is None:
                    return None
                found[tuning], scores[tuning] = verdict, replace(node, verdict=verdict).score
        finally:
            await _end(begun)
    better = sorted((tuning for tuning in scores if scores[tuning] < node.score), key=lambda tuning: scores[tuning])
    made, tuning = node, tunable.own
    for tuning in (*better[:FINALS], tunable.own):
        made = replace(node, candidate=written(tuning))
        verdict = await judge(made)
        if verdict is None:
            return None
        found[tuning], made = verdict, replace(made, verdict=verdict)
        if made.score <= node.score:
            break
    swept = tuple(Swept(tunable.words(one), each.status, each.speedup_vs_eager) for one, each in found.items())
    return replace(made, verdict=replace(found[tuning], tuned=tunable.words(tuning), swept=swept))


async def _end(tasks: Iterable[asyncio.Future[Verdict | None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _promise(tunable: Tunable, tuning: Tuning, scores: dict[Tuning, float]) -> tuple[bool, float]:
    """Return what the order of trials follows: one change goes before several, then the time that is expected."""
    changed = tunable.changed(tuning)
    if len(changed) == 1:
        return False, 1.0
    before = scores[tunable.own]
    alone = (scores.get(tunable.with_one(*change), before) for change in changed)
    return True, math.prod(score / before for score in alone)
