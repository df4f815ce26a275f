"""From claims to a profile: hostile claims, compiler figures, counters, and kernels that never ran."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from stark_lsp.contract.counters import Counter
from stark_lsp.core.verdict import Profile
from stark_lsp.core.wire import from_wire, to_wire
from stark_lsp.judge.profile import (
    assemble,
    counters,
    traces,
)

CALIBRATION = {"bandwidth": 2e12, "rates": {"float32": 5e13, "tf32": 4e14}, "notes": ["kept"]}
COST = {"bytes": 64 << 20, "flops": 0, "dtype": "float32", "notes": []}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
launch = st.fixed_dictionaries(
    {"name": st.text(max_size=300) | anything},
    optional=dict.fromkeys(
        ("count", "time_us", "grid", "block", "registers", "shared_bytes", "spill_bytes", "occupancy", "more"), anything
    ),
)
claims = anything | st.fixed_dictionaries(
    {"launched": st.lists(launch, max_size=70) | anything},
    optional={"device_us": anything, "notes": anything, "device": st.just("cuda") | anything, "complete": anything},
)
counts = st.none() | st.integers(min_value=0, max_value=1 << 60) | anything
positive = st.floats(min_value=1e-3, max_value=1e18)


@settings(max_examples=150, deadline=None)
@given(
    claims,
    st.dictionaries(st.text(max_size=20), anything, max_size=3),
    st.fixed_dictionaries({"bytes": counts, "flops": counts, "dtype": st.sampled_from(["float32", "int8", ""])}),
    st.none()
    | st.builds(lambda b, f, t: {"bandwidth": b, "rates": {"float32": f, "tf32": t}}, positive, positive, positive),
    st.none() | st.floats(),
)
def test_whatever_is_claimed_a_profile_is_sound(
    claimed: Any, compiled: Any, cost: Any, calibration: Any, runtime_ms: float | None
) -> None:
    made = assemble.make_profile(claimed, compiled, cost, calibration, runtime_ms)
    json.dumps(made, allow_nan=False)
    profile = from_wire(made, Profile)
    assert to_wire(profile) == made
    for value in (profile.device_us, profile.floor_us, profile.bandwidth_share, profile.compute_share):
        assert value is None or (math.isfinite(value) and value >= 0)
    assert profile.bound in ("", "memory", "compute", "overhead")
    assert len(profile.launched) <= traces.LIST_LIMIT
    assert list(profile.launched) == sorted(profile.launched, key=lambda item: -item.time_us)
    for item in profile.launched:
        assert 0 < len(item.name) <= 200
        assert item.count >= 1
        assert math.isfinite(item.time_us)
        assert item.time_us >= 0
        assert item.occupancy is None or 0 <= item.occupancy <= 1
    for note in profile.notes:
        assert len(note) <= 200


def claim(*names: str, complete: bool = True, device_us: float = 20.0) -> dict[str, Any]:
    listed = [{"name": name, "count": 1, "time_us": 20.0} for name in names]
    return {"device": "cuda", "launched": listed, "names": list(names), "complete": complete, "device_us": device_us}


def test_a_call_that_streams_memory_is_bound_by_it() -> None:
    made = assemble.make_profile(claim("gelu", device_us=40.0), {}, COST, CALIBRATION, 0.043)
    assert made["floor_us"] == pytest.approx(33.55, rel=1e-3)
    assert made["bandwidth_share"] == pytest.approx(0.78, abs=0.01)
    assert (made["bound"], made["compute_share"], made["notes"]) == ("memory", None, ["kept"])


def test_a_call_that_hardly_uses_memory_is_not_said_to_be_bound_by_it() -> None:
    made = assemble.make_profile(claim("focal", device_us=3000.0), {}, COST, CALIBRATION, 3.1)
    assert made["bandwidth_share"] < 0.02
    assert made["bound"] == ""
    # Nor one that takes more than twice as long as moving all of it: most of its time goes elsewhere.
    assert assemble.make_profile(claim("focal", device_us=70.0), {}, COST, CALIBRATION, 0.072)["bound"] == ""


def test_a_product_is_bound_by_arithmetic() -> None:
    cost = {**COST, "flops": 2 * 4096**3}
    made = assemble.make_profile(claim("gemm", device_us=2900.0), {}, cost, CALIBRATION, 3.0)
    assert made["bound"] == "compute"
    assert made["compute_share"] == pytest.approx(2 * 4096**3 / 5e13 / 3e-3)
    assert made["floor_us"] == pytest.approx(2 * 4096**3 / 4e14 * 1e6), "tf32 may do it faster"


def test_a_gpu_that_waits_is_bound_by_overhead() -> None:
    assert assemble.make_profile(claim("add", device_us=4.0), {}, COST, CALIBRATION, 0.04)["bound"] == "overhead"


def test_nothing_known_is_nothing_said() -> None:
    made = assemble.make_profile(None)
    assert made == to_wire(Profile())


def test_compiler_figures_join_the_launch_of_that_name() -> None:
    compiled = {
        "_Z4tinyIfLi64EEvPT_": {"registers": 10, "shared_bytes": 256, "stack_bytes": 0, "local_bytes": 0},
        "_Z4tinyIdLi64EEvPT_": {"registers": 64, "shared_bytes": 512, "stack_bytes": 48, "local_bytes": 0},
    }
    small = {"name": "tiny<float, 64>", "registers": 10, "shared_bytes": 256}
    unknown = {"name": "tiny<double, 64>"}
    other = {"name": "other", "registers": 7}
    merged = assemble.merge([small, unknown, other], compiled)
    assert merged[0] == {**small, "spill_bytes": 0}
    assert merged[1] == {**unknown, "registers": 64, "shared_bytes": 512, "spill_bytes": 48}
    assert merged[2] == other
    assert unknown == {"name": "tiny<double, 64>"}, "what was given is left as it is"


@pytest.mark.parametrize(
    ("defined", "launched", "expected"),
    [
        (["gelu_kernel"], ["gelu_kernel"], False),
        (["gelu_kernel"], ["void ns::gelu_kernel<float, 4>(float*)"], False),
        (["gelu_kernel"], ["_Z11gelu_kernelIfLi4EEvPKT_PS0_l"], False),
        (["slow", "fast"], ["memset", "fast"], False),
        (["gelu_kernel"], ["vectorized_elementwise_kernel"], True),
        (["gelu"], ["gelu_kernel"], True),
        (["gelu_kernel"], [], True),
        ([], ["anything"], False),
        ([""], ["anything"], False),
    ],
)
def test_kernels_that_are_defined_and_never_run_are_found(
    defined: list[str], launched: list[str], expected: bool
) -> None:
    assert assemble.never_launched(defined, claim(*launched)) is expected


def test_nobody_is_accused_where_the_profiler_did_not_see_everything() -> None:
    assert not assemble.never_launched(["gelu"], claim("other", complete=False))
    assert not assemble.never_launched(["gelu"], None)
    assert not assemble.never_launched(["gelu"], {"complete": True, "names": "gelu"})


RECORDED = (Path(__file__).parent / "nsight_compute.csv").read_text().splitlines(keepends=True)
"""Of Nsight Compute 2025.3 on an H200: its header, units, and kernels whose faults are known; columns that are read."""


def counted(kernel: str) -> dict[str, float]:
    row = next(line for line in RECORDED if f'"{kernel}' in line)
    metrics, notes = counters.read("".join(["==PROF== Connected to process 828\n", *RECORDED[:2], row]))
    assert notes == []
    read = from_wire({"metrics": metrics}, Profile).metrics
    assert len({metric.name for metric in read}) == len(read)
    return {metric.name: metric.value for metric in read}


def test_counters_tell_what_each_kernel_suffers_from() -> None:
    rows = counted("row_softmax")
    assert rows[Counter.MEMORY.value] == 81.95
    assert rows[Counter.LOADED.value] == 32.0
    assert Counter.BY_REGISTERS.value in rows
    assert Counter.BY_WARPS.value not in rows, "eight blocks would fit by their warps, four do by registers"
    assert rows["stalled: long scoreboard"] == pytest.approx(37.7, abs=0.1)
    assert counted("strided_copy")[Counter.LOADED.value] == 4.0
    product = counted("product")
    assert product[Counter.CONFLICTS.value] == pytest.approx(79.0, abs=0.1)
    assert Counter.LOADED.value not in product, "its loads go to shared memory at once"
    assert product[Counter.TENSOR.value] == 17.52
    assert {Counter.BY_REGISTERS.value, Counter.BY_SHARED_MEMORY.value} <= product.keys()
    states = [value for name, value in product.items() if name.startswith("stalled: ")]
    assert states == sorted(states, reverse=True)
    assert min(states) >= counters.LEAST
    assert sum(states) < 100
    assert "stalled: selected" not in counted("sm80_xmma_gemm"), (
        "it issues in 45 % of its time, and waits then for nothing"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            ("administrator", "NVreg_RestrictProfilingToAdminUsers=0"),
        ),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.\n", ("not launched",)),
        ("==ERROR== The application returned an error code (11).", ("error code (11)",)),
        ("", ("nothing that can be read",)),
        ('"ID","Kernel Name"\n"0"\n', ("nothing that can be read",)),
        ("".join(RECORDED[:2]), ("nothing that can be read",)),
    ],
)
def test_missing_counters_say_why(text: str, words: tuple[str, ...]) -> None:
    metrics, (note,) = counters.read(text)
    assert metrics == []
    for word in words:
        assert word in note


@given(st.text(alphabet='"0123456789.,-eE%\nnaif', max_size=400))
def test_whatever_is_written_the_figures_are_finite(text: str) -> None:
    """The candidate may write to the same file."""
    metrics, notes = counters.read("".join(RECORDED[:1]) + text)
    assert metrics or notes
    json.dumps(metrics, allow_nan=False)
    assert all(metric["value"] >= 0 for metric in metrics)


def test_decimal_commas_are_read() -> None:
    assert [counters._number(text) for text in ("1,234.5", "30,000", "9,25", "x", "nan", "-1", "inf", "1e300")] == [
        1234.5,
        30000.0,
        9.25,
        *[None] * 5,
    ]


def test_the_command_looks_at_what_forward_runs_and_leaves_the_clocks_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counters.command("/opt/ncu", "a.b", ["python", "-u", "main.py", "runner"], "/tmp/out.csv")
    assert made[0] == "/opt/ncu"
    assert made[-4:] == ["python", "-u", "main.py", "runner"]
    expected = {"--kernel-name": r"regex:^a\.b$", "--launch-count": "1", "--profile-from-start": "off"}
    for option, value in (expected | {"--clock-control": "none", "--log-file": "/tmp/out.csv"}).items():
        assert made[made.index(option) + 1] == value
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert counters.find() == str(program)
