"""What is told of a device: what is known, in few lines, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

from agent_cases import EPYC, FIRST_PLAN, H100, PROBLEM, context, reference
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.answers import TOOLS
from stark_lsp.agents.frame import Frame
from stark_lsp.agents.machine import LINE, machine_lines
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.device import Device
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole

FEW = 6


def shared(settings: AgentSettings, role: ModelRole = ModelRole.CODE) -> str:
    frame = Frame(PROBLEM, reference(), settings, PromptLibrary())
    return frame.question(role, context(), TOOLS[role], plan=FIRST_PLAN).shared


def test_every_role_is_told_and_the_paper_tells_nothing() -> None:
    _, paper = as_in_paper(SearchSettings(), AgentSettings())
    for role in ModelRole:
        for line in machine_lines(H100):
            assert f"- {line}\n" in shared(AgentSettings(), role)
            assert line not in shared(paper, role)
            assert line not in shared(AgentSettings(machine=False), role)


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert machine_lines(None) == machine_lines(Device()) == ()
    assert machine_lines(Device(capability="8.6")) == ("compute capability 8.6", "Triton is not installed")
    some = Device(capability="8.0", registers=65_536, shared_bytes=167_936, triton="3.1.0")
    assert machine_lines(some) == (
        "compute capability 8.0; each holds 65536 registers and 164 KiB of shared memory",
        "Triton 3.1.0",
    )
    assert machine_lines(Device(processors=8)) == ("8 cores",)


def test_rates_are_told_in_a_unit_that_suits_them_and_as_measured() -> None:
    assert machine_lines(H100)[-1].endswith(
        "as measured here, in TFLOP/s: float32 51, float64 59, tf32 410, bfloat16 720"
    )
    assert "in GFLOP/s: float16 2.7," in machine_lines(EPYC)[-1]


@given(
    st.builds(
        Device,
        capability=st.sampled_from(["", "9.0"]),
        processors=st.none() | st.integers(1, 10**4),
        threads=st.none() | st.integers(1, 10**4),
        registers=st.none() | st.integers(1, 10**6),
        block_registers=st.none() | st.integers(1, 10**6),
        shared_bytes=st.none() | st.integers(1, 10**9),
        block_shared_bytes=st.none() | st.integers(1, 10**9),
        block_shared_bytes_asked=st.none() | st.integers(1, 10**9),
        caches=st.lists(st.tuples(st.text(max_size=9), st.integers(1, 10**12)), max_size=9).map(tuple),
        instructions=st.lists(st.text(max_size=99), max_size=99).map(tuple),
        rates=st.lists(st.tuples(st.text(max_size=9), st.floats(1, 1e18)), max_size=9).map(tuple),
        triton=st.text(max_size=999),
        dot_precisions=st.lists(st.text(max_size=99), max_size=99).map(tuple),
        nvcc=st.sampled_from(["", "13.0"]),
        libraries=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=999)), max_size=9).map(tuple),
    )
)
def test_few_lines_are_told_whatever_is_known(device: Device) -> None:
    lines = machine_lines(device)
    assert len(lines) <= FEW
    assert all(line and len(line) <= LINE for line in lines)


def test_what_is_known_of_a_device_is_told() -> None:
    """A field of `Device` that no line speaks of is not worth its place; the bandwidth has a line of its own."""
    for one in fields(Device):
        full = replace(H100, instructions=()) if one.name != "instructions" else EPYC
        if one.name != "bandwidth":
            assert machine_lines(replace(full, **{one.name: one.default})) != machine_lines(full), one.name
