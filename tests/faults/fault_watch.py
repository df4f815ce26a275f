"""Looks at what the judge runs: by descent, and by a mark in the environment that survives being orphaned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

MARK = "TORCH_STARK_TEST_MARK"
"""A variable that is handed on to everything the judge starts."""


def tree(root: int | None) -> list[psutil.Process]:
    """Return the live processes below one and itself."""
    assert root is not None
    try:
        top = psutil.Process(root)
        found = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return [one for one in found if running(one)]


def running(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def marked(value: str) -> set[int]:
    """Return all processes of the machine that carry the mark."""
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == value and running(process):
                found.add(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def strays(value: str, root: int | None) -> set[int]:
    """Return what carries the mark and is not below `root`; what is started at this moment is not taken for one."""
    everywhere = marked(value)
    return {pid for pid in everywhere - {one.pid for one in tree(root)} if psutil.pid_exists(pid)}


def by_role(root: int | None, role: str) -> list[psutil.Process]:
    """Return the processes below one that the worker started in a role, newest last."""
    found = []
    for process in tree(root):
        try:
            line = process.cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        at = next((i for i, word in enumerate(line) if word.endswith("judge/__main__.py")), None)
        if at is not None and line[at + 1 : at + 2] == [role] and "bwrap" not in line[0]:
            found.append(process)
    return sorted(found, key=lambda process: process.create_time())


def above(process: psutil.Process) -> list[psutil.Process]:
    """Return the processes that a process descends from, nearest first; none if it ends meanwhile."""
    try:
        return list(process.parents())
    except psutil.NoSuchProcess:
        return []


def kill(process: psutil.Process) -> None:
    """Kill a process, unless it ended by itself."""
    with suppress(psutil.NoSuchProcess):
        process.kill()


def by_name(root: int | None, name: str) -> list[psutil.Process]:
    """Return the processes below one whose program is called so."""
    found = []
    for process in tree(root):
        try:
            if process.name() == name:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)
