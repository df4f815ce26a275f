"""Spares come up while nobody times, and whoever wants one gets one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.device.slots import Quiet
from stark_lsp.judge.processes.children import AT_ONCE, BUILDER, RUNNER, Children
from stark_lsp.judge.processes.confinement import Confinement
from stark_lsp.judge.processes.runners import RunnerForged
from stark_lsp.judge.sandbox import Layer


@pytest.fixture
def quiet(tmp_path: Path) -> Quiet:
    return Quiet(str(tmp_path / "locks"), "cpu")


@pytest.fixture
def children(tmp_path: Path, quiet: Quiet) -> Iterator[Children]:
    (tmp_path / "children").mkdir()
    made = Children(
        dict(os.environ),
        str(tmp_path / "children"),
        10_000,
        Confinement(Layer.PROCESS, gpu=False),
        None,
        quiet=quiet,
    )
    yield made
    made.household.end_all()


def running(folder: Path) -> int:
    return len(list(folder.glob("child-*")))


def test_a_spare_is_not_started_while_somebody_times(children: Children, quiet: Quiet, tmp_path: Path) -> None:
    with quiet.measuring():
        children.keep_spares(RUNNER, 1)
        time.sleep(0.5)
        assert running(tmp_path / "children") == 0
    runner = children.runner()
    assert runner.alive
    assert running(tmp_path / "children") == 1
    children.end(runner)


def test_nobody_times_while_a_spare_comes_up(children: Children, quiet: Quiet) -> None:
    children.keep_spares(RUNNER, 1)
    spare = children._spares[RUNNER][0]
    while not spare.running():
        time.sleep(0.001)
    measured = threading.Event()

    def measure() -> None:
        with quiet.measuring():
            measured.set()

    time.sleep(0.2)
    assert not spare.done(), "importing torch takes longer"
    threading.Thread(target=measure, daemon=True).start()
    spare.result(60.0)
    assert measured.wait(10.0)
    children.end(children.runner())


def test_a_builder_comes_even_if_everything_that_comes_up_waits_for_the_one_who_times(children: Children) -> None:
    over = threading.Event()
    for _ in range(AT_ONCE):
        children._growing.submit(over.wait)
    children.keep_spares(BUILDER, 1)
    found: list[bool] = []

    def build() -> None:
        builder = children.builder()
        found.append(builder.alive)
        children.end(builder)

    thread = threading.Thread(target=build, daemon=True)
    thread.start()
    thread.join(60.0)
    over.set()
    assert found == [True]


def test_a_spare_that_died_is_replaced_and_one_that_is_done_goes_first(children: Children) -> None:
    children.keep_spares(RUNNER, 2)
    first, second = (spare.result(60.0) for spare in children._spares[RUNNER])
    first.kill()
    runner = children.runner()
    assert runner.alive
    assert runner is not first
    children.end(runner)
    runner = children.runner()
    assert runner is second or runner.alive
    children.end(runner)


def test_nothing_is_left_of_a_process_that_could_not_be_started(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("Resource temporarily unavailable")

    monkeypatch.setattr(children._spawner, "start", refuse)
    with pytest.raises(OSError, match="temporarily"):
        children.runner()
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


def test_an_answer_that_does_not_know_the_request_is_a_forgery(children: Children, tmp_path: Path) -> None:
    runner = children.runner()
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
            run_s=60.0,
        )
    assert not runner.alive
    children.end(runner)
