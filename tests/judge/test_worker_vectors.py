"""MKL's functions are looked up by one thread before any other needs them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.device import vectors
from stark_lsp.judge.processes import runner
from stark_lsp.judge.service import judging


def test_each_function_is_called_once_of_one_number_in_both_types(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, Any, int]] = []
    for name in vectors.FUNCTIONS:
        function = getattr(torch, name)

        def noted(x: Any, name: str = name, function: Any = function) -> Any:
            called.append((name, x.dtype, x.numel()))
            return function(x)

        monkeypatch.setattr(torch, name, noted)
    vectors.look_up()
    each = [(name, dtype, 1) for dtype in (torch.float32, torch.float64) for name in vectors.FUNCTIONS]
    assert sorted(called, key=str) == sorted(each, key=str)
    assert {"tanh", "exp", "erf", "sin", "sqrt", "log"} <= set(vectors.FUNCTIONS)


@pytest.mark.parametrize("spare", [True, False])
def test_a_process_does_so_before_it_loads_anything(spare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(vectors, "look_up", lambda: order.append("looked up"))
    monkeypatch.setattr(runner.ahead, "load", lambda device, missing: order.append("loaded"))
    runner.Runner(None, "", spare=spare, compiles=False)  # type: ignore[arg-type]
    assert order[0] == "looked up"


def test_so_does_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done(Exception):
        pass

    def look_up() -> None:
        raise Done

    monkeypatch.setattr(vectors, "look_up", look_up)
    judge = judging.Judge.__new__(judging.Judge)
    judge.settings = {}  # type: ignore[attr-defined]

    class Original:
        device = "cpu"

    before = torch.get_num_threads()
    try:
        with pytest.raises(Done):
            judge._begin(Original(), "", False, lambda *given: pytest.fail("too early"))  # type: ignore[arg-type]
    finally:
        torch.set_num_threads(before)
