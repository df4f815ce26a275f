"""Algebra on graphs: the same results by fewer operations, and nothing where no rule fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._decomp import get_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites
from stark_lsp.judge.analysis.rewrites import split

Form = Callable[..., torch.Tensor]
AS_INDUCTOR = get_decompositions([torch.ops.aten._unsafe_view])
"""From torch 2.15 on a linear layer of sequences ends with one, which Inductor never sees."""
ROWS, INNER, COLUMNS = 64, 96, 512
FIT: dict[str, Form] = {
    "sum": lambda x, w, b, p, q: F.linear(x, w, b).sum(1),
    "mean, kept": lambda x, w, b, p, q: F.linear(x, w).mean(-1, keepdim=True),
    "no bias": lambda x, w, b, p, q: (x @ w.t()).sum(dim=1),
    "columns": lambda x, w, b, p, q: ((F.linear(x, w, b) - p) * q).sum(1, keepdim=True),
    "scales": lambda x, w, b, p, q: (2.0 * (F.linear(x, w, b) / 3.0 + 1.0) * q * q).mean(1),
    "from the left": lambda x, w, b, p, q: (p - F.linear(x, w) * q).sum(1),
    "a number in front": lambda x, w, b, p, q: (1.5 - F.linear(x, w, b)).sum(1),
    "two products": lambda x, w, b, p, q: (F.linear(x, w, b) + x @ w.t() * q).sum(1),
    "rows": lambda x, w, b, p, q: (F.linear(x, w, b) + x[:, :1]).sum(1),
    "a scale of one element": lambda x, w, b, p, q: (F.linear(x, w, b) * p[0]).sum(1),
    "by rows": lambda x, w, b, p, q: (F.linear(x, w, b) * x[:, :1] / x[:, 1:2]).sum(1),
    "sequences": lambda x, w, b, p, q: (F.linear(x.view(4, 16, INNER), w, b) * q).sum(-1),
    "average pool": lambda x, w, b, p, q: F.avg_pool1d(F.linear(x, w, b).unsqueeze(1), 16).squeeze(1),
    "pooled columns": lambda x, w, b, p, q: F.avg_pool1d((F.linear(x, w, b) * q + p)[:, None], 4)[:, 0],
    "groups of columns": lambda x, w, b, p, q: (F.linear(x, w, b) - q).view(ROWS, 32, 16).sum(-1),
    "pooled rows": lambda x, w, b, p, q: F.avg_pool1d((F.linear(x, w) * x[:, :1])[:, None], 8)[:, 0],
}
DO_NOT: dict[str, Form] = {
    "not linear": lambda x, w, b, p, q: torch.relu(F.linear(x, w, b)).sum(1),
    "used again": lambda x, w, b, p, q: (y := F.linear(x, w, b)).sum(1) + y[:, 0],
    "over rows": lambda x, w, b, p, q: F.linear(x, w, b).sum(0),
    "pools that overlap": lambda x, w, b, p, q: F.avg_pool1d(F.linear(x, w, b)[:, None], 4, 2)[:, 0],
    "pools with padding": lambda x, w, b, p, q: F.avg_pool1d(F.linear(x, w, b)[:, None], 4, 4, 2)[:, 0],
    "pools that leave some": lambda x, w, b, p, q: F.avg_pool1d(F.linear(x, w, b)[:, None], 3)[:, 0],
    "other columns": lambda x, w, b, p, q: F.linear(x, w, b).view(-1, 2 * COLUMNS).sum(1),
    "no product": lambda x, w, b, p, q: (p * q + x.sum()).sum(),
    "small": lambda x, w, b, p, q: F.linear(x[:2], w, b).sum(1),
    "everything": lambda x, w, b, p, q: F.linear(x, w, b).sum(),
}


def tensors() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = ((ROWS, INNER), (COLUMNS, INNER), (COLUMNS,), (COLUMNS,), (COLUMNS,))
    return tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


def results(made: torch.fx.GraphModule) -> list[list[int]]:
    """Return the shapes of what products give."""
    found = [node for node in made.graph.nodes if "mm" in str(node.target)]
    return [list(node.meta["val"].shape) for node in found]


def rewritten(form: Form, tried: tuple[torch.Tensor, ...], times: int = 1) -> torch.fx.GraphModule:
    """Return a graph after algebra: a rule was used so often, and the result is the same, in the same layout."""
    made = make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(*tried)
    assert rewrites.apply(made.graph, ["sums"]) == times
    made.graph.eliminate_dead_code()
    made.recompile()
    out, expected = made(*tried), form(*tried)
    torch.testing.assert_close(out, expected)
    assert out.stride() == expected.stride()
    return made


def products(form: Form, tried: tuple[torch.Tensor, ...]) -> int:
    """Return how many products and convolutions there are before algebra."""
    nodes = make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(*tried).graph.nodes
    return sum(1 for node in nodes if "mm" in str(node.target) or "convolution" in str(node.target))


@pytest.mark.parametrize("name", FIT)
def test_a_sum_of_a_product_is_a_smaller_product(name: str) -> None:
    assert [ROWS, COLUMNS] not in results(rewritten(FIT[name], tensors()))


@pytest.mark.parametrize("name", DO_NOT)
def test_what_fits_no_rule_stays(name: str) -> None:
    made = rewritten(DO_NOT[name], tensors(), 0)
    assert len(results(made)) == products(DO_NOT[name], tensors())


IMAGES: dict[str, Form] = {
    "mean": lambda x, w, b, c: F.conv2d(x, w, b, padding=1).mean((2, 3)),
    "pooled to one": lambda x, w, b, c: F.adaptive_avg_pool2d(F.conv2d(x, w), 1),
    "sum, kept": lambda x, w, b, c: F.conv2d(x, w, b, padding=1).sum((-1, -2), keepdim=True),
    "scales": lambda x, w, b, c: ((F.conv2d(x, w, b, padding=1) * 2.0 - c) / 3.0 * c).mean((2, 3)),
    "a bias of one": lambda x, w, b, c: (F.conv2d(x, w, b) + c[0]).mean((2, 3)),
    "strided": lambda x, w, b, c: F.conv2d(x, w, b, stride=2, padding=1).mean((2, 3)),
    "strided by one number": lambda x, w, b, c: F.conv2d(x, w, b, [2], [1]).mean((2, 3)),
    "strided far": lambda x, w, b, c: F.conv2d(x, w, b, stride=(3, 2), padding=(2, 0)).mean((2, 3)),
    "dilated": lambda x, w, b, c: F.conv2d(x, w, b, dilation=2, padding=(3, 1)).mean((2, 3)),
    "wide padding": lambda x, w, b, c: F.conv2d(x, w, b, padding=2).mean((2, 3)),
    "all": lambda x, w, b, c: F.conv2d(x, w, b, padding=1).mean((1, 2, 3)),
    "all, by channel": lambda x, w, b, c: (F.conv2d(x, w, b, padding=1) * c).sum((1, 2, 3), keepdim=True),
    "transposed": lambda x, w, b, c: F.conv_transpose2d(x, w.transpose(0, 1), b).mean((2, 3)),
    "transposed, cut": lambda x, w, b, c: F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2, padding=1).mean((2, 3)),
    "transposed, more": lambda x, w, b, c: F.conv_transpose2d(
        x, w.transpose(0, 1), b, stride=3, padding=2, output_padding=(1, 2), dilation=2
    ).sum((2, 3)),
    "channels": lambda x, w, b, c: F.conv2d(x, w, b, padding=1).mean(1),
    "channels, kept": lambda x, w, b, c: (F.conv2d(x, w, b, stride=2) * c - c * 2.0).sum(1, keepdim=True),
    "channels, transposed": lambda x, w, b, c: (F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2) / 2.0).sum(1),
    "channels by places": lambda x, w, b, c: (F.conv2d(x, w, b, padding=1) * x[:, :1] + x[:, 1:2]).sum(1),
    "one dimension": lambda x, w, b, c: F.conv1d(x.flatten(2), w.flatten(2), b, padding=4).mean(2),
    "three": lambda x, w, b, c: F.conv3d(x[:, :, None], w[:, :, None], b, padding=(0, 1, 1)).mean((2, 3, 4)),
    "channels of three": lambda x, w, b, c: (F.conv3d(x[:, :, None], w[:, :, None], b) + c[:, None]).mean(1),
}
LEFT: dict[str, Form] = {
    "not linear": lambda x, w, b, c: F.relu(F.conv2d(x, w, b)).mean((2, 3)),
    "used again": lambda x, w, b, c: (y := F.conv2d(x, w, b)).mean((2, 3)) + y[:, :, 0, 0],
    "groups": lambda x, w, b, c: F.conv2d(x, w[:, :6], b, groups=2).mean((2, 3)),
    "rows": lambda x, w, b, c: F.conv2d(x, w, b).mean(2),
    "samples": lambda x, w, b, c: F.conv2d(x, w, b).mean((0, 2, 3)),
    "by places": lambda x, w, b, c: (F.conv2d(x, w, b, padding=1) * x[:, :1]).mean((2, 3)),
    "channels over places": lambda x, w, b, c: (F.conv2d(x, w, b, padding=1) * (x[:, :1] + c)).sum(1),
}


def images() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = ((12, 12, 19, 22), (16, 12, 3, 3), (16,), (16, 1, 1))
    return tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


def convolved(made: torch.fx.GraphModule) -> list[int]:
    """Return the channels of what convolutions give."""
    return [node.meta["val"].shape[1] for node in made.graph.nodes if "convolution" in str(node.target)]


@pytest.mark.parametrize("name", IMAGES)
def test_a_sum_of_a_convolution_is_a_sum_of_its_input_or_of_its_filters(name: str) -> None:
    made = rewritten(IMAGES[name], images())
    assert convolved(made) == ([1] if name.startswith("channels") else [])


@pytest.mark.parametrize("name", LEFT)
def test_convolutions_that_fit_no_rule_stay(name: str) -> None:
    made = rewritten(LEFT[name], images(), 0)
    assert len(convolved(made)) == products(LEFT[name], images())


POOLED: dict[str, Form] = {
    "pool": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b, padding=1), 2),
    "pool by one size": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b, padding=1), [2]),
    "pool of no bias": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w), 3),
    "scales": lambda x, w, b, c: F.avg_pool2d((F.conv2d(x, w, b, padding=1) * c - 2.0) * 0.5, 2),
    "padded by one number": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b, [1], [1], [1]), 2),
    "unlike sides": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b, padding=(2, 0)), (2, 3)),
    "dilated": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b, padding=1, dilation=(1, 2)), 2),
    "groups": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w[:, :6], b, padding=1, groups=2), 2),
    "twice": lambda x, w, b, c: F.avg_pool2d(F.avg_pool2d(F.conv2d(x, w, b, padding=1) * c, 2), 2),
    "transposed": lambda x, w, b, c: F.avg_pool2d(F.conv_transpose2d(x, w.transpose(0, 1), b), 2),
    "transposed, strided": lambda x, w, b, c: F.avg_pool2d(
        F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2, padding=1) + c, 2
    ),
    "transposed, more": lambda x, w, b, c: F.avg_pool2d(
        F.avg_pool2d(F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2, padding=1, output_padding=1), 2), 2
    ),
    "three dimensions": lambda x, w, b, c: F.avg_pool3d(
        F.conv3d(x.unflatten(2, (1, -1)).expand(-1, -1, 4, -1, -1), w[:, :, None], b, padding=1), 2
    ),
}
ALONE: dict[str, Form] = {
    "not linear": lambda x, w, b, c: F.avg_pool2d(F.relu(F.conv2d(x, w, b)), 2),
    "overlapping": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b), 3, 2),
    "padding": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b), 2, 2, 1),
    "more at the end": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b), 2, ceil_mode=True),
    "strided": lambda x, w, b, c: F.avg_pool2d(F.conv2d(x, w, b, stride=2, padding=5), 2),
    "odd": lambda x, w, b, c: F.avg_pool2d(F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2), 3),
}


@pytest.mark.parametrize("name", POOLED)
def test_average_pooling_comes_before_a_convolution_or_into_its_filter(name: str) -> None:
    made = rewritten(POOLED[name], images())
    (convolution,) = (node for node in made.graph.nodes if "convolution" in str(node.target))
    assert convolution.meta["val"].shape[2:] == POOLED[name](*images()).shape[2:]
    assert not convolution.args[6], "one that is transposed is none any more"


@pytest.mark.parametrize("name", ALONE)
def test_pooling_that_fits_no_rule_stays(name: str) -> None:
    rewritten(ALONE[name], images(), 0)


@given(st.booleans(), st.integers(1, 3), st.integers(0, 3), st.integers(1, 4), st.integers(1, 4), st.integers(6, 12))
def test_pooling_of_any_convolution_is_the_same(
    transposed: bool, stride: int, padding: int, taps: int, each: int, size: int
) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(8, 64, size, size, dtype=torch.float64), torch.randn(64, 64, taps, taps, dtype=torch.float64)
    run = F.conv_transpose2d if transposed else F.conv2d

    def form(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(run(x, w, stride=stride, padding=padding), each)

    try:
        expected = form(x, w)
    except RuntimeError:
        return  # nothing is left to pool
    made = make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(x, w)
    rewrites.apply(made.graph, ["sums"])
    made.recompile()
    torch.testing.assert_close(made(x, w), expected)


@given(st.booleans(), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(1, 4), st.integers(6, 12))
def test_every_tap_of_any_convolution_meets_its_inputs(
    transposed: bool, stride: int, padding: int, dilation: int, taps: int, size: int
) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(1, 64, size, size, dtype=torch.float64), torch.randn(64, 64, taps, taps, dtype=torch.float64)
    run = F.conv_transpose2d if transposed else F.conv2d

    def form(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return run(x, w, stride=stride, padding=padding, dilation=dilation).sum((2, 3))

    try:
        expected = form(x, w)
    except RuntimeError:
        return  # padding leaves nothing
    made = make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(x, w)
    rewrites.apply(made.graph, ["sums"])
    made.recompile()
    torch.testing.assert_close(made(x, w), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_nothing_is_summed_first(dtype: torch.dtype) -> None:
    # 4096 times 60 is infinite in float16, where the mean of what the convolution gives is 480.
    x, w = torch.full((4, 8, 64, 64), 60.0, dtype=dtype), torch.ones(8, 8, 1, 1, dtype=dtype)
    rewritten(lambda x, w: F.conv2d(x, w).mean((2, 3)), (x, w), 0)


LONG = [pytest.mark.slow, pytest.mark.ci]
"""Products that take a second each."""
SPLIT: dict[str, tuple[Form, tuple[int, ...], int]] = {
    "few blocks": (lambda x, w, b: x @ w.t(), (64, 16384, 64), 16),
    "many odd pieces": (lambda x, w, b: x @ w.t(), (6, 240000, 5), 200),
    "some left over": (lambda x, w, b: x @ w.t(), (6, 24007, 5), 20),
    "a bias": (lambda x, w, b: F.linear(x, w, b), (256, 8192, 128), 8),
    "some blocks": (lambda x, w, b: x @ w.t(), (512, 16384, 2048), 4),
}


@pytest.mark.parametrize("name", [*list(SPLIT)[:4], pytest.param("some blocks", marks=LONG)])
def test_a_product_along_a_long_dimension_is_a_sum_of_products(name: str) -> None:
    form, (rows, inner, columns), count = SPLIT[name]
    torch.manual_seed(0)
    tried = tuple(torch.randn(*shape, dtype=torch.float64) for shape in ((rows, inner), (columns, inner), (columns,)))
    made = make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(*tried)
    assert rewrites.apply(made.graph, ["split"]) == 1
    made.graph.eliminate_dead_code()
    made.recompile()
    assert results(made)[:1] == [[count, rows, columns]]
    # And a product of what is left over.
    assert len(results(made)) == 1 + bool(inner % count)
    out, expected = made(*tried), form(*tried)
    torch.testing.assert_close(out, expected)
    assert out.stride() == expected.stride()


def test_as_many_pieces_as_keep_a_gpu_busy() -> None:
    # Three blocks: 85 pieces would leave some multiprocessors with half of the work of others.
    assert split.pieces(257, 262144, 2) == 128
    assert split.pieces(96, 1500000, 80) == 250


LEFT_ALONE = {
    "split": [(64, 1024, 64), (64, 2047 * 3, 64), (4096, 16384, 2048)],
    "halves": [(64, 512, 1024), (640, 128, 1024), (600, 200, 1001)],
}
"""Products that a family of rules does not fit: short, odd, or as many blocks as a GPU takes; small, short, short."""


@pytest.mark.parametrize(("family", "sizes"), [(name, one) for name, all_of in LEFT_ALONE.items() for one in all_of])
def test_products_that_would_not_gain_are_left_alone(family: str, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    with FakeTensorMode():
        tried = torch.empty(rows, inner), torch.empty(inner, columns)
        made = make_fx(torch.mm)(*tried)
    assert rewrites.apply(made.graph, [family]) == 0


HALVES: dict[str, tuple[Form, tuple[tuple[int, ...], ...]]] = {
    "rows and columns": (torch.mm, ((640, 512), (512, 1024))),
    "a long one": (torch.mm, ((640, 5120), (5120, 640))),
    "a long one with a larger result": (torch.mm, ((1280, 2304), (2304, 1280))),
    "a linear layer": (lambda x, w, b: F.linear(x, w, b), ((640, 512), (1024, 512), (1024,))),
    "odd sizes": (torch.mm, ((643, 509), (509, 1021))),
    "odd sizes, turned, a bias": (lambda x, y, b: torch.addmm(b, x.t(), y.t()), ((509, 643), (1021, 509), (1021,))),
    "odd batches": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), ((2, 641, 256), (2, 647, 256))),
    "turned": (lambda x, y: x.t() @ y.t(), ((512, 640), (1024, 512))),
    "batches": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), ((2, 640, 256), (2, 640, 256))),
    "batches with a bias": (lambda x, y, b: torch.baddbmm(b, x, y), ((2, 640, 256), (2, 256, 640), (2, 1, 640))),
}


def in_float64(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.matmul(one.double(), other.double()).float()


def in_halves(form: Form, tried: tuple[torch.Tensor, ...], family: str = "halves") -> torch.Tensor:
    """Return the result by the rule; a CPU has no product of float16 with a result of float32, so that is stood in."""
    made = make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(*tried)
    assert rewrites.apply(made.graph, [family]) == 1
    for node in made.graph.nodes:
        if node.target in (torch.ops.aten.mm.dtype, torch.ops.aten.bmm.dtype):
            assert all(one.meta["val"].dtype is torch.float16 for one in node.all_input_nodes)
            node.target, node.args = in_float64, node.args[:2]
    made.graph.eliminate_dead_code()
    made.recompile()
    return made(*tried)


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        pytest.param(name, scale, marks=LONG if name.startswith("a long one") and scale != 1e25 else ())
        for name in HALVES
        for scale in (1.0, 1e25, 1e-25)
    ],
)
def test_a_product_of_halves_is_as_exact_as_one_of_float32(name: str, scale: float) -> None:
    form, shapes = HALVES[name]
    torch.manual_seed(0)
    tried = tuple(torch.randn(*shape) for shape in shapes)
    tried = (tried[0] * scale * 10.0 ** torch.randint(-3, 3, (shapes[0][-2], 1)), *tried[1:])
    out, exact = in_halves(form, tried), form(*(one.double() for one in tried))
    size = form(*(one.double().abs() for one in tried))
    assert ((out - exact).abs() / size).max() < 2.0**-22
    assert out.stride() == exact.stride()


def test_in_short_sums_halves_are_as_exact() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(640, 1024), torch.randn(1024, 640)
    made = make_fx(torch.mm, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(x, y)
    assert rewrites.apply(made.graph, ["short-halves"]) == 1
    products = made.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.dtype)
    # With the first are both products with a low part.
    assert [node.args[0].meta["val"].shape[1] for node in products] == [2 * 1024 + 256, 256, 256, 256]
    out, exact = in_halves(torch.mm, (x, y), "short-halves"), x.double() @ y.double()
    assert ((out - exact).abs() / (x.double().abs() @ y.double().abs())).max() < 2.0**-22


def test_halves_of_infinities_and_zeros_are_as_the_product_is() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(640, 512), torch.randn(512, 1024)
    x[0], x[1, 3], x[2, 5], x[3], y[:, 7] = 0.0, float("inf"), float("nan"), 1e-42, 0.0
    out, expected = in_halves(torch.mm, (x, y)), x @ y
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
