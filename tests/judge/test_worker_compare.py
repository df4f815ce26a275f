"""Comparing outputs: tolerance scaled by the largest value, and NaN where the reference has it."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.correctness import compare
from stark_lsp.judge.transport import tensorfile


@pytest.fixture
def check(tmp_path: Path):  # type: ignore[no-untyped-def]
    def run(reference: object, candidate: object, own: float = 0.0) -> compare.Figures:
        loaded = []
        for name, tree in (("r", reference), ("c", candidate)):
            tensorfile.save(str(tmp_path / name), tree)
            loaded.append(tensorfile.load(str(tmp_path / name)))
        figures = compare.Figures()
        compare.compare(loaded[0], loaded[1], figures, [own] * len(loaded[0].tensors))
        return figures

    return run


def status(check, reference: object, candidate: object) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(compare.Mismatch) as caught:
        check(reference, candidate)
    return caught.value.status


def test_rounding_passes_and_is_reported(check) -> None:  # type: ignore[no-untyped-def]
    reference = torch.linspace(-4, 4, 1000)
    figures = check(reference, reference * (1 + 1e-6))
    assert 0 < figures.max_rel < 1e-5
    assert figures.tolerance == 2e-5


def test_a_zero_output_does_not_pass_for_a_tiny_reference(check) -> None:  # type: ignore[no-untyped-def]
    reference = torch.full((100,), 1e-6)
    assert status(check, reference, torch.zeros(100)) == "WRONG_RESULT"


def test_half_precision_inside_does_not_pass_for_single(check) -> None:  # type: ignore[no-untyped-def]
    reference = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert status(check, reference, reference.bfloat16().float()) == "WRONG_RESULT"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_must_be_so_on_both_sides(check, value: float) -> None:  # type: ignore[no-untyped-def]
    special, plain = torch.tensor([1.0, value, 2.0]), torch.tensor([1.0, 3.0, 2.0])
    check(special, special.clone())
    assert status(check, plain, special) == "NOT_FINITE"
    assert status(check, special, plain) == "WRONG_RESULT"


def test_infinities_of_other_sign_differ(check) -> None:  # type: ignore[no-untyped-def]
    assert status(check, torch.tensor([float("inf")]), torch.tensor([float("-inf")])) == "WRONG_RESULT"


def test_integers_and_booleans_must_be_equal(check) -> None:  # type: ignore[no-untyped-def]
    check(torch.tensor([1, 2]), torch.tensor([1, 2]))
    assert status(check, torch.tensor([1, 10**6]), torch.tensor([1, 10**6 + 1])) == "WRONG_RESULT"
    assert status(check, torch.tensor([True]), torch.tensor([False])) == "WRONG_RESULT"


def test_an_all_zero_reference_is_compared_absolutely(check) -> None:  # type: ignore[no-untyped-def]
    check(torch.zeros(4), torch.full((4,), 1e-6))
    assert status(check, torch.zeros(4), torch.ones(4)) == "WRONG_RESULT"


def test_layout_matters_only_where_the_reference_is_contiguous(check) -> None:  # type: ignore[no-untyped-def]
    reference = torch.randn(3, 5)
    other = reference.t().contiguous().t()
    check(other, reference)
    check(other, other.clone())
    check(torch.empty(0, 3), torch.empty(0, 3))
    assert status(check, reference, other) == "WRONG_SHAPE"


def test_structure_shape_and_dtype_are_told_apart(check) -> None:  # type: ignore[no-untyped-def]
    one = torch.ones(2)
    assert status(check, (one, one), (one,)) == "WRONG_SHAPE"
    assert status(check, (one,), [one]) == "WRONG_SHAPE"
    assert status(check, {"a": one}, {"b": one}) == "WRONG_SHAPE"
    assert status(check, one, torch.ones(2, 1)) == "WRONG_SHAPE"
    assert status(check, one, one.double()) == "WRONG_DTYPE"
    assert status(check, (one, 1), (one, 2)) == "WRONG_RESULT"


def test_the_order_of_a_dict_does_not_matter(check) -> None:  # type: ignore[no-untyped-def]
    check({"a": torch.ones(1), "b": torch.zeros(1)}, {"b": torch.zeros(1), "a": torch.ones(1)})


def test_the_message_names_output_place_and_size(check) -> None:  # type: ignore[no-untyped-def]
    reference = torch.ones(2, 3, 4)
    candidate = reference.clone()
    candidate[1, 2, 3] = 3.0
    with pytest.raises(compare.Mismatch, match=r"output \[1\] is 3 at \(1, 2, 3\).*gives 1: off by 2"):
        check((reference, reference), (reference, candidate))


def test_the_figures_tell_of_what_is_wrong() -> None:
    one, other = (tensorfile.capture(torch.full((4,), value), "cpu") for value in (2.0, 3.0))
    figures = compare.Figures()
    with pytest.raises(compare.Mismatch):
        compare.compare(one, other, figures)
    assert (figures.max_abs, figures.max_rel, figures.tolerance) == (1.0, 0.5, 2e-5)


def test_an_inexact_reference_widens_the_tolerance_but_not_without_end() -> None:
    assert compare.USUAL.of(torch.float32, 1e-7) == 2e-5
    assert compare.USUAL.of(torch.float32, 1e-4) == pytest.approx(4e-4)
    assert compare.USUAL.of(torch.float32, 1.0) == pytest.approx(1e-3)
    assert compare.USUAL.of(torch.int64, 1.0) == 0.0


@pytest.mark.parametrize(
    "skeleton",
    [
        {"k": "tensor", "v": 5},
        {"k": "tensor", "v": "x"},
        {"k": "tensor"},
        {"k": "list", "v": 3},
        {"k": "dict", "v": [1]},
        {"k": "dataclass", "v": []},
    ],
)
def test_a_tree_that_our_own_code_never_writes_is_a_cheat(skeleton: object) -> None:
    one = tensorfile.capture(torch.ones(2), "cpu")
    forged = tensorfile.Loaded(skeleton, one.tensors, one.heads)
    with pytest.raises(compare.Mismatch) as caught:
        compare.compare(one, forged, compare.Figures())
    assert caught.value.status in ("CHEATED", "WRONG_SHAPE")


def test_a_number_that_says_no_value_is_wrong() -> None:
    one = tensorfile.capture(float("nan"), "cpu")
    with pytest.raises(compare.Mismatch, match="is None where the reference gives nan"):
        compare.compare(one, tensorfile.Loaded({"k": "float"}, [], []), compare.Figures())


def test_gradients_that_are_rounding_are_held_to_their_own_size_only() -> None:
    assert compare.USUAL.of(torch.float32, 0.5, gradient=True) == 25.0
    assert compare.USUAL.of(torch.float32, 0.5) == pytest.approx(1e-3)
    assert compare.USUAL.of(torch.float32, 1e-7, gradient=True) == 2e-5


def test_parts_of_a_training_step_have_names_of_their_own() -> None:
    assert compare.name_of("output", "['gradient of linear.weight']") == "gradient of linear.weight"
    assert compare.name_of("", "['output'][0]") == "output [0]"
    assert compare.name_of("output", "['a'][0]") == "output ['a'][0]"
    assert compare.name_of("output", "") == "output"


def test_results_are_held_to_a_fixed_tolerance_where_the_reference_keeps_it() -> None:
    reference = torch.linspace(-20, 20, 1001)
    near = reference + 1.5e-4 * (reference.abs() < 0.4)
    assert compare.hold_to_fixed([(reference, reference + 0.9e-4)], [1e-7])
    assert compare.hold_to_fixed([(reference, reference * (1 + 0.9e-4))], [1e-7]), "of large values as much more"
    assert compare.hold_to_fixed([(reference.double(), near.double())], [1e-7]), "KernelBench's is float32's"
    with pytest.raises(compare.Mismatch, match=r"1.9 % of its elements") as caught:
        compare.hold_to_fixed([(reference, reference), (reference, near)], [1e-7, 1e-7])
    assert caught.value.status == "WRONG_RESULT"
    assert str(caught.value).startswith("Output 1 is off by up to 0.00015")
    assert not compare.hold_to_fixed([(reference, near)], [1e-5]), "the reference may be off by as much"
    assert not compare.hold_to_fixed([(reference, near)], None), "nobody knows how far the reference is off"
    jumped = reference.clone()
    jumped[7] = 20.0
    assert not compare.hold_to_fixed([(reference, jumped)], [1e-7]), "where rounding decides, as `nearby` has found"
