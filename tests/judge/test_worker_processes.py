"""Who is below a process: by the lists of the kernel, and by looking at everything that runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from stark_lsp.contract import process_trees

TREE = """
import subprocess, sys, threading, time
leaf = "import time; time.sleep(600)"
made = [subprocess.Popen([sys.executable, "-c", leaf])]
threading.Thread(target=lambda: made.append(subprocess.Popen([sys.executable, "-c", leaf])) or time.sleep(600)).start()
while len(made) < 2:
    time.sleep(0.01)
print(*(one.pid for one in made), flush=True)
time.sleep(600)
"""


@pytest.fixture
def tree() -> Iterator[tuple[int, set[int]]]:
    """A process with two below it, one of which another of its threads has started."""
    parent = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    below = {int(word) for word in parent.stdout.readline().split()}
    yield parent.pid, below
    process_trees.kill_below(parent.pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()


def test_both_ways_find_the_children_of_every_thread(tree: tuple[int, set[int]]) -> None:
    pid, below = tree
    assert set(process_trees.below(pid)) == below
    assert set(process_trees.descendants(pid)) == below


def test_it_finds_those_below_those_below(tree: tuple[int, set[int]]) -> None:
    pid, below = tree
    assert {pid, *below} <= set(process_trees.below(os.getpid()))


def test_a_process_that_is_gone_has_nothing_below_it(tree: tuple[int, set[int]]) -> None:
    _, below = tree
    leaf = next(iter(below))
    assert process_trees.below(leaf) == []
    assert process_trees.below(2**22 + 1) == []


def test_without_such_lists_everything_is_looked_at(
    tree: tuple[int, set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, below = tree
    monkeypatch.setattr(process_trees, "_lists", lambda: False)
    monkeypatch.setattr(process_trees, "_children", lambda pid: pytest.fail("there are no lists"))
    assert set(process_trees.below(pid)) == below


def test_it_bears_processes_that_come_and_go() -> None:
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            subprocess.run([sys.executable, "-S", "-c", ""], check=True)

    thread = threading.Thread(target=churn)
    thread.start()
    lasting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            process_trees.below(os.getpid())
        over.set()
        thread.join()
        assert lasting.pid in process_trees.below(os.getpid())
    finally:
        over.set()
        lasting.kill()
        lasting.wait()
