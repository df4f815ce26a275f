"""Half of a length as special input: what goes with it, and where it would make no sense."""

from __future__ import annotations

import pytest
import torch

from stark_lsp.judge.inputs import lengths


def test_what_is_shorter_is_so_wherever_that_size_is_found() -> None:
    x, mask, ids, wide = torch.randn(4, 16, 12), torch.ones(4, 1, 16, 16), torch.arange(16), torch.randn(4, 3)
    first, last = lengths.lengths(((x, mask), {"ids": ids, "wide": wide}))
    words, make = first.alternatives[0]
    args, kwargs = make()
    assert words == "with 8 instead of 16 along dimension 1 of its inputs"
    assert [tuple(one.shape) for one in args] == [(4, 8, 12), (4, 1, 8, 8)]
    assert kwargs["ids"].tolist() == [*range(8)]
    assert kwargs["wide"] is wide
    with pytest.raises(RuntimeError, match="places"):
        first.alternatives[1][1]()
    _, (_, alone) = lengths.shorter(((x, mask), {}), x, 1)
    assert alone()[0][1] is mask
    assert last.alternatives[0][0] == "with 6 instead of 12 along dimension 2 of its inputs"
    assert first.screened
    assert not [*lengths.lengths(((wide, ids), {}))]
    assert [one.alternatives[0][0][:9] for one in lengths.lengths(((x, 16), {}))] == ["with 6 in"], "a number says it"


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([16, 2, 3, 9]),
        torch.randperm(16),
        torch.tensor([0, 5, 12, 16], dtype=torch.int16),
        torch.arange(16) >= torch.tensor([[0], [9], [3], [0]]),
        torch.where(torch.arange(16) >= 9, 0.0, -torch.inf).expand(4, 16).contiguous(),
    ],
    ids=["lengths", "places in another order", "where parts begin", "padding in front", "the same added"],
)
def test_what_shorter_inputs_would_make_no_sense_with_keeps_them_as_they_are(other: torch.Tensor) -> None:
    (variant, _) = lengths.lengths(((torch.randn(4, 16, 12), other), {}))
    with pytest.raises(RuntimeError):
        variant.alternatives[0][1]()


@pytest.mark.parametrize(
    ("before", "now", "took"),
    [
        ([(4, 16, 12)], [(4, 8, 12)], True),
        ([(4, 16, 16), (4,)], [(4, 8, 16), (4,)], True),
        ([(4, 12)], [(4, 12)], False),
        ([(4, 16)], [(2, 16)], False),
        ([(64, 12)], [(32, 12)], False),
        ([(4, 16, 5)], [(4, 8, 2)], False),
    ],
)
def test_a_length_is_followed_by_itself_alone(
    before: list[tuple[int, ...]], now: list[tuple[int, ...]], took: bool
) -> None:
    shapes = ([torch.Size(one) for one in shapes] for shapes in (before, now))
    assert lengths.took_length(*shapes, size=16, new=8) is took
