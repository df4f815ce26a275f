"""Modules whose result TF32 makes a percent of: right ones pass, wrong ones do not, however far off both may be.

There is no TF32 on a CPU. So a product here rounds its factors to 10 bits itself wherever PyTorch would let cuDNN do
it; the candidate rounds other multiples of them, which is as right.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from verify_cases import finding, make_reference, verify

from stark_lsp.judge.correctness import compare, ieee
from stark_lsp.judge.reference import examine
from stark_lsp.judge.reference.reference import Reference
from stark_lsp.judge.transport import tensorfile

ROUND = """
def short(x, half):
    if x.dtype != torch.float32 or not torch.backends.cudnn.allow_tf32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + half) & ~0x1FFF).view(torch.float32)
"""
DEEP = """
for _ in range({depth}):
    x = torch.relu({factor} @ short(self.weight, {half})) * {scale}
return x
"""
INIT = "self.weight = nn.Parameter(torch.randn(64, 64) * (2 / 64) ** 0.5)\n"


OTHERWISE = "short(x * 1.5, 0x1000) / 1.5"


def body(factor: str = "short(x, 0x1000)", *, half: str = "0x1000", scale: str = "1.0") -> str:
    """Return a forward that brings its own rounding."""
    deep = DEEP.format(factor=factor, half=half, scale=scale, depth=24)
    return ROUND.strip() + "\n" + deep.strip()


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("r")
    return make_reference(folder, body(), "torch.randn(32, 64)", init=INIT, special_inputs=False)


def test_what_the_reference_is_off_by_is_measured_with_tf32_and_without(deep: Reference) -> None:
    (first, *_) = deep.cases
    assert first.own_errors is not None
    assert first.ieee_errors is not None
    assert compare.USUAL.has_no_room(torch.float32, first.own_errors[0])
    assert not compare.USUAL.has_no_room(torch.float32, first.ieee_errors[0])


def test_another_right_program_passes_although_it_is_far_off(deep: Reference, tmp_path: Path) -> None:
    verifier = verify(deep, tmp_path, body(OTHERWISE), init=INIT)
    usual = compare.USUAL.of(torch.float32) * compare.WIDEN_LIMIT
    assert usual < verifier.figures.max_rel <= verifier.figures.tolerance
    assert any("TF32" in note for note in verifier.notes)


@pytest.mark.parametrize("scale", ["1.0001", "0.97"])
def test_a_wrong_one_does_not_pass_by_being_off_no_further(deep: Reference, tmp_path: Path, scale: str) -> None:
    assert finding(deep, tmp_path, body(OTHERWISE, scale=scale), init=INIT)[0] == "WRONG_RESULT"


def test_one_that_computes_in_less_than_tf32_does_not_pass(deep: Reference, tmp_path: Path) -> None:
    coarse = body(OTHERWISE).replace("~0x1FFF", "~0x1FFFF")
    assert finding(deep, tmp_path, coarse, init=INIT)[0] == "WRONG_RESULT"


def test_one_that_cuts_off_where_the_original_rounds_is_too_far_off(deep: Reference, tmp_path: Path) -> None:
    assert finding(deep, tmp_path, body("short(x, 0)", half="0"), init=INIT)[0] == "WRONG_RESULT"


def test_a_class_that_names_float32_is_run_in_float64_all_the_same(tmp_path: Path) -> None:
    named = f"x = x.float() + torch.zeros(64, dtype=torch.float32)\n{body()}"
    reference = make_reference(tmp_path / "r", named, "torch.randn(32, 64)", init=INIT, special_inputs=False)
    (first, *_) = reference.cases
    assert first.exact is not None
    assert first.exact[0].dtype is torch.float64
    assert first.own_errors is not None
    assert compare.USUAL.has_no_room(torch.float32, first.own_errors[0])
    assert not any("No float64 comparison" in note for note in reference.notes)


def test_a_class_that_reads_bits_is_not_run_in_float64(tmp_path: Path) -> None:
    bits = "(x.float().view(torch.int32) & ~0xFFF).view(torch.float32)"
    reference = make_reference(tmp_path / "r", f"return {bits} @ self.weight", "torch.randn(32, 64)", init=INIT)
    assert reference.cases[0].exact is None
    assert any("No float64 comparison" in note for note in reference.notes)


def test_a_class_that_makes_its_first_state_is_run_in_float64_too(tmp_path: Path) -> None:
    state = "tuple(torch.zeros(1, x.shape[0], 16) for _ in range(2))"
    body = f"return self.rnn(x, {state})[0]"
    init = "self.rnn = nn.LSTM(8, 16, batch_first=True)\n"
    (first, *_) = make_reference(tmp_path / "r", body, "torch.randn(4, 6, 8)", init=init).cases
    assert first.own_errors is not None
    assert 0.0 < first.own_errors[0] < 1e-5
    assert torch.get_default_dtype() is torch.float32


def test_where_the_usual_tolerance_has_room_nothing_else_is_measured(tmp_path: Path) -> None:
    plain = make_reference(tmp_path, "return x @ self.weight", "torch.randn(32, 64)", init=INIT, special_inputs=False)
    assert plain.cases[0].ieee_errors is None


def test_where_there_is_no_float64_what_it_gives_without_tf32_stands_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "reference"
    other = make_reference(folder, body(), "torch.randn(32, 64)", init=INIT, special_inputs=False)
    first = other.cases[0]
    known, first.own_errors, first.exact, first.ieee_errors, first.ieee = first.own_errors, None, None, None, None
    examine.Examination(other, first).measure_tf32()
    assert first.own_errors == pytest.approx(known, rel=0.05)
    for case in other.cases:
        case.own_errors = first.own_errors
    verifier = verify(other, tmp_path, body(OTHERWISE), init=INIT)
    assert verifier.figures.float64_max_rel is None
    assert finding(other, tmp_path, body(OTHERWISE, scale="1.0001"), init=INIT)[0] == "WRONG_RESULT"


def test_what_was_allowed_is_allowed_again_afterwards() -> None:
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    for allowed in (True, False):
        with ieee.allowing(allowed):
            assert (cudnn.allow_tf32, matmul.allow_tf32) == (allowed, allowed)
    assert (cudnn.allow_tf32, matmul.allow_tf32) == before


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="this torch has no fp32_precision")
def test_where_a_class_has_set_the_newer_names_these_are_used() -> None:
    conv = torch.backends.cudnn.conv
    before = conv.fp32_precision
    conv.fp32_precision = "ieee"
    try:
        with ieee.allowing(False):
            assert torch.backends.cudnn.rnn.fp32_precision == "ieee"
        assert (conv.fp32_precision, torch.backends.cudnn.rnn.fp32_precision) == ("ieee", "tf32")
    finally:
        conv.fp32_precision = before


@pytest.mark.parametrize(
    ("skeleton", "dtype"),
    [({"k": "settings", "name": 3, "fields": [], "v": []}, "uint8"), ({"k": "tensor", "v": 0}, "uint4")],
)
def test_a_process_without_tf32_may_write_anything(tmp_path: Path, skeleton: Any, dtype: str) -> None:
    reference = make_reference(tmp_path / "r", "return x * 2", "torch.randn(4, 4)", special_inputs=False)
    tensor = torch.ones(4, 4, dtype=torch.uint8)
    heads = [{**tensorfile.capture(tensor, "cpu").heads[0], "dtype": dtype}]

    def ask(command: str, **params: Any) -> None:
        if command == "forward":
            tensorfile.write(params["outputs"], skeleton, [tensor], heads=heads)

    runner: Any = SimpleNamespace(files=SimpleNamespace(out=str(tmp_path)), give=str, exchange=None, ask=ask)
    assert ieee.outputs_of(runner, lambda runner: None, reference, 1.0) is None
