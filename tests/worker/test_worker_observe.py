"""What is said about a device on which something was timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from stark_lsp.worker import nvml
from stark_lsp.worker.observe import OTHERS, CpuTime, cpu_notes, cpu_time, gpu_notes, observing


def state(**changes: object) -> nvml.State:
    known = {"sm_mhz": 1980, "memory_mhz": 2619, "throttled": 0, "celsius": 40, "utilization": 100, "processes": (7,)}
    return nvml.State(**{**known, **changes})  # type: ignore[arg-type]


def test_a_quiet_gpu_is_not_mentioned_however_busy_it_says_it_is() -> None:
    assert gpu_notes([state(), state()], {7}) == []


@pytest.mark.parametrize(
    ("throttled", "words"),
    [
        (0x20, "The GPU slowed down from heat while this was timed (91 °C)."),
        (0x40, "The GPU slowed down from heat while this was timed (91 °C)."),
        (0x80, "The GPU slowed down to protect itself while this was timed."),
        (0x4, "The GPU ran at its power limit while this was timed."),
    ],
)
def test_a_gpu_that_slows_down_says_why(throttled: int, words: str) -> None:
    assert gpu_notes([state(), state(throttled=throttled, celsius=91)], {7}) == [words]


def test_a_changing_clock_is_told_with_its_figures() -> None:
    notes = gpu_notes([state(sm_mhz=1980), state(sm_mhz=1200)], {7})
    assert notes == ["The GPU's clock changed between 1200 and 1980 MHz while this was timed."]


def test_other_processes_on_the_gpu_are_told_but_not_our_own() -> None:
    assert gpu_notes([state(processes=(7, 8))], {7}) == ["Another process uses this GPU: times are less certain."]
    assert gpu_notes([state(processes=(7, 8)), state(processes=(9,))], {7}) == [
        "2 other processes use this GPU: times are less certain."
    ]


def test_what_a_gpu_does_not_tell_is_left_out() -> None:
    assert gpu_notes([state(sm_mhz=None, celsius=None, utilization=None, processes=())], set()) == []
    assert gpu_notes([], set()) == []


def test_cpu_load_of_others_is_told_and_our_own_is_not() -> None:
    idle = CpuTime(100.0, 0.0, 50.0)
    assert cpu_notes(idle, CpuTime(102.0, 0.0, 52.0), 1.0, 2) == []
    assert cpu_notes(idle, CpuTime(101.5, 0.0, 50.5), 1.0, 2) == [
        "Other programs kept 1.0 of 2 CPUs busy while this was timed: times are less certain."
    ]
    assert "virtual machine" in cpu_notes(idle, CpuTime(100.0, 0.5, 50.0), 1.0, 2)[0]
    assert cpu_notes(idle, CpuTime(200.0, 9.0, 50.0), 0.01, 2) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_work_of_our_own_children_counts_as_ours() -> None:
    before = cpu_time()
    assert before is not None
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        child.wait()
    after = cpu_time()
    assert after is not None
    assert after.ours - before.ours >= 0.25
    assert after.all - before.all >= after.ours - before.ours - 0.1


def test_observing_a_cpu_gives_what_was_seen_when_the_block_ends() -> None:
    with observing("cpu") as watch:
        time.sleep(0.15)
        assert watch.notes == []
    assert watch.busy == (watch.others > OTHERS)
    assert 0.0 <= watch.others <= os.cpu_count()  # type: ignore[operator]
    assert (watch.unlucky > 0) == any("Other programs" in note for note in watch.notes)


def test_without_the_library_nothing_is_known() -> None:
    if nvml.open_gpu() is not None:
        pytest.skip("there is an NVIDIA GPU")
    assert nvml.open_gpu("GPU-00000000-0000-0000-0000-000000000000") is None
