"""What a pass launches: the real profiler on the CPU; for a GPU, events written by hand in the form of Kineto's trace.

The GPU events below follow pytorch/kineto's `CuptiActivity.cpp`; they were not recorded on a GPU.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.profile import (
    launches,
    names,
    traces,
)


def kernel(name: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": length, "args": args}


SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"
TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [],
    "traceEvents": [
        {"ph": "M", "name": "process_name", "ts": 1, "pid": 0, "tid": 0, "args": {"name": "python"}},
        kernel("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<signed char> >(int)", 5, 90),
        kernel(SPIN, 100, 10),
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 112, "dur": 4},
        kernel(
            "void gelu_kernel<float, 4>(float const*, float*, long)",
            120.0,
            22.5,
            **{
                "grid": [2048, 1, 1],
                "block": [256, 1, 1],
                "registers per thread": 40,
                "shared memory": 1024,
                "blocks per SM": 15.5,
                "est. achieved occupancy %": 88,
            },
        ),
        kernel("void gelu_kernel<float, 4>(float const*, float*, long)", 145.0, 20.0),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "ts": 170, "dur": 3, "args": {}},
        kernel("add_kernel_0d1d2de", 180, 1.5, **{"grid": [1, 1, 1], "block": [128, 1, 1], "registers per thread": 16}),
        kernel(SPIN, 200, 10),
    ],
}


def test_the_operators_of_a_real_pass_are_told_with_their_own_time(tmp_path: Path) -> None:
    x = torch.randn(256, 256)
    found = launches.profile_call(lambda: torch.relu(x @ x), "cpu")
    told = {launch["name"]: launch for launch in found["launched"]}
    assert {"aten::mm", "aten::relu"} <= set(told)
    assert told["aten::mm"]["count"] == 1
    assert told["aten::mm"]["time_us"] > told["aten::matmul"]["time_us"], "what it called is not charged to the caller"
    assert found["device_us"] == pytest.approx(sum(launch["time_us"] for launch in found["launched"]))
    assert found["launched"] == sorted(found["launched"], key=lambda launch: -launch["time_us"])
    assert found["notes"] == []
    json.dumps(found, allow_nan=False)
    assert list(tmp_path.iterdir()) == []


def test_a_c_function_called_through_ctypes_is_own_code(tmp_path: Path) -> None:
    usleep = ctypes.CDLL(None).usleep

    def call() -> Any:
        usleep(20_000)
        return torch.ones(4) + 1

    found = launches.profile_call(call, "cpu")
    first = found["launched"][0]
    assert first["name"] == traces.OWN_CODE
    assert first["time_us"] >= 20_000


def test_a_call_that_raises_or_a_device_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    def call() -> None:
        raise ValueError("wrong\nsecond line")

    found = launches.profile_call(call, "cpu")
    assert (found["launched"], found["complete"], found["device_us"]) == ([], False, None)
    assert found["notes"] == ["Not profiled: ValueError: wrong."]

    def leave() -> None:
        raise SystemExit(3)

    assert launches.profile_call(leave, "cpu")["notes"] == ["Not profiled: SystemExit: 3."]
    if not torch.cuda.is_available():
        (note,) = launches.profile_call(lambda: None, "cuda")["notes"]
        assert note.startswith("Not profiled: ")


def test_a_second_profiler_does_no_harm(tmp_path: Path) -> None:
    with torch.autograd.profiler.profile(use_kineto=True):
        found = launches.profile_call(lambda: torch.ones(8).exp(), "cpu")
    assert found["launched"] or found["notes"]


def test_kernels_between_the_marks_are_told_with_their_launch_figures() -> None:
    inside, complete = traces.between(traces.gpu_events(TRACE), launches.MARK)
    told = traces.gpu_launches(inside)
    assert complete
    assert [(launch["name"], launch["count"], launch["time_us"]) for launch in told] == [
        ("gelu_kernel<float, 4>", 2, 42.5),
        ("Memcpy DtoD (Device -> Device)", 1, 3.0),
        ("add_kernel_0d1d2de", 1, 1.5),
    ]
    gelu, _, add = told
    assert (gelu["grid"], gelu["block"], gelu["registers"], gelu["shared_bytes"]) == ("2048x1x1", "256x1x1", 40, 1024)
    assert gelu["occupancy"] == pytest.approx(0.88)
    assert add["occupancy"] is None


def test_without_both_marks_nothing_is_claimed_to_be_complete() -> None:
    events = [event for event in traces.gpu_events(TRACE) if event["ts"] < 190]
    inside, complete = traces.between(events, launches.MARK)
    assert not complete
    assert all(names.base(event["name"]) != launches.MARK for event in inside)


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        {"traceEvents": 3},
        {"traceEvents": [None, 1, {"cat": "kernel"}, {"cat": "kernel", "name": "k", "ts": "x", "dur": 1}]},
        {"traceEvents": [{"cat": "kernel", "name": "k", "ts": 1, "dur": -1}]},
        {"traceEvents": [{"cat": "kernel", "name": "k", "ts": 1, "dur": float("nan")}]},
    ],
)
def test_a_damaged_trace_has_no_events(damaged: Any) -> None:
    assert traces.gpu_events(damaged) == []


def test_strange_launch_figures_are_left_out() -> None:
    event = kernel(
        "k", 0, 1, **{"grid": ["a"], "block": [1, 2, 3, 4], "registers per thread": "inf", "shared memory": -1}
    )
    (launch,) = traces.gpu_launches([event])
    assert (launch["grid"], launch["block"], launch["registers"], launch["shared_bytes"]) == ("", "", None, None)
    assert launch["occupancy"] is None


def test_only_the_longest_launches_are_listed_and_all_are_named() -> None:
    events = [kernel(f"kernel_{number}x", number, number + 1.0) for number in range(80)]
    found = launches._result(traces.gpu_launches(events), True, [])
    assert len(found["launched"]) == traces.LIST_LIMIT
    assert len(found["names"]) == 80
    assert found["device_us"] == sum(range(1, 81))
    assert found["notes"] == ["30 more kernels ran; the 50 longest are listed."]


def test_time_is_charged_to_the_innermost_operator() -> None:
    pytest.importorskip("torch")
    from torch.autograd.profiler_util import EventList, FunctionEvent

    spans = [("outer", 1, 0, 10), ("inner", 1, 2, 5), ("leaf", 1, 3, 4), ("inner", 1, 6, 7), ("elsewhere", 2, 1, 9)]
    made = [FunctionEvent(number, *span) for number, span in enumerate(spans)]
    events = EventList(made)
    events._build_tree()
    assert traces.self_times(events, "outer") == {"outer": (1, 6.0), "inner": (2, 3.0), "leaf": (1, 1.0)}
    assert traces.self_times([], "outer") == {}


@pytest.mark.parametrize(
    ("name", "short", "base"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
            "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
            "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>",
            "vectorized_elementwise_kernel",
        ),
        ("void (anonymous namespace)::scale<float>(float*)", "scale<float>", "scale"),
        ("gelu_kernel(float const*, float*, long)", "gelu_kernel", "gelu_kernel"),
        ("gelu_kernel", "gelu_kernel", "gelu_kernel"),
        ("_Z11gelu_kernelIfLi4EEvPKT_PS0_l", "gelu_kernel", "gelu_kernel"),
        ("_ZN12_GLOBAL__N_1L6kernelEPf", "kernel", "kernel"),
        ("void row<(int)4, (bool)1>(float*)", "row<(int)4, (bool)1>", "row"),
        ("a<b<c", "a<b<c>", "a"),
    ],
)
def test_names_are_shortened(name: str, short: str, base: str) -> None:
    assert names.short(name) == short
    assert names.base(name) == base


def test_a_name_has_no_control_characters_and_an_end() -> None:
    assert names.short("\x1b[2Jevil\nname") == "name"
    assert len(names.short("x" * 9000)) == names.NAME_LIMIT
    assert len(names.short(f"k<{'y' * 9000}>()")) <= names.NAME_LIMIT
