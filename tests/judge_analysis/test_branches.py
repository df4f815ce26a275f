"""Convolutions of one input that are added are one convolution, with the same results; others stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites
from stark_lsp.judge.analysis.rewrites import branches

Form = Callable[..., torch.Tensor]
conv = F.conv2d


@pytest.fixture(autouse=True, scope="module")
def any_size() -> object:
    """Small results are worth it here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branches, "LEAST", 1)
        yield


def images(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64)


def norm(x: torch.Tensor, c: torch.Tensor, training: bool = False) -> torch.Tensor:
    return F.batch_norm(x, c * 0.5, c.abs() + 0.5, c + 1.0, c - 1.0, training)


def tried(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    """Return an input, filters of three places, of one, and for each channel, a bias."""
    return tuple(images(*one).to(dtype) for one in ((4, 12, 16, 18), (12, 12, 3, 3), (12, 12, 1, 1), (12,)))


def repvgg(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return F.relu(norm(x, c) + norm(conv(x, w, None, 1, 1), c) + norm(conv(x, u), c * 2.0))


FIT: dict[str, tuple[Form, int]] = {
    "RepVGG": (repvgg, 1),
    "biases": (lambda x, w, u, c: conv(x, w, c, 1, 1) + conv(x, u, c * 2.0), 1),
    "one bias": (lambda x, w, u, c: conv(x, w, None, 1, 1) + conv(x, u, c), 1),
    "a number": (lambda x, w, u, c: conv(x, w, None, 1, 1) + 1.0 + conv(x, u), 1),
    "strided": (lambda x, w, u, c: norm(conv(x, w, c, 2, 1), c) + conv(x, u, c, 2), 1),
    "groups": (lambda x, w, u, c: conv(x, w[:, :3], c, 1, 1, 1, 4) + conv(x, u[:, :3], c, 1, 0, 1, 4) + x, 1),
    "depthwise": (lambda x, w, u, c: x + c[:, None, None] * (norm(conv(x, w[:, :1], c, 1, 1, 1, 12), c) - x), 1),
    "dilated alike": (lambda x, w, u, c: conv(x, w, c, 1, 2, 2) + conv(x, u, c, 1, 0, 2), 1),
    "of one size": (lambda x, w, u, c: norm(conv(x, u, c), c) + conv(x, u * 2.0), 1),
    "even sizes": (lambda x, w, u, c: conv(x, F.pad(w, (0, 1, 0, 1)), c, 1, 2) + conv(x, w[:, :, 1:, 1:], c, 1, 1), 1),
    "long and high": (
        lambda x, w, u, c: conv(x, w[:, :, :1], c, 1, (0, 1)) + conv(x, w[..., :1], c, 1, (1, 0)) + conv(x, w, c, 1, 1),
        1,
    ),
    "the input": (lambda x, w, u, c: x / 2.0 - conv(x, w, c, 1, 1), 1),
    "the input twice": (lambda x, w, u, c: x * 2.0 + (conv(x, w, c, 1, 1) - x * c[:, None, None]), 1),
    "scaled": (lambda x, w, u, c: (conv(x, w, c, 1, 1) - 2.0 * conv(x, u)) / 3.0 * c[:1] - c[:, None, None], 1),
    "and something else": (lambda x, w, u, c: conv(x, w, c, 1, 1) + x.exp() * c[:, None, None] + conv(x, u), 1),
    "two inputs": (
        lambda x, w, u, c: conv(x, w, c, 1, 1) + conv(x, u) + conv(y := x.exp(), w, c, 1, 1) - conv(y, u),
        2,
    ),
    "two of one, one of another": (lambda x, w, u, c: conv(x, w, c, 1, 1) + conv(x.exp(), u, c) * 2.0 + conv(x, u), 2),
    "one used elsewhere": (lambda x, w, u, c: (y := conv(x, w, c, 1, 1)) * (y + conv(x, u) + conv(x, u * 2.0, c)), 2),
    "the sum used elsewhere": (lambda x, w, u, c: (y := conv(x, w, c, 1, 1) + conv(x, u)) * (y + x).relu(), 1),
    "one dimension": (lambda x, w, u, c: F.conv1d(y := x[..., 0], w[..., 0], c, 1, 1) + F.conv1d(y, u[..., 0]) + y, 1),
    "three": (
        lambda x, w, u, c: F.conv3d(y := x[:, :, None], w[:, :, None], c, 1, (0, 1, 1)) + F.conv3d(y, u[..., None]) + y,
        1,
    ),
}
"""With how many convolutions are left."""
LAST = ("RepVGG", "strided", "depthwise", "of one size")
DO_NOT: dict[str, Form] = {
    "another input": lambda x, w, u, c: conv(x, w, c, 1, 1) + conv(x.exp(), u),
    "another stride": lambda x, w, u, c: (
        conv(y := x[..., :8], u.expand(-1, -1, 1, 8)) + conv(y, u[..., [0] * 8], c, (1, 2))
    ),
    "another middle": lambda x, w, u, c: conv(x, w, c, 3, 1) + conv(x, w, c, 3, (1, 0)),
    "even and odd": lambda x, w, u, c: conv(x, w, c, 2, 1) + conv(x, w[:, :, 1:, 1:], c, 2),
    "another dilation": lambda x, w, u, c: conv(x, w, c, 1, 2, 2) + conv(x, w, c, 1, 1),
    "other groups": lambda x, w, u, c: conv(x, w[:, :3], c, 1, 1, 1, 4) + conv(x, u, c),
    "more taps than before": lambda x, w, u, c: conv(x, w[:, :, :1], c, 1, (0, 1)) + conv(x, w[..., :1], c, 1, (1, 0)),
    "few places": lambda x, w, u, c: conv(y := x[:1, :, :3, :3], w, c, 1, 1) + conv(y, u),
    "not linear": lambda x, w, u, c: F.relu(conv(x, w, c, 1, 1)) + conv(x, u),
    "scaled by places": lambda x, w, u, c: conv(x, w, c, 1, 1) * x[:, :1] + conv(x, u),
    "transposed": lambda x, w, u, c: F.conv_transpose2d(x, w, c, padding=1) + F.conv_transpose2d(x, u),
    "the same one twice": lambda x, w, u, c: (y := conv(x, w, c, 1, 1)) + y,
    "used elsewhere": lambda x, w, u, c: (y := conv(x, w, c, 1, 1)) * (y + conv(x, u)),
    "the input, cut": lambda x, w, u, c: conv(x, w, c) + x[:, :, 1:-1, 1:-1],
    "the input, by even sizes": lambda x, w, u, c: conv(x, w[:, :, 1:, 1:], c, 1, 1, 2) + x,
    "statistics of the batch": lambda x, w, u, c: norm(conv(x, w, c, 1, 1), c, True) + norm(conv(x, u), c, True),
}


def rewritten(form: Form, *tried: torch.Tensor) -> tuple[int, torch.fx.GraphModule]:
    """Return how many times a rule was used, and the graph that it leaves."""
    from torch._inductor.decomposition import select_decomp_table  # takes seconds, and every process imports this file

    made = make_fx(form, select_decomp_table(), "fake")(*tried)
    used = rewrites.apply(made.graph, ["sums"])
    made.graph.eliminate_dead_code()
    made.recompile()
    return used, made


def convolutions(made: torch.fx.GraphModule) -> int:
    return len(made.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default))


def same(made: torch.fx.GraphModule, form: Form, *tried: torch.Tensor) -> None:
    out, expected = made(*tried), form(*tried)
    torch.testing.assert_close(out, expected)
    assert out.stride() == expected.stride()


@pytest.mark.parametrize(("name", "last"), [*((name, False) for name in FIT), *((name, True) for name in LAST)])
def test_added_convolutions_of_one_input_are_one(name: str, last: bool) -> None:
    form, count = FIT[name]
    x, *more = tried()
    if last:
        x = x.to(memory_format=torch.channels_last)
    used, made = rewritten(form, x, *more)
    assert (used, convolutions(made)) == (1, count)
    same(made, form, x, *more)


@pytest.mark.parametrize("name", DO_NOT)
def test_what_is_no_sum_of_convolutions_of_one_input_stays(name: str) -> None:
    used, made = rewritten(DO_NOT[name], *tried())
    assert used == 0
    same(made, DO_NOT[name], *tried())


@settings(max_examples=12)
@given(
    rank=st.integers(1, 3),
    halves=st.lists(st.integers(0, 1), min_size=2, max_size=4),
    even=st.booleans(),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    groups=st.sampled_from((1, 2, 4)),
    more=st.integers(0, 2),
    passed=st.booleans(),
)
def test_any_convolutions_of_one_input_give_the_same(
    rank: int, halves: list[int], even: bool, stride: int, dilation: int, groups: int, more: int, passed: bool
) -> None:
    run, sizes = (F.conv1d, F.conv2d, F.conv3d)[rank - 1], [2 * half + 1 + even for half in halves]
    around = [dilation * (size - 1) // 2 + more for size in sizes]
    x, filters = images(4, 4, *range(9, 9 + rank)), [images(4, 4 // groups, *[size] * rank) for size in sizes]

    def form(x: torch.Tensor, *filters: torch.Tensor) -> torch.Tensor:
        total = sum(run(x, w, None, stride, p, dilation, groups) for w, p in zip(filters, around, strict=True))
        return total + x if passed and total.shape == x.shape else total  # type: ignore[union-attr, return-value]

    used, made = rewritten(form, x, *filters)
    assert used == 1
    same(made, form, x, *filters)


def wide(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Return what is added in float32, of which bfloat16 would keep little."""
    return conv(x, w * 0.1, None, 1, 1).float() + 300.1 + conv(x, u * 0.1) * (c.float()[:, None, None] + 2.0)


@pytest.mark.parametrize("form", [repvgg, wide])
def test_in_bfloat16_filters_are_added_in_float32_and_rounded_once(form: Form) -> None:
    given = tried(torch.bfloat16)
    exact = form(*(one.float() for one in given))
    used, made = rewritten(form, *given)
    assert (used, convolutions(made)) == (1, 1)
    (node,) = made.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    filters = node.args[1]
    assert filters.target is torch.ops.prims.convert_element_type.default
    assert filters.args[0].meta["val"].dtype is torch.float32
    out, plain = made(*given), form(*given)
    assert out.dtype is plain.dtype
    assert (out - exact).abs().max() <= 1.2 * (plain - exact).abs().max()


def test_in_float16_filters_stay_as_they_are() -> None:
    # Scaled by what follows, a filter may be zero or infinite there.
    assert rewritten(repvgg, *tried(torch.float16))[0] == 0


@pytest.mark.parametrize(
    ("groups", "dtype", "beside"), [(1, torch.float32, 1), (12, torch.float32, 0), (1, torch.float64, 0)]
)
def test_where_an_input_would_lose_bits_it_is_added_beside(groups: int, dtype: torch.dtype, beside: int) -> None:
    # By cuDNN a convolution of float32 may be one of TF32.
    with FakeTensorMode():
        x = torch.empty(4, 12, 16, 18, dtype=dtype, device="cuda:0")
        w, u = (x.new_empty(12, 12 // groups, size, size) for size in (3, 1))
        made = make_fx(lambda x, w, u: conv(x, w, None, 1, 1, 1, groups) + conv(x, u, None, 1, 0, 1, groups) + x)(
            x, w, u
        )
        assert rewrites.apply(made.graph, ["sums"]) == 1
        alone = make_fx(lambda x, w: conv(x, w, None, 1, 1, 1, groups) + x)(x, w)
        assert rewrites.apply(alone.graph, ["sums"]) == 1 - beside
    last = made.graph.output_node().args[0]
    assert (last.target is torch.ops.aten.add.Tensor) == beside
