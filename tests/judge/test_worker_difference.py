"""Properties of comparing: symmetry, borders of pieces, patterns of NaN, layouts."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.judge.correctness import difference as module
from stark_lsp.judge.correctness import layout
from stark_lsp.judge.correctness.difference import difference, relative_errors

FINITE = st.floats(-1e6, 1e6, width=32)
SPECIAL = st.one_of(FINITE, st.sampled_from([math.nan, math.inf, -math.inf, -0.0]))
PAIRS = st.lists(st.tuples(SPECIAL, SPECIAL), min_size=1, max_size=40)
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16])


@pytest.fixture(autouse=True, scope="module")
def small_pieces():  # type: ignore[no-untyped-def]
    before = dict(module.CHUNK)
    module.CHUNK["cpu"] = 7
    yield
    module.CHUNK.update(before)


def equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@settings(max_examples=150, deadline=None)
@given(PAIRS, DTYPES)
def test_patterns_of_nan_and_infinity_are_compared_element_by_element(pairs, dtype) -> None:  # type: ignore[no-untyped-def]
    a, b = (torch.tensor([pair[side] for pair in pairs], dtype=dtype) for side in (0, 1))
    found = difference(a, b)
    rows = list(zip(a.double().tolist(), b.double().tolist(), strict=True))
    lost = [i for i, (x, y) in enumerate(rows) if math.isfinite(x) and not math.isfinite(y)]
    other = [i for i, (x, y) in enumerate(rows) if not math.isfinite(x) and not equal(x, y)]
    assert found.same_pattern == (not lost and not other)
    if not found.same_pattern:
        assert found.at in (lost if found.only_reference_finite else other)
    assert difference(b, a).same_pattern == found.same_pattern


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=40), DTYPES)
def test_the_worst_difference_is_found_and_does_not_depend_on_the_side(pairs, dtype) -> None:  # type: ignore[no-untyped-def]
    a, b = (torch.tensor([pair[side] for pair in pairs]).clamp(-6e4, 6e4).to(dtype) for side in (0, 1))
    found, swapped = difference(a, b), difference(b, a)
    gaps = (a.double() - b.double()).abs()
    assert found.max_abs == pytest.approx(float(gaps.max()), rel=1e-6)
    assert float(gaps[found.at]) == pytest.approx(float(gaps.max()), rel=1e-6)
    assert swapped.max_abs == found.max_abs
    assert found.scale == (float(a.double().abs().max()) or 1.0)
    assert found.max_rel == found.max_abs / found.scale


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), st.data())
def test_one_changed_element_is_found_wherever_a_piece_ends(size: int, data) -> None:  # type: ignore[no-untyped-def]
    place = data.draw(st.integers(0, size - 1))
    a = torch.linspace(-1.0, 1.0, size)
    b = a.clone()
    b[place] += 0.5
    found = difference(a, b)
    assert found.at == place
    assert found.beyond(1e-3) == 1
    assert found.beyond(0.0) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.data())
def test_whole_numbers_differ_by_one_at_any_size(values: list[int], data) -> None:  # type: ignore[no-untyped-def]
    place = data.draw(st.integers(0, len(values) - 1))
    a = torch.tensor(values, dtype=torch.int64)
    b = a.clone()
    b[place] ^= 1
    assert difference(a, a.clone()).max_abs == 0.0
    assert difference(a, b).max_abs >= 1.0
    assert difference(a, b).beyond(0.0) == 1


@settings(max_examples=40, deadline=None)
@given(st.lists(FINITE, min_size=6, max_size=6))
def test_layout_and_complex_parts_do_not_hide_a_difference(values: list[float]) -> None:
    a = torch.tensor(values).reshape(2, 3)
    assert difference(a, a.t().contiguous().t()).max_abs == 0.0
    z = torch.complex(a, a.flip(0))
    assert difference(z, z.clone()).max_abs == 0.0
    assert difference(z, z + 1j).max_abs == pytest.approx(1.0, rel=1e-3)


def test_errors_are_infinite_where_patterns_or_whole_numbers_differ() -> None:
    nan = torch.tensor([1.0, math.nan])
    assert relative_errors([nan], [nan]) == [0.0]
    assert relative_errors([nan], [torch.tensor([math.nan, 1.0])]) == [math.inf]
    assert relative_errors([torch.tensor([1])], [torch.tensor([2])]) == [math.inf]
    assert relative_errors([torch.ones(2)], [torch.ones(3)]) is None
    assert relative_errors([torch.ones(2)], []) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_overlap_is_never_missed(shape: list[int], data) -> None:  # type: ignore[no-untyped-def]
    stride = [data.draw(st.integers(0, 6)) for _ in shape]
    tensor = torch.arange(200).as_strided(shape, stride)
    if tensor.unique().numel() < tensor.numel():
        assert layout.overlaps_itself(tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, 3, 4),
        torch.zeros(2, 3, 4).transpose(0, 2),
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.zeros(10)[::3],
        torch.zeros(1, 5).expand(1, 5),
        torch.zeros(0, 5),
        torch.zeros(()),
    ],
)
def test_what_does_not_overlap_is_left_alone(tensor: torch.Tensor) -> None:
    assert not layout.overlaps_itself(tensor)


def test_reports_that_are_no_reports_are_refused() -> None:
    for forged in (None, {}, {"outputs": 3}, {"outputs": [["a", "b"]], layout.INPUT: [[0, 1]]}):
        with pytest.raises((TypeError, KeyError, ValueError)):
            layout.shared(forged)
