"""A class whose caller converts it, for instance to bfloat16, is judged so."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from verify_cases import finding, make_reference

from stark_lsp.contract.errors import Bad

INIT = "self.linear = nn.Linear(16, 32)\nself.norm = nn.LayerNorm(32)"
FORM = "return self.norm(torch.relu(self.linear(x)))"


@pytest.mark.parametrize(("name", "dtype"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_a_class_becomes_what_its_inputs_are(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    reference = make_reference(tmp_path, FORM, f"torch.randn(64, 16, dtype=torch.{name})", init=INIT)
    assert reference.weights_dtype == name
    assert {weight.dtype for weight in reference.module.parameters()} == {dtype}
    assert reference.cases[0].outputs.tensors[0].dtype is dtype
    # The scale of weights is no matter where results plainly depend on the inputs, however wide the tolerance.
    assert not any("scaled" in note for note in reference.notes)


def test_one_that_would_run_in_float32_as_well_is_converted_too(tmp_path: Path) -> None:
    # What multiplies by its weight last makes float32 of everything behind it.
    reference = make_reference(
        tmp_path,
        "return self.linear(self.weight * x)",
        "torch.randn(64, 16, dtype=torch.bfloat16)",
        init="self.weight = nn.Parameter(torch.ones(16))\nself.linear = nn.Linear(16, 32)",
    )
    assert reference.cases[0].outputs.tensors[0].dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("inputs", "init", "body"),
    [
        ("torch.randn(64, 16)", INIT, FORM),
        # Weights of several dtypes are what the class means.
        (
            "torch.randn(64, 16, dtype=torch.bfloat16)",
            "self.linear = nn.Linear(16, 32, dtype=torch.bfloat16)\nself.gain = nn.Parameter(torch.ones(32))",
            "return self.gain * self.linear(x)",
        ),
    ],
)
def test_others_stay_as_they_are_constructed(tmp_path: Path, inputs: str, init: str, body: str) -> None:
    reference = make_reference(tmp_path, body, inputs, init=init)
    assert reference.weights_dtype == ""
    assert reference.unconverted == ""
    assert reference.cases[0].outputs.tensors[0].dtype is torch.float32


def test_one_that_does_not_run_converted_stays_and_says_why(tmp_path: Path) -> None:
    inputs, init = "torch.randn(64, 16, dtype=torch.bfloat16)", "self.linear = nn.Linear(16, 32)"
    reference = make_reference(tmp_path, "return self.linear(x.float())", inputs, init=init)
    assert reference.weights_dtype == ""
    assert reference.cases[0].outputs.tensors[0].dtype is torch.float32
    assert "converted to that the class does not run (RuntimeError: mat1 and mat2" in reference.unconverted


def test_one_that_runs_neither_way_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(Bad, match="no_such"):
        make_reference(tmp_path, "return self.no_such(x)", "torch.randn(4, 16, dtype=torch.bfloat16)", init=INIT)


def test_a_candidate_has_the_dtype_of_the_original(tmp_path: Path) -> None:
    reference = make_reference(tmp_path, FORM, "torch.randn(64, 16, dtype=torch.bfloat16)", init=INIT)
    converted = f"{INIT}\nself.to(torch.bfloat16)"
    assert finding(reference, tmp_path / "right", FORM, init=converted)[0] == "OK"
    assert finding(reference, tmp_path / "wide", f"{FORM}.float()", init=converted)[0] == "WRONG_DTYPE"


def test_inputs_are_looked_at_without_their_memory(tmp_path: Path) -> None:
    counted = "(made.append(torch.get_default_device().type), torch.randn(64, 16))[1]"
    text = "self.linear = nn.Linear(16, 4)\nglobals().setdefault('made', [])"
    reference = make_reference(tmp_path, "return self.linear(x)", counted, init=text)
    looked, *used = reference.document.made
    assert looked == "meta"
    assert set(used) == {"cpu"}
