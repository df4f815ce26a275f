"""What is said about a device on which something was timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from stark_lsp.contract import process_trees
from stark_lsp.judge.device import nvml, observe
from stark_lsp.judge.device.observe import OTHERS, CpuTime, Strangers, cpu_notes, cpu_time, gpu_notes, observing


def state(**changes: object) -> nvml.State:
    known = {"sm_mhz": 1980, "throttled": 0, "celsius": 40, "processes": (7,)}
    return nvml.State(**{**known, **changes})  # type: ignore[arg-type]


def test_a_quiet_gpu_is_not_mentioned() -> None:
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
    assert gpu_notes([state(sm_mhz=None, celsius=None, processes=())], set()) == []
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


def test_who_can_be_told_by_number_is() -> None:
    assert Strangers().among([state(processes=(7, 8))], {7, 9}) == {8}
    assert Strangers().among([state(processes=(7,))], {7, 9}) == set()
    assert Strangers().among([state(processes=())], {7, 9}) == set()


def test_in_a_container_our_own_processes_alone_are_not_taken_for_others() -> None:
    """NVML numbers them as the host does, so that none is known here; some end while it is looked."""
    strangers = Strangers()
    strangers.were_there([])
    for _ in range(3):
        seen = [state(processes=(41001, 41002, 41003)), state(processes=(41001, 41003))]
        assert strangers.among(seen, {1, 7, 8, 9}) == set()


def test_in_a_container_one_who_was_there_before_us_is_told_as_long_as_it_stays() -> None:
    strangers = Strangers()
    strangers.were_there([40000, 39999])
    assert strangers.among([state(processes=(40000, 41001))], {1, 7}) == {40000}
    assert strangers.among([state(processes=(41001,))], {1, 7}) == set()


def test_in_a_container_one_who_comes_while_something_is_timed_is_told_from_then_on() -> None:
    strangers = Strangers()
    seen = [state(processes=(41001, 41002)), state(processes=(41001, 41002, 50000))]
    assert strangers.among(seen, {1, 7, 8}) == {50000}
    assert strangers.among([state(processes=(41001, 41005, 50000))], {1, 7, 8}) == {50000}


def test_in_a_container_more_than_we_have_at_all_are_not_all_ours() -> None:
    strangers = Strangers()
    assert len(strangers.among([state(processes=(1001, 1002, 1003))] * 2, {1, 7})) == 1
    # One that ended just now may still be listed for a moment.
    seen = [state(processes=(1001, 1002, 1003)), state(processes=(1001, 1002))]
    assert strangers.among(seen, {1, 7}) == set()


def test_other_judges_of_the_same_user_are_no_strangers() -> None:
    """They keep quiet while one measures."""
    strangers = Strangers()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as below:
        strangers.judges = lambda: {os.getpid()}
        seen = [state(processes=(4000007, os.getpid(), below.pid, 4000008))]
        assert strangers.among(seen, {4000007}) == {4000008}
        below.communicate()


def test_in_a_container_with_other_judges_only_a_surplus_is_told() -> None:
    strangers = Strangers()
    strangers.were_there([40000])
    strangers.judges = lambda: {4000001}
    assert strangers.among([state(processes=(40000, 41001))] * 2, {1, 7}) == set(), "it may be theirs"
    assert strangers.among([state(processes=(40000,)), state(processes=(40000, 41001))], {1, 7}) == set()
    assert len(strangers.among([state(processes=(40000, 41001, 41002, 41003))], {1, 7})) == 1
    strangers.judges = set
    assert strangers.among([state(processes=(40000, 41001))], {1, 7}) == {40000}


class Idle:
    """A GPU on which nobody is."""

    def __init__(self, listed: tuple[int, ...] = ()) -> None:
        self.listed = listed

    def state(self) -> nvml.State:
        return state(processes=self.listed)


def test_busy_cpus_are_noted_beside_a_gpu_whose_launches_they_hold_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([CpuTime(100.0, 0.0, 50.0), CpuTime(100.0 + 100.0 * (os.cpu_count() or 1), 0.0, 50.0)])
    monkeypatch.setattr(observe, "cpu_time", lambda: next(times))
    monkeypatch.setattr(observe.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(observe.torch.cuda, "get_device_properties", lambda device: None)
    monkeypatch.setattr(nvml, "open_gpu", lambda uuid: Idle((os.getpid(),)))
    with observing("cuda") as watch:
        time.sleep(0.15)
    assert len(watch.notes) == 1
    assert watch.notes[0].startswith("Other programs kept ")
    assert watch.notes[0].endswith("times are less certain.")
    assert watch.busy
    assert watch.unlucky == 0.0


def test_a_stranger_on_a_gpu_whose_numbers_mean_nothing_here_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    strangers = Strangers()
    monkeypatch.setattr(observe, "STRANGERS", strangers)
    monkeypatch.setattr(observe, "cpu_time", lambda: None)
    monkeypatch.setattr(process_trees, "descendants", lambda pid: [8, 9])
    monkeypatch.setattr(observe.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(observe.torch.cuda, "get_device_properties", lambda device: None)
    monkeypatch.setattr(nvml, "open_gpu", lambda uuid: Idle((4000001, 4000002)))
    with observing("cuda") as watch:
        pass
    assert watch.notes == []
    monkeypatch.setattr(nvml, "computing", lambda: frozenset({4000001}))
    observe.look_around()
    with observing("cuda") as watch:
        pass
    assert watch.notes == ["Another process uses this GPU: times are less certain."]


def test_without_a_gpu_nobody_computes_on_one() -> None:
    if nvml.open_gpu() is not None:
        pytest.skip("there is an NVIDIA GPU")
    assert nvml.computing() == frozenset()
