"""A class that is called under autocast is judged so: what it and candidates give is as exact as that is."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from verify_cases import finding, make_reference

from stark_lsp.judge.reference import modules

INIT = "self.first = nn.Linear(64, 128)\nself.norm = nn.LayerNorm(128)\nself.second = nn.Linear(128, 64)"
FORM = "return x + self.second(self.norm(torch.relu(self.first(x))))"
INPUTS = "torch.randn(64, 64)"
AUTOCAST = {"autocast": "bfloat16"}
BY_HAND = """
    low = lambda one, x: F.linear(x.bfloat16(), one.weight.bfloat16(), one.bias.bfloat16())
    return x + low(self.second, self.norm(torch.relu(low(self.first, x)).float()))
"""


@pytest.mark.parametrize("inputs", [INPUTS, "torch.randn(64, 64, dtype=torch.bfloat16)"])
def test_weights_stay_and_operations_are_cast(tmp_path: Path, inputs: str) -> None:
    reference = make_reference(tmp_path, "return self.first(x)", inputs, init=INIT, table=AUTOCAST)
    assert (reference.autocast, reference.weights_dtype) == ("bfloat16", "")
    assert {weight.dtype for weight in reference.module.parameters()} == {torch.float32}
    assert reference.cases[0].outputs.tensors[0].dtype is torch.bfloat16
    # In float64, which is never cast, it says how exact the rest is.
    assert reference.cases[0].own_errors is not None
    assert 1e-4 < reference.cases[0].own_errors[0] < 3e-2


@pytest.mark.parametrize("mode", ["eval", "training"])
def test_results_in_float32_are_no_more_exact_than_what_they_come_from(tmp_path: Path, mode: str) -> None:
    reference = make_reference(tmp_path, FORM, INPUTS, init=INIT, table=AUTOCAST, mode=mode)
    assert reference.cases[0].outputs.tensors[0].dtype is torch.float32
    assert finding(reference, tmp_path / "same", FORM, init=INIT)[0] == "OK"
    assert finding(reference, tmp_path / "by hand", BY_HAND, init=INIT)[0] == "OK"
    uncast = f"with torch.autocast('cpu', enabled=False):\n    {FORM}"
    assert finding(reference, tmp_path / "exact", uncast, init=INIT)[0] == "OK"
    off = FORM.replace("self.norm(", "1.2 * self.norm(")
    assert finding(reference, tmp_path / "wrong", off, init=INIT)[0] == "WRONG_RESULT"


def test_without_autocast_the_same_candidate_is_wrong(tmp_path: Path) -> None:
    reference = make_reference(tmp_path, FORM, INPUTS, init=INIT)
    assert finding(reference, tmp_path / "by hand", BY_HAND, init=INIT)[0] == "WRONG_RESULT"


@pytest.mark.parametrize("mode", ["eval", "training"])
def test_an_autocast_of_its_own_leaves_the_room_that_it_takes(tmp_path: Path, mode: str) -> None:
    # No ReLU: one that bfloat16 turns on or off gives single gradients that differ by more.
    inside = "with torch.autocast('cpu', torch.bfloat16):\n    y = self.second(torch.tanh(self.first(x)))\nreturn x + y"
    reference = make_reference(tmp_path, inside, INPUTS, init=INIT, mode=mode)
    assert any("computes in bfloat16 on the way" in note for note in reference.notes)
    by_hand = """
        low = lambda one, x: F.linear(x, one.weight.bfloat16(), one.bias.bfloat16())
        return x + low(self.second, torch.tanh(low(self.first, x.bfloat16())))
    """
    # Exact as it is, it differs by more than float32 has room for.
    exact = "return x + self.second(torch.tanh(self.first(x)))"
    for name, body in (("by hand", by_hand), ("exact", exact)):
        assert finding(reference, tmp_path / name, body, init=INIT)[0] == "OK"
    wrong = exact.replace("torch.tanh(", "1.1 * torch.tanh(")
    assert finding(reference, tmp_path / "wrong", wrong, init=INIT)[0] == "WRONG_RESULT"


def test_gradients_are_held_to_what_autocast_leaves_of_them(tmp_path: Path) -> None:
    reference = make_reference(tmp_path, FORM, INPUTS, init=INIT, table=AUTOCAST, gradients=True)
    assert reference.backward is not None
    assert finding(reference, tmp_path / "by hand", BY_HAND, init=INIT)[0] == "OK"


def test_a_copy_is_cast_and_nothing_else_changes() -> None:
    plain = torch.nn.Linear(4, 4)
    one = modules.used(copy.deepcopy(plain), "", "bfloat16", "cpu")
    other = copy.deepcopy(one)
    with torch.no_grad():
        other.weight.zero_()
        other.bias.zero_()
    x = torch.randn(2, 4)
    assert one(x).dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    assert one(x).any()
    assert not other(x).any()
    assert type(one).__qualname__ == "Linear"
    assert isinstance(one, torch.nn.Linear)
    assert inspect.signature(one.forward) == inspect.signature(plain.forward)
    assert plain(x).dtype is torch.float32
