"""Builds that a candidate asks for, seen from its attempt: when they may happen, and what a failed one means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.building.service import Built, Failure
from stark_lsp.judge.correctness.classify import Failed, Finding
from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.service.asked import LATE_BUILD, MOST_BUILDS
from stark_lsp.judge.service.attempt import Attempt
from stark_lsp.judge.service.told import Told

REQUEST = {"name": "aligned", "cpp_sources": ["int two() { return 2; }"], "cuda_sources": [], "files": []}
RUNNER: Any = SimpleNamespace(give=lambda path: path, pid=1)
OTHER: Any = SimpleNamespace(give=lambda path: path, pid=2)


def attempt(
    folder: Path, build: Callable[[dict[str, Any]], Built], alternatives: tuple[str, ...] = (), device: str = "cuda"
) -> Attempt:
    judge: Any = SimpleNamespace(
        bench=SimpleNamespace(turns=Turns(str(folder), "gpu"), wake=lambda: None),
        reference=SimpleNamespace(device=device, weights_path="weights.pt"),
        settings={"build_timeout_s": 5.0},
        builds=SimpleNamespace(build=lambda request, seconds: build(request)),
    )
    told = Told("", alternatives=alternatives)
    return Attempt(judge, {"source": "", "class_name": "ModelNew"}, False, lambda text, seconds: None, told=told)


def within(seconds: float, run: Callable[[], Any]) -> Any:
    """Run something in a thread, so that a test of what must not hang ends; returns what it returned."""
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(run()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert made, "it hangs"
    return made[0]


def test_a_build_that_is_asked_for_while_it_is_timed_is_made_at_once(tmp_path: Path) -> None:
    one = attempt(tmp_path, lambda request: Built(library="aligned.so"))

    def timed() -> Any:
        with one._bench.turns.measuring():
            return one._build(RUNNER, dict(REQUEST))

    assert within(20.0, timed) == {"library": "aligned.so"}
    # Nothing is left held: the next one may measure.
    with one._bench.turns.measuring():
        pass


def test_who_builds_again_and_again_while_it_is_timed_is_stopped(tmp_path: Path) -> None:
    one = attempt(tmp_path, lambda request: Built(library="aligned.so"))
    one._build(RUNNER, dict(REQUEST))
    assert one._asked.notes == [LATE_BUILD]
    one._asked._late_s = 5.0
    with pytest.raises(Failed) as raised:
        one._build(RUNNER, dict(REQUEST))
    assert raised.value.finding.status == "TIMED_OUT"


def test_others_may_be_timed_while_one_that_is_not_waits_for_its_compiler(tmp_path: Path) -> None:
    def build(request: dict[str, Any]) -> Built:
        with Turns(str(tmp_path), "gpu").measuring():
            return Built(library="aligned.so")

    one = attempt(tmp_path, build)

    def verified() -> Any:
        with one._working():
            return one._build(RUNNER, dict(REQUEST))

    assert within(20.0, verified) == {"library": "aligned.so"}


def test_who_measures_is_told_of_an_attempt_to_work_in_the_midst_of_it(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path), "gpu")

    def nested() -> Any:
        with turns.measuring(), pytest.raises(RuntimeError, match="measures"), turns.working():
            pass
        # Afterwards it may.
        with turns.working():
            return True

    assert within(20.0, nested)


def test_each_process_may_build_so_many_and_none_may_build_more(tmp_path: Path) -> None:
    one = attempt(tmp_path, lambda request: Built(library="aligned.so"), device="cpu")
    one._works = True
    for _ in range(MOST_BUILDS):
        for runner in (RUNNER, OTHER):
            assert "library" in one._build(runner, dict(REQUEST))
    for runner in (RUNNER, OTHER):
        assert "More than" in one._build(runner, dict(REQUEST))["error"]


FIRST_OR_SECOND = ("first", "sec*")


def asked(folder: Path, alternatives: tuple[str, ...], outcome: dict[str, bool]) -> Attempt:
    """Return an attempt that asked for extensions, in that order, of which some built."""

    def build(request: dict[str, Any]) -> Built:
        if outcome[request["name"]]:
            return Built(library="made.so")
        return Built(error="Error building extension 'x': error: no such flag", failure=Failure.COMPILER)

    one = attempt(folder, build, alternatives, device="cpu")
    one._works = True
    for name in outcome:
        one._build(RUNNER, {**REQUEST, "name": name})
    return one


def test_a_failed_build_is_no_error_where_another_one_took_its_place(tmp_path: Path) -> None:
    one = asked(tmp_path, FIRST_OR_SECOND, {"first": False, "second": True})
    assert one._asked.considered(Finding("OK", "")).status == "OK"
    assert one._asked.notes == [
        "The extension first did not build here; second, which the source builds in its place, was judged."
    ]
    assert one._asked.considered(Finding("WRONG_RESULT", "off")).status == "WRONG_RESULT"


@pytest.mark.parametrize(
    ("alternatives", "outcome"),
    [
        (FIRST_OR_SECOND, {"first": False, "second": False}),
        (FIRST_OR_SECOND, {"first": False}),
        # Neither another kernel, nor one that had been there before, takes its place.
        (FIRST_OR_SECOND, {"first": False, "third": True}),
        (FIRST_OR_SECOND, {"second": True, "first": False}),
        (FIRST_OR_SECOND, {"third": False, "first": False, "second": True}),
        ((), {"first": False, "second": True}),
    ],
)
def test_a_failed_build_is_an_error_wherever_nothing_took_its_place(
    tmp_path: Path, alternatives: tuple[str, ...], outcome: dict[str, bool]
) -> None:
    one = asked(tmp_path, alternatives, outcome)
    assert one._asked.considered(Finding("OK", "")).status == "COMPILE_ERROR"
    assert one._asked.considered(Finding("REFUSED", "")).status == "REFUSED"
