"""What ends behind a verdict is waited for before the next candidate, and its failures are not lost."""

from __future__ import annotations

import threading
import time

import pytest

from stark_lsp.judge.processes.endings import Endings


def test_it_is_done_meanwhile_and_waited_for_later() -> None:
    endings, go, over = Endings(1), threading.Event(), []

    def end() -> None:
        go.wait(20.0)
        over.append(True)

    endings.begin(end)
    assert not over
    go.set()
    endings.wait()
    assert over == [True]


def test_several_end_at_a_time() -> None:
    endings, both = Endings(2), threading.Barrier(2, timeout=20.0)
    endings.begin(lambda: void(both.wait()))
    endings.begin(lambda: void(both.wait()))
    endings.wait()


def test_what_goes_wrong_is_told_once() -> None:
    endings = Endings(1)

    def end() -> None:
        raise OSError("no room")

    endings.begin(end)
    endings.begin(lambda: None)
    with pytest.raises(OSError, match="no room"):
        endings.wait()
    endings.wait()


def test_whoever_ends_everything_waits_for_a_while_only() -> None:
    endings, go = Endings(1), threading.Event()
    endings.begin(lambda: void(go.wait(20.0)))
    begin = time.monotonic()
    endings.finish(0.1)
    assert time.monotonic() - begin < 10.0
    go.set()
    endings.wait()


def void(_: object) -> None:
    """Take what nobody needs."""


def test_none_is_forgotten_when_several_threads_begin_and_wait() -> None:
    endings, over, lock = Endings(4), [0], threading.Lock()

    def end() -> None:
        with lock:
            over[0] += 1

    def work() -> None:
        for _ in range(200):
            endings.begin(end)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        endings.wait()
    for thread in threads:
        thread.join()
    endings.wait()
    assert over == [1600]
