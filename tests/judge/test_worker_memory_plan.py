"""How much of a problem is made and kept at a time."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.reference import memory_plan
from stark_lsp.judge.reference.memory_plan import CASES, COMPILED, LOOKS, SETS, Plan, Sizes, timed_bytes
from stark_lsp.judge.service import judging
from stark_lsp.judge.timing import fresh, kept, recheck

GIB = 1 << 30
HOST = 128 * GIB
SEEDS = 5
PROBLEMS = {
    "a few KiB": Sizes(4 << 10, 4 << 10),
    "256 MiB": Sizes(128 << 20, 128 << 20),
    "1 GiB each way": Sizes(GIB, GIB),
    "BatchNorm2d of (64, 64, 512, 512)": Sizes(4 * GIB, 4 * GIB),
    "softmax of 4096x393216": Sizes(6 * GIB, 6 * GIB),
    "RMSNorm of (112, 64, 512, 512)": Sizes(7 * GIB + GIB // 2, 7 * GIB + GIB // 2),
    "mean of (128, 4096, 4095)": Sizes(8 * GIB, 2 << 20),
}


def planned(sizes: Sizes, gib: int = 140) -> Plan:
    return memory_plan.on_gpu(sizes, SEEDS, HOST, int(0.97 * gib * GIB), gib * GIB)


def room(gib: int) -> int:
    return max(kept.LEAST["cuda"], gib * GIB // kept.SHARE["cuda"])


@pytest.mark.parametrize("gib", [80, 140, 180])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_a_gpu_is_filled_to_a_half_or_by_four_times_the_problem_unless_the_least_is_more(name: str, gib: int) -> None:
    sizes = PROBLEMS[name]
    plan = planned(sizes, gib)
    taken = timed_bytes(sizes, plan.sets, room(gib)) * (2 + plan.twin + COMPILED * plan.compiled)
    limit = max(0.5 * gib * GIB, 4 * sizes.problem)
    least = (plan.sets, plan.twin, plan.compiled, plan.parallel) == (1, False, False, 1)
    assert taken <= limit or least
    assert taken <= 0.85 * gib * GIB or sizes.problem > 0.15 * gib * GIB
    assert plan.cases >= CASES
    assert plan.sets >= 1
    assert plan.looks >= LOOKS


def test_a_small_problem_gets_all_there_is() -> None:
    for sizes in (PROBLEMS["a few KiB"], PROBLEMS["256 MiB"]):
        plan = planned(sizes)
        assert (plan.cases, plan.sets, plan.looks) == (SEEDS, SETS, recheck.MOST)
        assert (plan.twin, plan.compiled, plan.beside, plan.large) == (True, True, COMPILED, False)
        assert plan.parallel >= 4
        assert plan.note(SEEDS) is None


def test_a_large_one_gets_the_least_and_says_so() -> None:
    plan = planned(PROBLEMS["softmax of 4096x393216"], 80)
    assert plan == Plan(CASES, 1, LOOKS, False, False, 0, 1, large=True)
    assert timed_bytes(PROBLEMS["softmax of 4096x393216"], 1, room(80)) == 18 * GIB
    note = plan.note(SEEDS)
    assert note is not None
    for words in (
        "2 instead of 5 different inputs",
        "made from one of them",
        "2 timed rounds",
        "not beside candidates",
    ):
        assert words in note


def test_what_is_slow_is_checked_with_fewer_inputs() -> None:
    assert planned(Sizes(4 << 20, 4 << 20, seconds=5.0)).cases == CASES
    assert planned(Sizes(4 << 20, 4 << 20, seconds=0.5)).cases == SEEDS
    # Such as by a function that does not bear another device than the CPU.
    assert planned(Sizes(4 << 20, 4 << 20, making_s=10.0)).cases == CASES


def test_what_a_call_needs_meanwhile_counts() -> None:
    assert planned(Sizes(64 << 20, 64 << 20)).twin
    assert not planned(Sizes(64 << 20, 64 << 20, working=30 * GIB)).twin


def test_one_seed_is_one_case() -> None:
    assert memory_plan.on_gpu(PROBLEMS["softmax of 4096x393216"], 1, HOST, 139 * GIB, 140 * GIB).cases == 1


def test_on_a_cpu_the_machine_decides() -> None:
    small = memory_plan.on_cpu(Sizes(1 << 20, 1 << 20), SEEDS, 16 * GIB)
    assert (small.cases, small.sets, small.twin, small.compiled) == (SEEDS, SETS, True, True)
    large = memory_plan.on_cpu(Sizes(GIB, GIB), SEEDS, 16 * GIB)
    assert (large.cases, large.sets, large.twin, large.compiled) == (2, 1, False, False)


def test_the_more_bytes_the_fewer_buffers() -> None:
    assert [fresh.buffers(nbytes) for nbytes in (1 << 20, 1 * GIB, 2 * GIB, 3 * GIB)] == [3, 3, 2, 1]


def test_what_cannot_be_timed_by_turns_is_told_before_a_candidate_is_blamed() -> None:
    softmax = PROBLEMS["softmax of 4096x393216"]
    assert memory_plan.lacking(softmax, 79 * GIB) is None
    assert "36.0 GiB of the GPU's memory; 30.0 GiB are free" in (memory_plan.lacking(softmax, 30 * GIB) or "")
    assert memory_plan.lacking(softmax._replace(working=25 * GIB), 79 * GIB) is not None


def test_what_torch_compile_makes_is_timed_in_as_many_sessions_as_memory_asks_for() -> None:
    names = ["compile", "max_autotune"]
    assert judging.groups(names, COMPILED + 1) == [names]
    assert judging.groups(names, 1) == [["compile"], ["max_autotune"]]
