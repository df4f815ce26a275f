"""What prompts say of times: how certain they are, how they were taken, and one figure for the memory's bandwidth."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import pytest
from agent_cases import CPU, FIRST, GPU, PROBLEM, PROFILE, ROOT, SECOND, context, reference, verified
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.answers import TOOLS
from stark_lsp.agents.certainty import alike
from stark_lsp.agents.frame import Frame
from stark_lsp.agents.observations import ELSEWHERE, profile_lines
from stark_lsp.agents.prompts import PromptLibrary, built_in_dir
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node
from stark_lsp.core.status import ModelRole
from stark_lsp.core.verdict import Baselines, Environment, Interval, Launch, Timing

BOUNDS = st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)).map(sorted)


def timed(node_id: int, low: float, high: float) -> Node:
    """Return an attempt whose speed-up lies between two figures."""
    speedup = Interval((low + high) / 2, low, high)
    verdict = replace(verified(0.01, 1.5), speedup_vs_eager=speedup)
    return replace(FIRST, id=node_id, plan=Plan(f"Plan {node_id}", "Do it."), verdict=verdict)


def asked(role: ModelRole, given: Context | None = None, environment: Environment = GPU, tried: bool = True) -> str:
    plan = Plan("A plan", "Do it.") if role is ModelRole.CODE else None
    frame = Frame(PROBLEM, reference(environment), AgentSettings(), PromptLibrary(), tried)
    question = frame.question(role, given or context(), TOOLS[role], plan=plan)
    return question.shared + question.body


# --- which attempts can be told apart --------------------------------------------------------------


@given(st.lists(BOUNDS, max_size=8))
def test_attempts_are_alike_exactly_where_their_intervals_overlap(bounds: list[list[float]]) -> None:
    nodes = {number: timed(number, low, high) for number, (low, high) in enumerate(bounds, 1)}
    groups = alike(tuple(nodes.values()))
    together = {pair for group in groups for pair in combinations(group, 2)}
    for first, second in combinations(nodes, 2):
        (low, high), (other_low, other_high) = bounds[first - 1], bounds[second - 1]
        assert ((first, second) in together) == (low <= other_high and other_low <= high)
    assert not any(set(one) < set(other) for one in groups for other in groups)
    assert all(len(group) > 1 for group in groups)


def test_times_take_the_place_of_ratios_that_were_not_taken() -> None:
    near, far = verified(0.0100, 1.5), verified(0.0200, 1.5)
    nodes = [replace(FIRST, id=number, verdict=verdict) for number, verdict in enumerate((near, near, far), 1)]
    nodes[2] = replace(nodes[2], verdict=replace(far, speedup_vs_eager=None))
    assert alike(nodes) == ((1, 2),)


def test_failed_attempts_and_the_reference_are_like_nothing() -> None:
    assert alike((ROOT, FIRST, SECOND, FIRST)) == ()


@pytest.mark.parametrize("role", [ModelRole.PLAN, ModelRole.REFLEXION])
def test_who_decides_is_told_which_attempts_cannot_be_told_apart(role: ModelRole) -> None:
    selected, child, leader, other = timed(1, 5.4, 5.5), timed(2, 5.3, 5.45), timed(3, 5.44, 5.6), timed(4, 1.0, 1.1)
    given = context(selected, (ROOT, selected, leader, other, SECOND), siblings=(child,), attempt=9)
    said = (
        "Speed-ups that cannot be told apart, as their intervals overlap, which also hold how two processes of "
        "the same code differ: attempts 1, 2 and 3."
    )
    assert asked(role, given).count(said) == 1
    assert "told apart" not in asked(role, context(selected, (ROOT, selected, other)))
    # A system whose windows are the naive ones is not shown what else was tried.
    assert "attempts 1 and 3." in asked(role, given, tried=False)


@pytest.mark.parametrize("role", [ModelRole.CODE, ModelRole.DEBUG, ModelRole.SAMPLING])
def test_who_does_not_look_back_is_not_told(role: ModelRole) -> None:
    given = context(timed(1, 5.4, 5.5), (ROOT, timed(1, 5.4, 5.5), timed(2, 5.4, 5.5)))
    assert "told apart" not in asked(role, given)


@pytest.mark.parametrize("role", list(ModelRole))
def test_every_time_of_a_call_has_its_interval(role: ModelRole) -> None:
    given = context(FIRST, (ROOT, FIRST, timed(7, 1.4, 1.6)), siblings=(timed(7, 1.4, 1.6),))
    text = asked(role, given)
    assert "brackets hold 95 % intervals" in text
    times = re.findall(r"(?:call takes|reference takes|torch.compile) [\d.]+ .s(.{3})", text)
    assert times
    assert all(re.fullmatch(r" \(\d", behind) for behind in times)
    for line in re.findall(r"^- attempt \d+: .*$", text, re.MULTILINE):
        assert re.search(r"x \([\d.]+ to [\d.]+\)", line), line


def test_an_attempt_that_was_not_compared_is_listed_with_its_time() -> None:
    alone = replace(FIRST, id=7, verdict=replace(verified(0.01, 1.5), speedup_vs_eager=None, profile=None))
    text = asked(ModelRole.PLAN, context(FIRST, (ROOT, FIRST), siblings=(alone,)))
    assert "- attempt 7: Fuse scale, shift and sigmoid (10.0 µs (9.80 µs to 10.3 µs))" in text


# --- figures that do not contradict each other -----------------------------------------------------


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=9), st.floats(0.01, 1e3))
def test_a_profile_never_adds_up_to_more_than_its_call(times: list[float], call_ms: float) -> None:
    launched = tuple(Launch(f"k{number}", 1, us) for number, us in enumerate(sorted(times, reverse=True)))
    busy = replace(PROFILE, launched=launched)
    lines = profile_lines(busy, Timing(call_ms, call_ms / 2, 9 * call_ms, 9))
    adds_up = sum(times) <= 1.25 * call_ms * 1e3
    assert any("µs" in line or " ms" in line or " s" in line for line in lines[: len(launched)]) or not adds_up
    if not adds_up:
        assert all("% of all" in line for line in lines[: min(5, len(times))])
        assert "busy" in lines[-1]
        assert not any("at this device's measured rates" in line for line in lines)


def test_a_busy_machine_is_told_and_its_profile_shown_in_shares() -> None:
    """As seen: parts of 134 ms together in a call of 23.5 ms."""
    note = "Other programs kept 3.0 of 4 CPUs busy while this was timed: times are less certain."
    busy = replace(PROFILE, launched=(Launch("mm", 2, 100_000.0), Launch("norm", 1, 34_000.0)))
    measured = replace(reference(CPU, busy), notes=(note,), baselines=Baselines(Timing(23.5, 23.0, 24.0, 20)))
    frame = Frame(PROBLEM, measured, AgentSettings(), PromptLibrary())
    question = frame.question(ModelRole.PLAN, context(measured=measured), TOOLS[ModelRole.PLAN])
    assert f"- {note}" in question.shared
    assert "- 2 × mm: 74.6 % of all" in question.shared
    assert "100 ms" not in question.shared


def test_a_speed_up_stands_beside_the_references_time_of_the_same_rounds() -> None:
    slow = replace(FIRST, verdict=replace(verified(30.8, 1.99), eager=Timing(61.3, 61.0, 61.6, 20)))
    text = asked(ModelRole.PLAN, context(slow, (ROOT, slow)))
    assert "timed in turns with it, which took 61.3 ms (61.0 ms to 61.6 ms) there" in text


# --- how a call is timed ---------------------------------------------------------------------------


@pytest.mark.parametrize("role", [ModelRole.PLAN, ModelRole.SAMPLING, ModelRole.REFLEXION])
def test_who_decides_knows_what_of_launching_is_timed_on_a_gpu(role: ModelRole) -> None:
    text = asked(role)
    [line] = [line for line in text.splitlines() if "0.1 ms" in line]
    assert "caches are flushed" in line
    assert "CUDA graph" in line
    assert "0.1 ms" not in asked(role, environment=CPU)


# --- one bandwidth ---------------------------------------------------------------------------------


def test_the_playbooks_advice_names_no_bandwidth_of_its_own() -> None:
    for path in (built_in_dir() / "advice").glob("*.md"):
        assert "bandwidth_gbs" not in path.read_text(encoding="utf-8"), path.name


def test_the_bandwidth_is_a_plain_number_with_its_source() -> None:
    quick = replace(PROFILE, bytes=135_266_304, bandwidth_share=0.19604210010239317)
    slow = reference(profile=quick)
    eager = replace(slow.baselines.eager, median_ms=0.1653280034661293)
    measured = replace(slow, baselines=replace(slow.baselines, eager=eager))
    asking = Frame(PROBLEM, measured, AgentSettings(), PromptLibrary())
    shared = asking.question(ModelRole.PLAN, context(), TOOLS[ModelRole.PLAN]).shared
    assert "- memory bandwidth, of a large copy, reads and writes together: about 4170 GB/s" in shared


# --- where they were taken -------------------------------------------------------------------------


def test_what_was_timed_on_another_device_says_so() -> None:
    here = timed(1, 1.4, 1.6)
    assert here.verdict is not None
    there = replace(here, id=2, verdict=replace(here.verdict, environment=replace(GPU, device="NVIDIA H200")))
    said = f"{ELSEWHERE} (NVIDIA H200)."
    assert said in asked(ModelRole.PLAN, context(there, (ROOT, here, there)))
    assert ELSEWHERE not in asked(ModelRole.PLAN, context(here, (ROOT, here)))
