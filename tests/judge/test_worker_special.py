"""How special inputs are made: the values stay, what lies between them is poison, batches are odd."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.judge.inputs import (
    constants,
    special,
)
from stark_lsp.judge.inputs.cases import CaseKind

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)
DTYPES = st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8])


@settings(max_examples=60, deadline=None)
@given(SHAPES, DTYPES)
def test_strided_variants_hold_the_same_values_with_poison_between(shape: list[int], dtype) -> None:  # type: ignore[no-untyped-def]
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    for change in (special.spread, special.parted, special.transposed):
        view = change(tensor)
        assert view.dtype == dtype
        assert torch.equal(view, tensor)
        if dtype.is_floating_point and view is not tensor:
            everything = view.as_strided((view.untyped_storage().nbytes() // view.element_size(),), (1,), 0)
            assert int(everything.isnan().sum()) == everything.numel() - tensor.numel()


def test_strided_variants_are_not_contiguous() -> None:
    tensor = torch.randn(4, 6)
    assert not special.spread(tensor).is_contiguous()
    assert not special.transposed(tensor).is_contiguous()
    assert special.parted(tensor).stride() == (12, 1)
    assert special.parted(torch.randn(2, 4, 6)).stride() == (60, 12, 1), "batches do not follow each other either"


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 100_000))
def test_other_batches_are_odd_small_and_other(size: int) -> None:
    found = special.other_batches(size)
    assert found
    assert size not in found
    assert all(new % 2 == 1 and 1 <= new <= max(5, special.LARGEST_BATCH) for new in found)
    assert len(set(found)) == len(found)


def test_the_batch_is_sliced_or_repeated_in_all_tensors_that_share_it() -> None:
    x, y, z = torch.randn(8, 3), torch.arange(8), torch.randn(3)
    variants = list(special.batches(((x,), {"y": y, "z": z})))
    assert [variant.kind for variant in variants] == [CaseKind.BATCH] * 3
    words, make = variants[0].alternatives[0]
    args, kwargs = make()
    assert words == "with a batch of 3 instead of 8"
    assert args[0].shape == (3, 3)
    assert kwargs["y"].shape == (3,)
    assert kwargs["z"].shape == (3,)
    (variant,) = special.batches(((torch.randn(1, 2),), {}))
    assert torch.equal(variant.alternatives[0][1]()[0][0][2], variant.alternatives[0][1]()[0][0][0])


def test_integers_that_may_name_a_row_name_one_that_a_smaller_batch_has() -> None:
    x, edges, kinds = torch.randn(100, 3), torch.tensor([[0, 99, 5], [7, 36, 98]]), torch.tensor([3, 250])
    made = [make()[0] for one in special.batches(((x, edges, kinds), {})) for _, make in one.alternatives]
    assert [len(rows) for rows, _, _ in made] == [23, 1, 101]
    for rows, ends, others in made:
        assert int(ends.max()) < len(rows)
        assert torch.equal(others, kinds)
    small = special.smaller(((x, edges), {}))
    assert small is not None
    rows, ends = small.alternatives[0][1]()[0]
    assert int(ends.max()) < len(rows) < 100


@pytest.mark.parametrize("whole", [True, False])
def test_offsets_of_bags_still_rise_and_end_within_a_smaller_batch(whole: bool) -> None:
    x, offsets = torch.randn(100, 3), torch.tensor([0, 5, 5, 40, 99, *([100] if whole else [])])
    made = [make()[0] for one in special.batches(((x, offsets), {})) for _, make in one.alternatives]
    assert [len(rows) for rows, _ in made] == [23, 1, 101]
    for rows, ends in made:
        assert bool((ends[1:] >= ends[:-1]).all())
        assert int(ends[0]) == 0
        assert int(ends[-1]) == min(len(rows), 100) if whole else int(ends[-1]) < len(rows)


def test_outputs_must_follow_the_batch() -> None:
    size = torch.Size
    assert special.took_batch([size([8, 2])], [size([3, 2])], 8, 3)
    assert special.took_batch([size([])], [size([])], 8, 3)
    assert special.took_batch([size([8, 2]), size([2])], [size([3, 2]), size([2])], 8, 3)
    assert not special.took_batch([size([8, 2])], [size([8, 2])], 8, 3)
    assert not special.took_batch([size([8, 2])], [size([2])], 8, 1)
    assert not special.took_batch([size([5])], [size([5])], 8, 3)


def test_edge_values_stand_at_a_few_places_and_leave_the_rest() -> None:
    tensor = torch.randn(16, 64)
    variant = special.edges(((tensor,), {}), products=False)
    ((found,), _) = variant.alternatives[0][1]()
    assert int(found.isnan().sum()) == 1
    assert int(found.isposinf().sum()) == int(found.isneginf().sum()) == 1
    assert int(((found != 0) & (found.abs() < torch.finfo(torch.float32).tiny)).sum()) == 1
    assert int((found != tensor).sum()) == 5
    assert not tensor.isnan().any()
    rows = (found != tensor).any(1).sum()
    assert rows == 5


def test_with_products_all_floating_inputs_are_nan_and_indices_stay() -> None:
    index = torch.arange(4)
    variant = special.edges(((torch.randn(4), index), {}), products=True)
    (found, same), _ = variant.alternatives[0][1]()
    assert found.isnan().all()
    assert same is index


@pytest.mark.parametrize(
    ("operators", "products"),
    [
        ({"aten.mm.default", "aten.relu.default"}, True),
        ({"aten.convolution.default"}, True),
        ({"aten._scaled_dot_product_flash_attention_for_cpu.default"}, True),
        ({"aten.linalg_vector_norm.default", "aten.div.Tensor"}, False),
        ({"aten._softmax.default", "aten.addcmul.default", "aten.max_pool2d_with_indices.default"}, False),
    ],
)
def test_products_are_known_by_their_operators(operators: set[str], products: bool) -> None:
    assert special.has_products(operators) is products


def test_infinities_of_a_mask_survive_scaling() -> None:
    mask = torch.tensor([0.0, float("-inf"), 2.0])
    ((found,), _) = special.scaling(((mask,), {}), 0.0)()
    assert torch.equal(found, torch.tensor([0.0, float("-inf"), 0.0]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.integers(0, 2**20))
def test_a_pattern_leaves_no_row_all_zero_or_all_one(shape: list[int], seed: int) -> None:
    found = constants.pattern(torch.ones(shape), torch.Generator().manual_seed(seed))
    assert found.shape == torch.Size(shape)
    assert set(found.unique().tolist()) <= {0.0, 1.0}
    rows = found.reshape(-1, shape[-1]) if len(shape) > 1 and shape[-1] > 1 else found.reshape(1, -1)
    if rows.shape[1] > 1:
        assert bool((rows.amin(1) == 0).all())
        assert bool((rows.amax(1) == 1).all())


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (torch.ones(4, 8), "another pattern of zeros and ones"),
        (torch.zeros(4, 8, dtype=torch.bool), "another pattern of zeros and ones"),
        (torch.tensor(True), "the opposite"),
        (torch.tensor(1.0), "times 0.75"),
        (torch.arange(9), "in another order"),
        (torch.full((6,), 5), "some of it half as large"),
        (torch.linspace(1, 2, 7), "times 0.75 and in another order"),
        (torch.full((8, 8), float("-inf")).triu(1), "times 0.75 and in another order"),
        (torch.full((8,), 0.5, dtype=torch.float8_e4m3fn), "times 0.75 and in another order"),
        (torch.arange(9).to(torch.uint16), "in another order"),
        (torch.full((6,), 4, dtype=torch.uint32), "some of it half as large"),
        (2.0, "times 0.75"),
    ],
)
def test_an_input_that_never_changes_gets_another_value_of_its_kind(leaf: object, words: str) -> None:
    found = constants.changed(leaf, torch.Generator().manual_seed(1))
    assert found is not None
    assert found[0] == words
    if isinstance(leaf, torch.Tensor):
        assert found[1].dtype == leaf.dtype
        assert found[1].shape == leaf.shape
        assert not torch.equal(found[1].float(), leaf.float())
        assert bool((found[1].float().isinf().sum(-1) == leaf.float().isinf().sum(-1)).all()) or leaf.dim() == 2
        if leaf.dtype == torch.int64:
            assert int(found[1].min()) >= min(1, int(leaf.min()))
            assert int(found[1].max()) <= int(leaf.max())


@pytest.mark.parametrize(
    "leaf",
    [
        0.0,
        float("inf"),
        torch.tensor(3),
        torch.tensor(0.0),
        torch.tensor([0, 3, 3, 9]),
        torch.randn(0),
        torch.ones(3) * 1j,
    ],
)
def test_what_has_no_other_value_that_makes_sense_stays(leaf: object) -> None:
    assert constants.changed(leaf, torch.Generator().manual_seed(1)) is None


def test_inputs_that_never_change_are_known_by_another_seed() -> None:
    mask, index = torch.ones(3), torch.arange(4)
    one = ((torch.randn(3), {"m": mask, "n": 3}), {"f": 0.5, "i": index})
    other = ((torch.randn(3), {"m": mask.clone(), "n": 3}), {"f": 0.5, "i": index.clone()})
    assert constants.fixed(one, other) == [1, 2, 3]
    words = [words for words, _ in constants.variants(one, [1, 2, 3])]
    assert [text.partition(" changed")[0] for text in words] == [
        "with only input number 2", "with only the input f", "with only the input i",
    ]  # fmt: skip
    (args, kwargs) = constants.variants(one, [1, 2, 3])[1][1]()
    assert args[0] is one[0][0]
    assert args[1]["m"] is mask
    assert (kwargs["f"], kwargs["i"] is index) == (0.375, True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_last_bits_leave_values_almost_as_they_are(dtype: torch.dtype) -> None:
    tensor = torch.randn(64, 64, dtype=dtype)
    tensor[0, :3] = torch.tensor([float("nan"), float("inf"), 0.0])
    (variant,) = special.same_bits(((tensor, torch.arange(3)), {}))
    (found, _), _ = variant.alternatives[0][1]()
    assert torch.allclose(found, tensor, rtol=2**-7, atol=0.0, equal_nan=True)
    error = (found.bfloat16().to(dtype) - found)[1:] * found[1:].sign()
    assert bool((error < 0).all())


def test_only_inputs_of_one_sign_get_the_other_one() -> None:
    positive, mixed, mask, scalar = torch.rand(8, 8), torch.randn(8, 8), torch.ones(8), torch.tensor(2.0)
    (variant,) = special.signs(((positive, mixed, mask, scalar), {}))
    (found, *rest), _ = variant.alternatives[0][1]()
    assert bool((found < 0).any())
    assert bool((found > 0).any())
    assert rest[0] is mixed
    assert rest[1] is mask
    assert rest[2] is scalar
    assert not list(special.signs(((mixed, mask, scalar), {})))


def test_a_smaller_batch_is_odd_and_takes_few_bytes() -> None:
    variant = special.smaller(((torch.empty(4096, 4096),), {}))
    assert variant is not None
    (found,), _ = variant.alternatives[0][1]()
    assert found.shape == (255, 4096)
    assert found.untyped_storage().nbytes() == 255 * 4096 * 4
    assert special.smaller(((torch.empty(1, 4096),), {})) is None
