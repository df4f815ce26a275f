"""Spares come up while nobody times, whoever wants one gets one, and all that was started is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from stark_lsp.contract import process_trees
from stark_lsp.contract.prctl import adopt_orphans
from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.processes import pool, spawning
from stark_lsp.judge.processes.confinement import Confinement, private_environment
from stark_lsp.judge.processes.environment import cpu_threads, runner_environment
from stark_lsp.judge.processes.failures import RunnerForged
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.pool import AT_ONCE, Pool
from stark_lsp.judge.processes.spawning import BUILDER, COMPILER, RUNNER, start
from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.service import early


@pytest.fixture
def turns(tmp_path: Path) -> Turns:
    return Turns(str(tmp_path / "locks"), "cpu")


@pytest.fixture
def children(tmp_path: Path, turns: Turns) -> Iterator[Pool]:
    (tmp_path / "children").mkdir()
    made = Pool(
        dict(os.environ),
        str(tmp_path / "children"),
        10_000,
        Confinement(Layer.PROCESS, gpu=False),
        None,
        turns=turns,
    )
    yield made
    for child in list(made._kept):
        made.end(child)


def running(folder: Path) -> int:
    return len(list(folder.glob("child-*")))


def test_a_spare_is_not_started_while_somebody_times(children: Pool, turns: Turns, tmp_path: Path) -> None:
    with turns.measuring():
        children.keep_spares(RUNNER, 1)
        time.sleep(0.5)
        assert running(tmp_path / "children") == 0
    runner = children.take(RUNNER)
    assert runner.alive
    assert running(tmp_path / "children") == 1
    children.end(runner)


def test_nobody_times_while_a_spare_comes_up(children: Pool, turns: Turns) -> None:
    children.keep_spares(RUNNER, 1)
    spare = children._spares[RUNNER][0]
    while not spare.running():
        time.sleep(0.001)
    measured = threading.Event()

    def measure() -> None:
        with turns.measuring():
            measured.set()

    time.sleep(0.2)
    assert not spare.done(), "importing torch takes longer"
    threading.Thread(target=measure, daemon=True).start()
    spare.result(60.0)
    assert measured.wait(10.0)
    children.end(children.take(RUNNER))


def test_a_builder_comes_even_if_everything_that_comes_up_waits_for_the_one_who_times(children: Pool) -> None:
    over = threading.Event()
    for _ in range(AT_ONCE):
        children._growing.submit(over.wait)
    children.keep_spares(BUILDER, 1)
    found: list[bool] = []

    def build() -> None:
        builder = children.take(BUILDER)
        found.append(builder.alive)
        children.end(builder)

    thread = threading.Thread(target=build, daemon=True)
    thread.start()
    thread.join(60.0)
    over.set()
    assert found == [True]


def test_on_a_cpu_builders_come_up_ahead_once_one_was_wanted(children: Pool) -> None:
    over = threading.Event()
    for _ in range(AT_ONCE):
        children._growing.submit(over.wait)
    children.fill(1)
    assert [len(children._spares[role]) for role in (RUNNER, BUILDER)] == [1, 0]
    children.keep_spares(BUILDER, 1)
    children.fill(2)
    assert [len(children._spares[role]) for role in (RUNNER, BUILDER)] == [2, 2]
    for spare in (*children._spares[RUNNER], *children._spares[BUILDER]):
        assert spare.cancel()
    over.set()


def test_a_spare_that_died_is_replaced_and_one_that_is_done_goes_first(children: Pool) -> None:
    children.keep_spares(RUNNER, 2)
    first, second = (spare.result(60.0) for spare in children._spares[RUNNER])
    first.kill()
    runner = children.take(RUNNER)
    assert runner.alive
    assert runner is not first
    children.end(runner)
    runner = children.take(RUNNER)
    assert runner is second or runner.alive
    children.end(runner)


def test_nothing_is_left_of_a_process_that_could_not_be_started(
    children: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("Resource temporarily unavailable")

    monkeypatch.setattr(spawning._FORKING, "submit", refuse)
    with pytest.raises(OSError, match="temporarily"):
        children.take(RUNNER)
    assert running(tmp_path / "children") == 0


FORGES = """
import os, stat, struct

text = b'{"result": {"weights_message": "forged"}}'
for number in range(3, 20):
    try:
        if stat.S_ISFIFO(os.fstat(number).st_mode):
            os.write(number, struct.pack(">I", len(text)) + text)
    except OSError:
        pass
"""


def test_an_answer_that_does_not_know_the_request_is_a_forgery(children: Pool, tmp_path: Path) -> None:
    runner = children.take(RUNNER)
    (tmp_path / "candidate.py").write_text(FORGES)
    with pytest.raises(RunnerForged):
        runner.ask(
            "load_candidate",
            path=str(tmp_path / "candidate.py"),
            context=str(tmp_path / "model.py"),
            class_name="ModelNew",
            init="",
            weights="",
            device="cpu",
            mode="eval",
            gradients=False,
            threads=1,
            weights_dtype="",
            autocast="",
            run_s=60.0,
        )
    assert not runner.alive
    children.end(runner)


def test_runners_of_the_reference_come_up_before_they_are_wanted(children: Pool, tmp_path: Path) -> None:
    children.begin(RUNNER, RUNNER, COMPILER)
    folders = tmp_path / "children"
    assert running(folders) == 3
    taken = [children.reference_runner(), children.reference_runner(COMPILER)]
    assert running(folders) == 3, "no others were started"
    children.end_ahead(RUNNER)
    assert running(folders) == 2
    for runner in taken:
        assert runner.ask("record", gradients=False, run_s=60.0) == {}
        children.end(runner)
    children.begin(COMPILER)
    children._ahead[COMPILER][0].kill()
    other = children.reference_runner(COMPILER)
    assert other.alive
    assert running(folders) == 1, "one that has died is not left behind"


def test_what_the_reference_imports_late_is_let_into_the_spares(children: Pool, tmp_path: Path) -> None:
    own = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        children.keep_spares(RUNNER, 1)
        first = children._spares[RUNNER][0].result()
        late = str(tmp_path / "late.py")
        children.prepared(None, [late])
        assert not first.alive
        second = children.take(RUNNER)
        assert second.alive
        assert children.confinement.read == [late]
        children.end(second)
        assert own.poll() is None, "what the user's code has started is left alone"
    finally:
        own.communicate(b"\n")


class Counted(Pool):
    """Counts instead of starting anything; waits for a good moment as on a GPU, if asked to."""

    def __init__(self, folder: Path, turns: Turns, spares: int, *, patient: bool) -> None:
        super().__init__({}, str(folder), 0, Confinement(Layer.PROCESS, gpu=patient), None, turns=turns, spares=spares)
        self.filled = threading.Event()
        self.fill()

    def keep_spares(self, role: str, count: int) -> None:
        self._spares[role] = [Future() for _ in range(count)]
        self.filled.set()

    def ready(self) -> int:
        return len(self._spares[RUNNER])

    def judge(self, *, builds: bool = False) -> None:
        with self.judging():
            self._spares[RUNNER].pop()
            self.filled.clear()
            if builds:
                self.building()


def test_candidates_that_follow_at_once_find_nobody_coming_up(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CALM_S", 60.0)
    kept = Counted(tmp_path, turns, 5, patient=True)
    for left in (4, 3, 2, 1):
        kept.judge()
        assert kept.ready() == left
    kept.judge()
    assert kept.ready() == 5


def test_a_build_is_the_time_to_replace_them_once_few_are_left(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CALM_S", 60.0)
    kept = Counted(tmp_path, turns, 5, patient=True)
    kept.judge(builds=True)
    assert kept.ready() == 4
    kept.judge(builds=True)
    assert kept.ready() == 5


def test_after_a_moment_without_candidates_all_are_replaced(
    tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CALM_S", 0.05)
    kept = Counted(tmp_path, turns, 5, patient=True)
    with kept.judging():
        kept.judge()
        time.sleep(0.2)
        assert kept.ready() == 4, "another candidate is still judged"
    assert kept.filled.wait(10.0)
    assert kept.ready() == 5


def test_without_patience_each_is_replaced_as_soon_as_its_candidate_is_judged(tmp_path: Path, turns: Turns) -> None:
    kept = Counted(tmp_path, turns, 1, patient=False)
    with kept.judging():
        kept._spares[RUNNER].pop()
        kept.building()
        assert kept.ready() == 0
    assert kept.ready() == 1


def test_what_ends_behind_a_verdict_is_waited_for_later(children: Pool) -> None:
    go, over = threading.Event(), []

    def end() -> None:
        go.wait(20.0)
        over.append(True)

    children.end_behind(end)
    begin = time.monotonic()
    children.end_behind(lambda: None)
    assert not over
    go.set()
    children.await_ends()
    assert over == [True]
    assert time.monotonic() - begin < 10.0


def test_several_end_at_a_time(children: Pool) -> None:
    both = threading.Barrier(2, timeout=20.0)

    def end() -> None:
        both.wait()

    children.end_behind(end)
    children.end_behind(end)
    children.await_ends()


def test_what_goes_wrong_is_told_once(children: Pool) -> None:
    def end() -> None:
        raise OSError("no room")

    children.end_behind(end)
    children.end_behind(lambda: None)
    with pytest.raises(OSError, match="no room"):
        children.await_ends()
    children.await_ends()


def test_whoever_ends_everything_waits_for_a_while_only(children: Pool) -> None:
    go = threading.Event()
    children.end_behind(lambda: void(go.wait(20.0)))
    begin = time.monotonic()
    children.await_ends(0.1)
    assert time.monotonic() - begin < 10.0
    go.set()


def void(_: object) -> None:
    """Take what nobody needs."""


def test_none_is_forgotten_when_several_threads_begin_and_wait(children: Pool) -> None:
    over, lock = [0], threading.Lock()

    def end() -> None:
        with lock:
            over[0] += 1

    def work() -> None:
        for _ in range(200):
            children.end_behind(end)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        children.await_ends()
    for thread in threads:
        thread.join()
    children.await_ends()
    assert over == [1600]


def test_an_orphan_of_a_child_ends_with_it(children: Pool) -> None:
    adopt_orphans()
    runner = children.take(RUNNER)
    # In a session of its own, and its parent is gone.
    script = "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert len(process_trees.descendants(os.getpid())) > 1
    children.end(runner)
    assert process_trees.descendants(os.getpid()) == []


def test_beside_a_gpu_children_take_few_cpu_threads(tmp_path: Path) -> None:
    assert [cpu_threads("cpu", 64), cpu_threads("cuda", 64), cpu_threads("cuda", 2)] == [64, 8, 2]
    assert runner_environment(2, str(tmp_path))["OMP_NUM_THREADS"] == "2"


def test_what_came_up_before_the_pool_is_taken_or_ended(tmp_path: Path, turns: Turns) -> None:
    environment, alone = runner_environment(2, str(tmp_path)), Confinement(Layer.PROCESS, gpu=False)
    ours, spare, sees_a_gpu = begun = (
        start(RUNNER, environment, Folder(str(tmp_path)), on_gpu=False),
        start(RUNNER, environment, Folder(str(tmp_path)), on_gpu=False, confinement=alone),
        start(RUNNER, environment, Folder(str(tmp_path)), on_gpu=True),
    )
    made = Pool(environment, str(tmp_path), 10_000, alone, None, turns=turns, early=begun)
    made.begin(RUNNER, RUNNER)
    assert sees_a_gpu.process.wait(10.0) != 0
    assert not Path(sees_a_gpu.files.path).exists()
    taken = [made.reference_runner() for _ in range(2)]
    for runner in taken:
        runner.wait_ready()
    assert ours.process.pid in [runner.pid for runner in taken]
    taken.append(made.take(RUNNER))
    assert taken[-1].pid == spare.process.pid
    assert len({runner.pid for runner in taken}) == 3 == len(made._kept)
    for runner in taken:
        made.end(runner)


def test_a_spare_that_came_up_too_early_for_what_candidates_import_ends(tmp_path: Path, turns: Turns) -> None:
    environment, blind = runner_environment(2, str(tmp_path)), Confinement(Layer.PROCESS, gpu=False)
    spare = start(RUNNER, environment, Folder(str(tmp_path)), on_gpu=False, confinement=blind)
    sees = Confinement(Layer.PROCESS, gpu=False, read=[__file__])
    made = Pool(environment, str(tmp_path), 10_000, sees, None, turns=turns, early=(spare,))
    made.begin()
    assert spare.process.wait(10.0) != 0
    assert made._kept == []


def test_children_come_up_early_only_on_many_cores_with_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"rounds": 9, "compile_baseline": True, "isolation": "off"}
    assert early.roles(settings, writing=True) == [RUNNER] * 2 + [COMPILER] * 2
    assert early.roles({"rounds": 1, "compile_baseline": False}, writing=True) == [RUNNER]
    given: dict[str, Any] = {"settings": settings, "folder": str(tmp_path), "cache_dir": str(tmp_path)}
    monkeypatch.setattr(early, "gpu_present", lambda: True)
    for cores, device in ((2, "auto"), (64, "cpu")):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert early.begun({"device": device}, writing=False, **given).result() == ()
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    begun = early.begun({"device": "auto"}, writing=False, **given).result()
    for one in begun:
        assert one.socket is not None
        one.process.kill()
        one.process.wait()
    assert [(one.role, one.confinement is not None) for one in begun] == [
        (RUNNER, False),
        (RUNNER, False),
        (COMPILER, False),
        (RUNNER, True),
    ]


def test_the_users_python_keeps_what_it_compiles_as_ever_and_a_candidate_writes_nothing(tmp_path: Path) -> None:
    """Packages that were installed without bytecode, as uv does, would be compiled anew by each process."""
    ours = runner_environment(2, str(tmp_path))
    assert ours.get("PYTHONDONTWRITEBYTECODE") == os.environ.get("PYTHONDONTWRITEBYTECODE")
    assert private_environment(ours, Folder(str(tmp_path)))["PYTHONDONTWRITEBYTECODE"] == "1"
