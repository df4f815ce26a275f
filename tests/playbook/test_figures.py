"""Figures agree with the baseline, and are short."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from stark_lsp.core.verdict import Baselines, Profile, Timing
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.graph import read_graph

from .conftest import REFERENCE, Bench
from .playbook_cases import BY_NAME, text_of


@pytest.mark.parametrize("measured", [0.25, 3.0, 70.0])
def test_no_part_takes_longer_than_the_measured_whole(measured: float, bench: Callable[..., Bench]) -> None:
    one = bench(text_of(BY_NAME["tanh_gelu"]))
    analysis = {**one.analysis, "total_ms": 50.0}
    for node in analysis["nodes"]:
        node["time_ms"] = 60.0
    graph = read_graph(analysis, measured)
    assert graph.total_ms == measured
    assert sum(node.time_ms for node in graph.nodes) == pytest.approx(measured)
    assert graph.bandwidth_gbs >= sum(node.bytes for node in graph.nodes) / (measured * 1e6)
    reference = replace(REFERENCE, baselines=Baselines(Timing(measured, measured, measured, 9)))
    one.agents = PlaybookAgents(analysis, one.problem, reference)
    plan = one.plan()
    assert plan.expected_saving_ms is not None
    assert 0 < plan.expected_saving_ms <= measured
    for text in [plan.advice, *(anchor.note for anchor in plan.anchors)]:
        units = {"µs": 1e-3, "ms": 1.0, "s": 1e3}
        times = [float(n) * units[unit] for n, unit in re.findall(r"([\d.]+) (µs|ms|s)\b", text)]
        assert times
        assert max(times) <= measured * 1.01
        assert not re.search(r"\d\.\d{3,} (ms|µs|MiB)|\d{4,}\.\d", text)


def test_what_is_expected_goes_by_the_bandwidth_that_the_profile_was_held_against(bench: Callable[..., Bench]) -> None:
    one = bench(text_of(BY_NAME["tanh_gelu"]))
    # The probe of the analysis met a busy machine; the profile of the reference knows the device better.
    analysis = {**one.analysis, "bandwidth_gbs": 1e-3, "overhead_ms": 0.0, "total_ms": 50.0}
    for node in analysis["nodes"]:
        node["time_ms"] = 0.0 if node["op"] == "input" else 60.0
    eager = Timing(1.0, 1.0, 1.0, 9)
    profiled = replace(REFERENCE, baselines=Baselines(eager), profile=Profile(bytes=512 * 1024, bandwidth_share=0.05))

    def expected(reference: object) -> float:
        one.agents = PlaybookAgents(analysis, one.problem, reference)  # type: ignore[arg-type]
        saving = one.plan().expected_saving_ms
        assert saving is not None
        return 1.0 - saving

    assert expected(profiled) == pytest.approx(0.05)
    assert expected(replace(profiled, profile=None)) > 0.06  # what its operations move in 1 ms
