"""Another process with a candidate that was verified in its first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from .classify import classify
from .failed import Failed
from .limits import RestWatch
from .runners import RUNNER_FAILURES, RunnerProcess

if TYPE_CHECKING:
    from .judging import Judge


@contextmanager
def loaded(
    judge: Judge,
    source: str,
    loading: Callable[[RunnerProcess], dict[str, Any]],
    build: Callable[[RunnerProcess, dict[str, Any]], dict[str, Any]],
    working: Callable[[], AbstractContextManager[None]],
) -> Iterator[tuple[RunnerProcess, str]]:
    """Have another confined process load the candidate; it ends with the block.

    Parameters
    ----------
    source
        The candidate.
    loading
        Returns what a runner is told to load it.
    build
        Answers a runner's request to build.
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
    runner = judge.children.runner()
    rest = RestWatch(runner.watch_rest)
    try:
        path = runner.files.write("candidate.py", source)
        runner.builds = lambda request: build(runner, request)
        run_s, build_s = float(judge.settings["run_timeout_s"]), float(judge.settings["build_timeout_s"])
        try:
            with working():
                runner.ask("load_candidate", run_s=run_s, build_s=build_s, **loading(runner))
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, "load", path)) from error
        yield runner, path
    finally:
        rest.end()
        judge.children.end(runner)
