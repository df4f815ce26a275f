"""How special inputs are made: the values stay, what lies between them is poison, batches are odd."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402 - needs torch
from hypothesis import strategies as st  # noqa: E402 - needs torch

from stark_lsp.worker import special  # noqa: E402 - needs torch
from stark_lsp.worker.cases import CaseKind  # noqa: E402 - needs torch

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)
DTYPES = st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool, torch.uint8])


@settings(max_examples=60, deadline=None)
@given(SHAPES, DTYPES)
def test_strided_variants_hold_the_same_values_with_poison_between(shape: list[int], dtype) -> None:  # type: ignore[no-untyped-def]
    tensor = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    for change in (special.spread, special.transposed):
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
    assert [variant.kind for variant in variants] == [CaseKind.BATCH] * 2
    words, make = variants[0].alternatives[0]
    args, kwargs = make()
    assert words == "with a batch of 3 instead of 8"
    assert args[0].shape == (3, 3)
    assert kwargs["y"].shape == (3,)
    assert kwargs["z"].shape == (3,)
    (variant,) = special.batches(((torch.randn(1, 2),), {}))
    assert torch.equal(variant.alternatives[0][1]()[0][0][2], variant.alternatives[0][1]()[0][0][0])


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
