"""Which timed calls are looked at: any of them, however large the outputs, and whatever a runner writes."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.correctness.classify import Failed
from stark_lsp.judge.timing import kept, recheck
from stark_lsp.judge.timing.recheck import Recheck
from stark_lsp.judge.timing.rounds import OFFICIAL_ROUNDS, Plan
from stark_lsp.judge.timing.timer import Round
from stark_lsp.judge.timing.wall import Sample
from stark_lsp.judge.transport import tensorfile

CALLS = 10
LARGE = 256 << 20
TRIALS = 1000
SHARE = 0.3
NOISE = 0.04
"""Three standard deviations of a share that is found in so many trials."""


def digest_of(tensor: torch.Tensor) -> int:
    return kept.digest_of({"k": "tensor", "v": 0}, [tensor], "cpu")


RIGHT = tensorfile.capture(torch.tensor([1.0, 2.0]), "cpu")


class Drawn:
    """A timer of a candidate that is right, which tells which calls it was asked for."""

    def __init__(self) -> None:
        self.round = -1
        self.calls: list[tuple[int, int]] = []

    def kept(self, index: int, limit: int) -> tensorfile.Loaded:
        self.calls.append((self.round, index))
        return RIGHT

    def alone(self, seed: str, index: int, limit: int) -> tensorfile.Loaded:
        return RIGHT


def looked_at(rounds: int, nbytes: int, most: int = recheck.MOST) -> list[tuple[int, int]]:
    """Return the calls whose outputs are compared after so many rounds."""
    timer: Any = Drawn()
    made = Round(Sample(1.0, []), [digest_of(RIGHT.tensors[0])] * CALLS)
    drawn = Recheck(timer, timer, nbytes, most=most)
    for number in range(rounds):
        timer.round = number
        drawn.look(f"seed {number}", made)
    drawn.finish()
    return timer.calls  # type: ignore[no-any-return]


@functools.cache
def trials(rounds: int, nbytes: int) -> list[list[tuple[int, int]]]:
    """Return what is looked at in all trials, the same ones each time: no cheat has a say in what is drawn.

    What was drawn is not compared; that takes ten times as long as to draw it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recheck, "secrets", SimpleNamespace(randbelow=random.Random(5).randrange))
        patch.setattr(recheck, "_pledged", lambda *given: True)
        patch.setattr(Recheck, "_differs", lambda *given: None)
        return [looked_at(rounds, nbytes) for _ in range(TRIALS)]


Skips = Callable[[int, int, int], bool]
"""Whether a cheat leaves out call `call` of round `number` of `rounds`."""


def early(number: int, call: int, rounds: int) -> bool:
    return number < SHARE * rounds


def middle(number: int, call: int, rounds: int) -> bool:
    return 0.4 * rounds <= number < (0.4 + SHARE) * rounds


def late_but_for_the_last(number: int, call: int, rounds: int) -> bool:
    return (0.95 - SHARE) * rounds <= number < rounds - 1


def after_the_third(number: int, call: int, rounds: int) -> bool:
    return number >= 3 and call < 0.3 * CALLS * rounds / (rounds - 3)


def in_every_round(number: int, call: int, rounds: int) -> bool:
    return call < SHARE * CALLS


@pytest.mark.parametrize(("nbytes", "size"), [(1 << 10, recheck.MOST), (LARGE, recheck.FEWEST)])
@pytest.mark.parametrize("rounds", [6, 10, 20, 40])
@pytest.mark.parametrize("skips", [early, middle, late_but_for_the_last, after_the_third, in_every_round])
def test_whoever_leaves_out_a_third_of_the_calls_is_seen_in_any_window(
    skips: Skips, rounds: int, nbytes: int, size: int
) -> None:
    all_calls = [(number, call) for number in range(rounds) for call in range(CALLS)]
    share = sum(skips(*one, rounds) for one in all_calls) / len(all_calls)
    found = sum(any(skips(*one, rounds) for one in looks) for looks in trials(rounds, nbytes)) / TRIALS
    assert found >= 1.0 - (1.0 - share) ** min(size, rounds) - NOISE
    if share >= SHARE:
        assert found >= 0.88 - NOISE


@pytest.mark.parametrize("nbytes", [1 << 10, LARGE, 8 << 30])
def test_every_call_of_every_round_may_be_drawn_and_the_last_round_always_is(nbytes: int) -> None:
    drawn = trials(20, nbytes)
    assert all(any(number == 19 for number, _ in one) for one in drawn)
    times = {number: sum(any(place[0] == number for place in one) for one in drawn) for number in range(19)}
    size = recheck.FEWEST if nbytes >= LARGE else recheck.MOST
    for number, count in times.items():
        assert count / TRIALS == pytest.approx(min(1.0, size / (number + 1)), abs=0.06)
    assert {call for one in drawn for _, call in one} == set(range(CALLS))


def test_what_is_compared_is_bounded() -> None:
    sizes = [len(looks) for looks in trials(40, LARGE)]
    # n + n (1/(n+1) + ... + 1/40) on average, and the last.
    assert sum(sizes) / len(sizes) < 19.0
    assert len(looked_at(2, LARGE, recheck.CLOCK)) == 2


def settings(calls: int) -> dict[str, Any]:
    return {
        "timed_calls": calls, "rounds": 20, "final_rounds": 40, "timing_s": 4.0, "final_timing_s": 15.0,
        "target_error": 0.01,
    }  # fmt: skip


@pytest.mark.parametrize(("most", "rounds"), [(200, OFFICIAL_ROUNDS), (10, OFFICIAL_ROUNDS), (3, 34), (1, 100)])
def test_a_fixed_number_of_calls_is_made_in_rounds_whose_outputs_can_all_be_kept(most: int, rounds: int) -> None:
    plan = Plan.of(settings(100), final=False, most=most)
    assert plan.calls is not None
    assert len(plan.calls) == plan.rounds == len(plan.seeds) == rounds
    assert sum(plan.calls) == 100
    assert max(plan.calls) <= most
    assert plan.seconds == 4.0
    assert Plan.of(settings(0), final=False, most=most).calls is None


def hostile(path: str, heads: list[dict[str, object]], tree: object = None) -> None:
    """Write a file whose header says what it likes."""
    whole = {"place": 0, "nbytes": 4, "requires_grad": False, "device": "cpu", "type": ""}
    text = json.dumps({"tree": tree or {"k": "tensor", "v": 0}, "tensors": [{**whole, **head} for head in heads]})
    header = tensorfile.LENGTH.pack(len(text)) + text.encode()
    with open(path, "wb") as file:
        file.write(header + b"\0" * (256 + -len(header) % tensorfile.ALIGN))


GOOD = {"dtype": "float32", "shape": [2], "stride": [1], "nbytes": 8}
HUGE: dict[str, object] = {"dtype": "float32", "shape": [1 << 42], "stride": [0]}
TREES: dict[str, tuple[list[dict[str, object]], object]] = {
    "more elements than there is memory": ([HUGE], None),
    "about as large as memory": ([{**HUGE, "shape": [1 << 33]}], None),
    "hidden beside what is right": ([GOOD, HUGE], {"k": "tensor", "v": 0}),
    "another dtype": ([{**HUGE, "dtype": "complex128", "nbytes": 16}], None),
    "a dtype without arithmetic": ([{**GOOD, "dtype": "uint4", "nbytes": 2}], None),
    "a dtype that is none": ([{**GOOD, "dtype": "load"}], None),
    "very many dimensions": ([{**HUGE, "shape": [1] * 5000, "stride": [0] * 5000}], None),
    "a tree without its tensors": ([GOOD], {"k": "tensor", "v": 7}),
    "no tree": ([GOOD], 3),
    "more bytes than are expected": ([{**GOOD, "shape": [1 << 40], "stride": [1], "nbytes": 1 << 42}], None),
    "a type with a very long name": ([{**GOOD, "type": "x" * 1_000_000}], None),
    "a list for a dtype": ([{**GOOD, "dtype": ["float32"]}], None),
    "one value for two": ([{**GOOD, "stride": [0], "nbytes": 4}], None),
}


@pytest.mark.parametrize("name", TREES)
def test_what_a_runner_claims_to_have_kept_never_harms_the_judge(name: str, tmp_path: Any) -> None:
    heads, tree = TREES[name]
    path = str(tmp_path / "kept.raw")

    class Runner:
        """Keeps something else than it should; alone it is honest."""

        def kept(self, index: int, limit: int) -> tensorfile.Loaded:
            hostile(path, heads, tree)
            return tensorfile.load(path, limit)

        def alone(self, seed: str, index: int, limit: int, *close_by: object) -> tensorfile.Loaded:
            return tensorfile.capture(torch.tensor([1.0, 2.0]), "cpu")

    runner: Any = Runner()
    drawn = Recheck(runner, runner, 8)
    with pytest.raises(Failed) as raised:
        drawn.look("seed", Round(Sample(1.0, [1.0]), [digest_of(torch.zeros(2))]))
    assert raised.value.finding.status in ("CHEATED", "WRONG_SHAPE")
    assert len(raised.value.finding.message) < 1200


def test_what_rounding_decides_while_timed_may_be_decided_otherwise() -> None:
    codes, others = torch.arange(100.0), torch.arange(100.0)
    others[7] = 50.0  # as near as 7

    class Decides:
        """Gives one code or the other where inputs are moved, as draws have it."""

        def __init__(self, *given: torch.Tensor) -> None:
            self.given = given

        def alone(self, seed: str, index: int, limit: int, moved: int = 0, autocast: str = "") -> tensorfile.Loaded:
            return tensorfile.capture(self.given[moved % len(self.given)].clone(), "cpu")

        kept = alone

    def looked_at_in(candidate: torch.Tensor) -> None:
        runner: Any = Decides(candidate)
        runner.kept = lambda index, limit: runner.alone("", index, limit)
        reference: Any = Decides(codes, others)
        Recheck(runner, reference, 8).look("seed", Round(Sample(1.0, [1.0]), [digest_of(candidate)]))

    looked_at_in(others)
    neither = others.clone()
    neither[8] = 9.0
    with pytest.raises(Failed, match=r"1 % of the elements are off|2 % of the elements are off"):
        looked_at_in(neither)
