"""Timed rounds in this process: what is kept, and that a candidate which is different while timed is found."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.correctness.classify import Failed
from stark_lsp.judge.processes import ahead
from stark_lsp.judge.processes.failures import RunnerForged
from stark_lsp.judge.timing import clock
from stark_lsp.judge.timing.recheck import Recheck
from stark_lsp.judge.timing.timed import Timed
from stark_lsp.judge.timing.timer import Timer
from stark_lsp.judge.transport import tensorfile

ROUNDS = 6


class Here:
    """Carries out a runner's requests in this process."""

    class Files:
        """A private folder."""

        def __init__(self, out: str) -> None:
            self.out = out

    def __init__(self, folder: Path, call: Callable[[torch.Tensor], Any]) -> None:
        self.files = Here.Files(str(folder))
        self._call = call
        self.timed = Timed()
        self.killed = False
        self.device = "cpu"
        self.exchange = None

    def give(self, path: str) -> str:
        return path

    def kill(self) -> None:
        self.killed = True

    def look(self) -> None:
        """Nothing is limited here."""

    def ask(
        self, command: str, *, run_s: float, build_s: float = 0.0, timed: bool = False, **params: Any
    ) -> dict[str, Any]:
        if command == "hold":
            sets = [tensorfile.load(path).tree("cpu") for path in params.pop("inputs")]
            return self.timed.hold(lambda arguments: self._call(*arguments[0]), sets, "cpu", **params)
        return self.timed.commands()[command](**params)


def timer_of(folder: Path, call: Callable[[torch.Tensor], Any], *, sets: int = 3) -> Timer:
    """Return a runner in this process that is ready to be timed."""
    paths = []
    for seed in range(sets):
        torch.manual_seed(seed)
        paths.append(str(folder / f"case{seed}.raw"))
        tensorfile.save(paths[-1], ((torch.randn(32, 16),), {}))
    timer = Timer(Here(folder, call), 10.0)  # type: ignore[arg-type]
    timer.hold(paths, warmup=2, round_ms=4.0, run_s=10.0, build_s=10.0)
    return timer


def judged(folder: Path, call: Callable[[torch.Tensor], Any]) -> tuple[str, str] | None:
    """Time a candidate for some rounds; return status and message of what is found, None if nothing is."""
    eager, candidate = timer_of(folder, honest), timer_of(folder, call)
    recheck = Recheck(candidate, eager, 32 * 16 * 4)
    try:
        for number in range(ROUNDS):
            recheck.look(f"seed {number}", candidate.round(f"seed {number}", 20))
        recheck.finish()
    except Failed as failure:
        return failure.finding.status, failure.finding.message
    return None


def honest(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2.0 + 1.0)


def by(key: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """Return a candidate that gives the same result again when `key` is one it has seen."""
    seen: dict[Any, torch.Tensor] = {}

    def call(x: torch.Tensor) -> torch.Tensor:
        if key(x) not in seen:
            seen[key(x)] = honest(x)
        return seen[key(x)].clone()

    return call


def test_an_honest_candidate_passes(tmp_path: Path) -> None:
    assert judged(tmp_path, honest) is None


def test_a_candidate_that_remembers_by_content_has_to_compute_everything(tmp_path: Path) -> None:
    computed = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        return computed.append(1) or honest(x)  # type: ignore[func-returns-value]

    seen: dict[bytes, torch.Tensor] = {}

    def call(x: torch.Tensor) -> torch.Tensor:
        key = x.numpy().tobytes()
        if key not in seen:
            seen[key] = counting(x)
        return seen[key]

    timer = timer_of(tmp_path, call)
    computed.clear()
    for number in range(ROUNDS):
        timer.round(f"seed {number}", 5)
    # Five of each round, and the one that goes before them.
    assert len(computed) == ROUNDS * 6


def test_a_candidate_that_remembers_by_pointer_is_found(tmp_path: Path) -> None:
    found = judged(tmp_path, by(lambda x: x.data_ptr()))
    assert found is not None
    assert found[0] in ("CHEATED", "WRONG_RESULT")


def test_a_candidate_that_remembers_by_rough_content_is_found(tmp_path: Path) -> None:
    assert judged(tmp_path, by(lambda x: x.shape)) is not None


def test_a_candidate_that_is_wrong_only_while_timed_has_cheated(tmp_path: Path) -> None:
    timing = []
    eager = timer_of(tmp_path, honest)
    candidate = timer_of(tmp_path, lambda x: torch.zeros_like(x) if timing else honest(x))
    timing.append(1)
    made = candidate.round("seed")
    timing.clear()
    with pytest.raises(Failed) as raised:
        Recheck(candidate, eager, 32 * 16 * 4).look("seed", made)
    assert raised.value.finding.status == "CHEATED"
    assert "while it was timed" in raised.value.finding.message


def test_a_candidate_that_is_wrong_for_new_inputs_is_wrong_and_no_cheat(tmp_path: Path) -> None:
    found = judged(tmp_path, lambda x: honest(x) + 0.1)
    assert found is not None
    assert found[0] == "WRONG_RESULT"
    assert "mixed anew" in found[1]


def test_outputs_that_are_made_up_after_the_round_do_not_have_the_pledged_digest(tmp_path: Path) -> None:
    eager, candidate = timer_of(tmp_path, honest), timer_of(tmp_path, lambda x: torch.zeros_like(x))
    made = candidate.round("seed")
    held = candidate.runner.timed._kept  # type: ignore[attr-defined]
    for index in range(len(made.pledge)):
        held.output(index)[1][0].copy_(honest(torch.ones(32, 16)))
    with pytest.raises(Failed) as raised:
        Recheck(candidate, eager, 32 * 16 * 4).look("seed", made)
    assert raised.value.finding.status == "CHEATED"
    assert "changed what it had returned" in raised.value.finding.message


@pytest.mark.parametrize(
    "answer",
    [
        {"ms": [], "pledge": [1] * 4},
        {"ms": [-1.0] * 4, "pledge": [1] * 4},
        {"ms": ["fast"] * 4, "pledge": [1] * 4},
        {"ms": [1e-3] * 3, "pledge": [1] * 4},
        {"ms": [1e6] * 4, "pledge": [1] * 4},
        {"ms": [1e-3] * 4, "pledge": []},
        {"ms": [1e-3] * 4, "pledge": [1] * 3},
        {"ms": [1e-3] * 4, "pledge": [1] * 5},
        {"ms": [1e-3] * 4, "pledge": [1, 2, 3, "4"]},
        {"ms": [1e-3] * 4, "pledge": [1, 2, 3, 0.5]},
        {"ms": [1e-3] * 4},
    ],
)
def test_an_answer_that_cannot_be_true_is_forged(tmp_path: Path, answer: dict[str, Any]) -> None:
    timer = timer_of(tmp_path, honest)
    here = timer.runner
    here.ask = lambda command, **params: answer  # type: ignore[method-assign,assignment]
    with pytest.raises(RunnerForged):
        timer.round("seed", 4)
    assert here.killed  # type: ignore[attr-defined]


def test_calls_are_timed_without_what_goes_before_and_after() -> None:
    def before(number: int) -> int:
        time.sleep(0.02)
        return number

    seen: list[int] = []
    times = clock.Clock("cpu").measure(lambda number: number, [3, 4], before, seen.append)
    assert seen == [3, 4]
    assert max(times) < 10.0


def test_nothing_of_a_rehearsal_is_held_and_what_follows_is_timed(tmp_path: Path) -> None:
    called: list[torch.Tensor] = []
    runner = Here(tmp_path, lambda x: called.append(x) or honest(x))  # type: ignore[func-returns-value]
    ahead.rehearse(runner.timed, "cpu")
    with pytest.raises(LookupError, match="no inputs are held"):
        runner.timed.time("seed", 2)
    with pytest.raises(LookupError, match="nothing is kept"):
        runner.timed.kept(0, str(tmp_path / "out.raw"))

    path = str(tmp_path / "case.raw")
    tensorfile.save(path, ((torch.randn(32, 16),), {}))
    timer = Timer(runner, 10.0)  # type: ignore[arg-type]
    timer.hold([path], warmup=2, round_ms=1.0, run_s=10.0, build_s=10.0)
    before = len(called)
    made = timer.round("seed", 5)
    assert len(called) - before == 6, "five timed calls and the one before them"
    assert len(made.sample.ms) == len(made.pledge) == 5


def test_a_call_close_by_moves_weights_where_no_input_can_be_moved_and_leaves_them_as_they_were(tmp_path: Path) -> None:
    timed, embedding = Timed(), torch.nn.Embedding(8, 4)
    before = embedding.weight.detach().clone()
    sets = [((torch.arange(8),), {})]
    timed.hold(lambda given: embedding(*given[0]), sets, "cpu", warmup=1, round_ms=0.1, weights=embedding.parameters)
    found = []
    for moved in (0, 1, 2):
        path = str(tmp_path / f"{moved}.raw")
        timed.alone("seed", 0, path, moved)
        found.append(tensorfile.load(path).tree("cpu"))
    assert not any(torch.equal(one, other) for one, other in ((found[0], found[1]), (found[1], found[2])))
    assert torch.allclose(found[0], found[1], rtol=1e-5)
    assert torch.equal(embedding.weight, before)
