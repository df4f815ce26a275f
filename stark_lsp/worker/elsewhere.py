"""Another process with a candidate that was verified in its first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from .classify import classify
from .failed import Failed
from .limits import RestWatch
from .loadable import Loadable
from .runners import RUNNER_FAILURES, RunnerProcess


@contextmanager
def loaded(
    candidate: Loadable, working: Callable[[], AbstractContextManager[None]]
) -> Iterator[tuple[RunnerProcess, str]]:
    """Have another confined process load a candidate; it ends with the block.

    Parameters
    ----------
    working
        Waits until nobody is timed on the device.

    Yields
    ------
    tuple
        The process, and the candidate's file.

    Raises
    ------
    Failed
        It does not load there.
    Broken
        No process can be started.
    """
    children, settings = candidate.judge.children, candidate.judge.settings
    runner = children.runner()
    rest = RestWatch(runner.watch_rest)
    try:
        path = candidate.hand_over(runner)
        try:
            with working():
                candidate.ask(
                    runner, run_s=float(settings["run_timeout_s"]), build_s=float(settings["build_timeout_s"])
                )
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, "load", path)) from error
        yield runner, path
    finally:
        rest.end()
        children.end(runner)
