"""Hardware counters: what is told of them, what they change in a diagnosis, and when they are read."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from agent_cases import (
    FIRST,
    FIRST_PLAN,
    GPU,
    PROBLEM,
    PROFILE,
    ROOT,
    ScriptedModel,
    answered,
    context,
    reference,
)
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.diagnosis import MOST, Bottleneck, Diagnosis, diagnose
from stark_lsp.agents.team import ModelSolo, ModelTeam
from stark_lsp.contract.counters import STALLED, Counter
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Question
from stark_lsp.core.errors import Fault
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole
from stark_lsp.core.verdict import Launch, Metric, Profile, Timing, Verdict

TF32 = {
    Counter.MEMORY.value: 8.35,
    Counter.COMPUTE.value: 16.94,
    Counter.TENSOR.value: 17.52,
    Counter.ACTIVE.value: 23.93,
    Counter.FITTING.value: 25.0,
    Counter.LOAD_SECTORS.value: 16.0,
    Counter.CONFLICTS.value: 79.0,
    Counter.BY_REGISTERS.value: 2.0,
    Counter.BY_SHARED_MEMORY.value: 2.0,
    STALLED + "lg throttle": 38.4,
    STALLED + "long scoreboard": 19.6,
    STALLED + "mio throttle": 18.1,
    STALLED + "barrier": 14.7,
}
"""Of a product of float32 matrices in Triton on an H200, whose second operand is turned on the way."""


def told(counters: dict[str, float], *launches: Launch, bytes: int = 64 << 20) -> Diagnosis:
    metrics = tuple(Metric(name, value) for name, value in counters.items())
    known = Profile(
        launches or (Launch("product", 1, 990.0, registers=160, occupancy=0.25),), bytes=bytes, bandwidth_share=0.02
    )
    return diagnose(replace(known, metrics=metrics), Timing(1.0, 1.0, 1.0, 9), GPU, None)


def test_a_kernels_faults_are_told_with_what_was_counted() -> None:
    assert told(TF32).sentences == (
        "Its kernels take 990 µs together, of which 100 % is `product`.",
        "That kernel: 160 registers; 79 % of its accesses to shared memory are lost to bank conflicts; "
        "24 % of the warps are active, of 25 % that fit by registers and shared memory.",
        "Counted there: DRAM works at 8 % of its peak and the multiprocessors at 17 % (tensor pipes 18 %); of their "
        "time its warps wait 38 % to hand in requests to global memory, of which there are too many (lg throttle), "
        "20 % for data from global or local memory (long scoreboard), 18 % to hand in requests to shared memory or to "
        "special functions (mio throttle).",
        "Inputs, weights and outputs, once each, are 64 MiB, which uses 2 % of the bandwidth that a large "
        "copy reaches.",
        "So no unit is busy there: what comes first is how it reaches memory, and what its warps wait for.",
    )


def test_loads_that_use_little_of_what_they_move_are_told() -> None:
    strided = {Counter.LOADED.value: 4.0, Counter.STORED.value: 32.0, Counter.LOAD_SECTORS.value: 32.0}
    assert "its loads use 4 of each 32 bytes that are moved (32 sectors a request)" in " ".join(told(strided).sentences)
    assert "stores" not in " ".join(told(strided).sentences)


@pytest.mark.parametrize(
    ("busy", "bottleneck", "said"),
    [
        (Counter.MEMORY, Bottleneck.MEMORY, "more than inputs, weights and outputs"),
        (Counter.COMPUTE, Bottleneck.COMPUTE, "what its multiprocessors issue"),
    ],
)
def test_a_busy_unit_is_the_limit_where_the_profile_shows_none(
    busy: Counter, bottleneck: Bottleneck, said: str
) -> None:
    assert told(TF32).bottleneck is Bottleneck.LATENCY
    found = told(TF32 | {busy.value: 85.0})
    assert found.bottleneck is bottleneck
    assert said in found.sentences[-1]
    apart = [Launch(name, 1, 330.0) for name in ("one", "two", "three")]
    assert told(TF32 | {busy.value: 85.0}, *apart).bottleneck is Bottleneck.LATENCY, "one kernel of three says little"


@given(st.dictionaries(st.sampled_from([*TF32, "zzz", STALLED + "zzz"]), st.floats(0, 1e17)))
def test_whatever_was_counted_a_diagnosis_is_short(counters: dict[str, float]) -> None:
    found = told(counters)
    assert len(found.sentences) <= MOST
    assert all(len(sentence) < 600 and "zzz" not in sentence for sentence in found.sentences)


class Counting:
    """Reads counters, or breaks."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.sources: list[str] = []

    async def __call__(self, candidate: Candidate, verdict: Verdict) -> Verdict:
        self.sources.append(candidate.source)
        if self.fault is not None:
            raise self.fault
        metrics = tuple(Metric(name, value) for name, value in TF32.items())
        return replace(verdict, profile=replace(PROFILE, metrics=metrics))


def planned(question: Question) -> Answer:
    return answered(
        title="Other", advice="Do it.", annotated_source=FIRST_PLAN.annotated_source, expected_saving_ms=0.1
    )


def team(counting: Counting, settings: AgentSettings | None = None) -> tuple[ModelTeam, ScriptedModel]:
    model = ScriptedModel(planned)
    return ModelTeam(model, PROBLEM, reference(), settings, counted=counting), model


async def test_they_are_read_of_the_selected_node_before_a_plan_is_made() -> None:
    counting = Counting()
    agents, model = team(counting)
    await agents.plan(context(FIRST), Random(1))
    assert counting.sources == [FIRST.candidate.source]
    assert "79 % of its accesses to shared memory" in model.questions[0].body
    assert "79 %" not in model.questions[0].shared, "what all questions share stays as it is"


async def test_they_are_not_read_of_the_reference_nor_where_no_profile_is_shown() -> None:
    counting = Counting()
    agents, _ = team(counting)
    await agents.plan(context(ROOT), Random(1))
    paper = as_in_paper(SearchSettings(), AgentSettings())[1]
    agents, _ = team(counting, paper)
    await agents.plan(context(FIRST), Random(1))
    assert counting.sources == []


async def test_a_plan_is_made_without_them_where_the_judge_breaks() -> None:
    noted: list[str] = []
    model = ScriptedModel(planned)
    agents = ModelTeam(
        model,
        PROBLEM,
        reference(),
        counted=Counting(Fault("The worker died.")),
        on_note=lambda attempt, text: noted.append(text),
    )
    assert (await agents.plan(context(FIRST), Random(1))).title == "Other"
    assert "Hardware counters were not read: The worker died." in noted


async def test_what_was_answered_before_needs_none() -> None:
    class Remembered(ScriptedModel):
        async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
            return self.questions[0] if self.questions else None

    counting, model = Counting(), Remembered(planned)
    agents = ModelTeam(model, PROBLEM, reference(), counted=counting)
    await agents.plan(context(FIRST), Random(1))
    await agents.plan(context(FIRST), Random(1))
    assert len(counting.sources) == 1


async def test_a_single_agent_is_told_what_limits_the_node_it_starts_from() -> None:
    counting = Counting()
    source = FIRST.candidate.source
    for role, read in ((ModelRole.REFLEXION, 1), (ModelRole.SAMPLING, 1)):
        model = ScriptedModel(lambda question: answered(source=source, summary="All."))
        await ModelSolo(model, PROBLEM, reference(), role, counted=counting).propose(context(FIRST), Random(1))
        assert len(counting.sources) == read
