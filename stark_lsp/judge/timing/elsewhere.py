"""Another process with a candidate that was verified in its first one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ..building.triton_cache import FOLDER_LIMIT
from ..correctness.verify import Verifier
from ..processes import copies
from ..processes.limits import RestWatch
from ..processes.runners import RunnerProcess
from ..service.asking import asking
from ..service.failed import Failed
from .loadable import Loadable

WORDS = "in another process of it"
"""Added to what is told of a failure there."""


@contextmanager
def loaded(
    candidate: Loadable,
    verified: Verifier,
    triton: str,
    working: Callable[[], AbstractContextManager[None]],
) -> Iterator[tuple[RunnerProcess, str]]:
    """Have another confined process load a candidate; it ends with the block.

    What it gives is compared before the block, so that it has built all its kernels, and once more after it.

    Parameters
    ----------
    verified
        What held the first process against the reference.
    triton
        Folder with what Triton compiled there.
    working
        Waits until nobody is timed on the device.

    Yields
    ------
    tuple
        The process, and the candidate's file.

    Raises
    ------
    Failed
        It does not load there, or is not what it was in the first; so does what fails in the block.
    Broken
        No process can be started.
    """
    judge = candidate.judge
    judge.clear()
    runner = judge.children.runner()
    with contextlib.ExitStack() as ending:
        ending.callback(judge.children.end, runner)
        ending.callback(RestWatch(runner.watch_rest).end)
        with contextlib.suppress(OSError, copies.TooLarge):
            copies.copy_tree(triton, runner.files.triton, FOLDER_LIMIT)
        path = candidate.hand_over(runner)
        ask = asking(runner, judge.settings, path)
        verifier = verified.elsewhere(ask, runner)
        try:
            with working():
                ask("load", "load_candidate", **candidate.loading(runner))
                verifier.run_last()
            yield runner, path
            with working():
                verifier.check_again()
        except Failed as failure:
            # The verdict has what the first process printed.
            judge.children.household.end(runner)
            finding, log = failure.finding, runner.log()
            finding.message = f"{finding.message} ({WORDS})"
            finding.details = f"{log}\n{finding.details}" if log and finding.details else log or finding.details
            raise
