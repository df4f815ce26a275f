"""Whenever the process is killed, every answer that it had kept is there."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_keeper import numbered
from store_cases import run

from stark_lsp.store import RunStore

SCRIPT = Path(__file__).with_name("killed_keeper.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(run())
    store.close()
    return store.path


def start(path: Path, first: int, left: int = 0) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPT), str(path), str(first), str(left)]
    # Unbuffered: `communicate` would not find what `readline` has read ahead.
    return subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check(path: Path, acknowledged: int) -> int:
    """Check that exchanges 0 to `acknowledged` - 1 are there whole; return how many there are."""
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    store = RunStore(path)
    found = store.exchanges.list("r1")
    assert len(found) >= acknowledged
    # One more may have been committed before it could be told.
    assert len(found) <= acknowledged + 1
    assert list(found) == [numbered(number) for number in range(len(found))]
    (texts,) = store._database._open().execute("SELECT count(*) FROM texts").fetchone()
    assert texts == (3 + 3 * len(found) if found else 0), "no text without its exchange"
    store.close()
    return len(found)


def test_killed_at_random_points_every_exchange_that_was_kept_is_there(path: Path) -> None:
    rng = random.Random(4)
    kept = 0
    for _ in range(10):
        child = start(path, kept)
        assert child.stdout is not None
        acknowledged = kept
        for _ in range(rng.randrange(1, 12)):
            acknowledged = int(child.stdout.readline()) + 1
        time.sleep(rng.random() * 0.01)  # somewhere in what comes next
        child.send_signal(signal.SIGKILL)
        told, errors = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL, errors.decode()
        whole = told.decode().splitlines(keepends=True)
        acknowledged = max([acknowledged, *(int(line) + 1 for line in whole if line.endswith("\n"))])
        kept = check(path, acknowledged)
    assert kept >= 10


@pytest.mark.parametrize("transactions", [1, 4])
def test_killed_in_the_middle_of_a_transaction_nothing_of_it_is_there(path: Path, transactions: int) -> None:
    child = start(path, 0, transactions)
    told, errors = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, errors.decode()
    assert told.decode().split() == [str(number) for number in range(transactions)]
    assert check(path, transactions) == transactions


def test_two_processes_keep_exchanges_and_steer_one_run_at_once(path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[3])\n"
        "from store_cases import exchange; from stark_lsp.store import RunStore\n"
        "from stark_lsp.core.steering import Steering, SteeringKind\n"
        "store, first = RunStore(sys.argv[1]), int(sys.argv[2]); print('ready', flush=True); input()\n"
        "for n in range(first, first + 25):\n"
        "    store.exchanges.keep('r1', exchange(n))\n"
        "    print(store.steerings.add('r1', Steering(SteeringKind.HINT, text=str(n))))\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(first), str(SCRIPT.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (0, 100)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    store, last = RunStore(path), 0
    followed: list[str] = []
    while any(child.poll() is None for child in children):
        for number, said in store.steerings.since("r1", last):
            followed.append(said.text)
            last = number
        assert store.exchanges.spend("r1").calls >= len(followed), "what was said came after its exchange"
    followed += [said.text for _, said in store.steerings.since("r1", last)]
    numbers = [int(line) for child in children for line in child.communicate(timeout=60)[0].split()]
    assert [child.returncode for child in children] == [0, 0]
    assert len(set(numbers)) == 50
    wanted = {*range(25), *range(100, 125)}
    assert sorted(followed, key=int) == [str(number) for number in sorted(wanted)], "each was found exactly once"
    assert {one.question.attempt for one in store.exchanges.list("r1")} == wanted
    assert store.exchanges.spend("r1").calls == 50
