"""A diagnosis: at most six sentences, with figures that follow from the profile and contradict none of the others."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from agent_cases import CPU, EPYC, GPU, H100
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.diagnosis import MOST, OVER, Bottleneck, Diagnosis, diagnose
from stark_lsp.core.device import Device
from stark_lsp.core.verdict import Environment, Launch, Profile, Timing


def timed(us: float) -> Timing:
    return Timing(us / 1e3, us / 1e3, us / 1e3, 9)


def profile(call_us: float, device: Device, *launches: Launch, bytes: int = 64 << 20, flops: int = 0) -> Profile:
    """Return what the judge would make of a call, `judge/profile/assemble.py`."""
    assert device.bandwidth
    rate = dict(device.rates)["float32"]
    memory_us, compute_us = bytes / device.bandwidth * 1e6, flops / rate * 1e6
    used = max(memory_us, compute_us) / call_us
    total = sum(launch.time_us for launch in launches)
    bound = "compute" if compute_us > memory_us else "memory"
    if used < 0.1:
        bound = ""
    if device.capability and total < 0.5 * call_us:
        bound = "overhead"
    return Profile(
        launched=launches,
        device_us=total,
        bytes=bytes,
        flops=flops,
        floor_us=max(memory_us, compute_us),
        bandwidth_share=memory_us / call_us,
        compute_share=compute_us / call_us if flops else None,
        bound=bound,
    )


def told(call_us: float, given_profile: Profile, environment: Environment = GPU, device: Device = H100) -> Diagnosis:
    return diagnose(given_profile, timed(call_us), environment, device)


def test_a_call_that_moves_much_is_limited_by_memory() -> None:
    found = told(40.0, profile(40.0, H100, Launch("norm", 1, 30.0), Launch("scale", 2, 8.0)))
    assert found.bottleneck is Bottleneck.MEMORY
    assert found.sentences == (
        "Its kernels take 38.0 µs together, of which 79 % is `norm`.",
        "Inputs, weights and outputs, once each, are 64 MiB: 1.68 TB/s over the call, "
        "58 % of the 2.90 TB/s that a large copy reaches here.",
        "At these rates moving that takes 23.1 µs, and the call 1.7 times as long.",
        "So it is limited by memory traffic.",
    )


def test_products_are_held_against_the_rate_of_their_dtype() -> None:
    found = told(100.0, profile(100.0, H100, Launch("gemm", 1, 95.0), flops=4 * 10**9))
    assert found.bottleneck is Bottleneck.COMPUTE
    assert (
        "The original's products are 4.00 GFLOP: 40.0 TFLOP/s over the call, "
        "78 % of the 51.0 TFLOP/s that large ones of its dtype reach." in found.sentences
    )
    faster = told(50.0, profile(50.0, H100, Launch("gemm", 1, 48.0), flops=4 * 10**9))
    assert any("or the device was busy then" in one for one in faster.sentences)


def test_many_short_kernels_are_limited_by_their_launches() -> None:
    found = told(100.0, profile(100.0, H100, Launch("cell", 72, 20.0), bytes=1 << 20))
    assert found.bottleneck is Bottleneck.OVERHEAD
    assert (
        "No kernel runs in 80.0 µs of the 100 µs of a call (80 %), before and between its 72 launches."
        in found.sentences
    )


def test_where_the_gpu_waits_for_many_launches_they_come_before_arithmetic() -> None:
    """Seventeen linear layers in float16 parts: faster products showed nothing, a CUDA graph did."""
    layers = profile(900.0, H100, Launch("gemm", 17, 400.0), Launch("split", 18, 160.0), flops=36 * 10**9)
    found = told(900.0, layers)
    assert layers.bound == "compute"
    assert found.bottleneck is Bottleneck.OVERHEAD
    assert found.sentences[-1] == "So fewer launches, or one CUDA graph of all of them, come before faster kernels."
    alone = profile(900.0, H100, Launch("gemm", 1, 560.0), flops=36 * 10**9)
    assert told(900.0, alone).bottleneck is Bottleneck.COMPUTE, "a single launch cannot be saved"


def test_kernels_that_fill_the_call_are_not_limited_by_launches() -> None:
    """A short call that uses little of the device is called so by the judge, of which this knows more."""
    short = replace(profile(20.0, H100, Launch("walk", 1, 19.0), bytes=1 << 10), bound="overhead")
    found = told(20.0, short)
    assert found.bottleneck is Bottleneck.LATENCY
    assert not any("launch" in one for one in found.sentences)
    assert told(20.0, replace(short, bound="overhead"), CPU, EPYC).bottleneck is Bottleneck.OVERHEAD


def test_time_that_goes_into_slow_products_goes_nowhere_else() -> None:
    slow = replace(profile(300.0, EPYC, Launch("aten::mm", 3, 250.0), Launch("aten::mul", 1, 40.0)), bound="")
    assert told(300.0, slow, CPU, EPYC).sentences[-1].startswith("So most of its time goes into products")
    other = replace(slow, launched=(Launch("aten::mul", 1, 250.0), Launch("aten::mm", 3, 40.0)))
    assert told(300.0, other, CPU, EPYC).sentences[-1].startswith("So most of its time goes elsewhere")


def test_what_keeps_a_kernel_from_filling_the_gpu_is_told() -> None:
    launch = Launch("scan", 1, 38.0, "8x1x1", "1024x1x1", registers=168, spill_bytes=64, occupancy=0.25)
    found = told(40.0, profile(40.0, H100, launch))
    assert (
        "That kernel: spills 64 B a thread, 168 registers, 25 % of the warps fit; "
        "its 8 blocks leave 124 of 132 multiprocessors without work." in found.sentences
    )
    wide = replace(launch, registers=32, spill_bytes=0, occupancy=0.9, grid="132x1x1")
    assert not any("That kernel" in one for one in told(40.0, profile(40.0, H100, wide)).sentences)


def test_what_does_not_add_up_is_left_out() -> None:
    sound = profile(40.0, H100, Launch("norm", 1, 30.0))
    assert told(40.0 / OVER / 2, sound) == Diagnosis(), "kernels that take longer than the call"
    other = told(40.0, sound, device=replace(H100, bandwidth=1.4e12))
    assert not any("B/s" in one or "times as long" in one for one in other.sentences), "shares of another device"
    assert diagnose(None, timed(1.0), GPU, H100) == diagnose(sound, None, GPU, H100) == Diagnosis()
    nothing = diagnose(Profile(), timed(10.0), GPU, H100)
    assert nothing == Diagnosis()
    shares = diagnose(sound, timed(40.0), GPU, None)
    assert any("58 % of the bandwidth" in one for one in shares.sentences), "what is known is told"


@pytest.mark.parametrize("environment", [GPU, CPU])
@given(
    call_us=st.floats(0.1, 1e7),
    parts=st.lists(st.floats(1e-3, 1.0), max_size=7),
    fill=st.floats(0.01, 1.2),
    bytes=st.integers(0, 1 << 40),
    flops=st.integers(0, 10**15),
    claimed=st.floats(0.2, 5.0),
)
def test_figures_hold_together_whatever_was_measured(
    environment: Environment, call_us: float, parts: list[float], fill: float, bytes: int, flops: int, claimed: float
) -> None:
    device = EPYC if environment is CPU else H100
    scale = fill * call_us / sum(parts) if parts else 0.0
    launches = [
        Launch("k`" * 400, number + 1, part * scale, "3x2x1") for number, part in enumerate(sorted(parts)[::-1])
    ]
    made = profile(call_us, device, *launches, bytes=bytes, flops=flops)
    assert made.bandwidth_share is not None
    wrong = replace(made, bandwidth_share=made.bandwidth_share * claimed)
    for one in (made, wrong):
        found = diagnose(one, timed(call_us), environment, device)
        assert len(found.sentences) <= MOST
        text = " ".join(found.sentences)
        assert text.count("`") % 2 == 0
        assert all(len(sentence) < 400 for sentence in found.sentences)
        for share in map(float, re.findall(r"([\d.e+-]+) % is ", text)):
            assert share <= 100
        if 0.89 < claimed < 1.11 or one is made:
            continue
        assert "a large copy reaches" not in text, "a share that does not follow from the rate"
    exact = diagnose(made, timed(call_us), environment, device)
    reached = re.search(r"([\d.e+-]+) % of the .*? that a large copy reaches", " ".join(exact.sentences))
    if reached:
        assert float(reached[1]) == pytest.approx(100 * made.bandwidth_share, rel=0.06, abs=0.51)


def test_on_a_cpu_the_loops_that_stayed_scalar_are_named() -> None:
    loops = tuple(f"line {number}: for (...) y[i] = `exp`(x[i]);" for number in range(1, 6))
    sound = replace(profile(4e5, EPYC, Launch("aten::norm", 1, 3e5)), scalar_loops=loops)
    second = told(4e5, sound, CPU, EPYC).sentences[1]
    assert second.startswith("The compiler left these loops scalar: `line 1: for (...) y[i] = exp(x[i]);`, `line 2")
    assert second.endswith(" and 2 more.")
    assert not any("scalar" in one for one in told(40.0, replace(sound, launched=()), GPU, H100).sentences)
