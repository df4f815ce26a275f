"""Windows as shifted images, and products with diagonal matrices: the same results, and nothing where no rule fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites
from stark_lsp.judge.analysis.rewrites import transposed, windows

Form = Callable[..., torch.Tensor]


@pytest.fixture(autouse=True, scope="module")
def any_size() -> object:
    """Small results are worth it here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "LEAST", 1)
        patch.setattr(transposed, "LEAST", 1)
        yield


class Rewritten:
    """What a form computes once its graph, as Inductor is handed it, was rewritten."""

    def __init__(self, form: Form, *tried: torch.Tensor) -> None:
        self.fitting: list[str] = []
        self.names: list[str] = []
        from torch._inductor import compile_fx  # takes seconds, and every process imports this file

        self.out = compile_fx.compile_fx(make_fx(form)(*tried), list(tried), inner_compile=self._made)(*tried)

    def _made(self, graph: torch.fx.GraphModule, inputs: object, **how: object) -> Callable[..., object]:
        before = str(graph.graph)
        self.fitting = rewrites.fitting(graph.graph)
        assert str(graph.graph) == before
        assert rewrites.apply(graph.graph, rewrites.FAMILIES) == len(self.fitting)
        self.names = [str(node.target) for node in graph.graph.nodes]
        graph.recompile()

        def run(given: list[torch.Tensor]) -> object:
            return graph(*given)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def same(form: Form, *tried: torch.Tensor, families: tuple[str, ...] = ("windows",)) -> list[str]:
    """Rewrite a form, compare what it computes, and return the operations that are left."""
    made, expected = Rewritten(form, *tried), form(*tried)
    assert made.fitting == list(families)
    torch.testing.assert_close(made.out, expected, equal_nan=True)
    assert made.out.stride() == expected.stride()
    return made.names


def images(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64)


sizes = st.integers(1, 4)


@settings(max_examples=6)
@given(
    rank=st.integers(1, 3),
    taps=sizes,
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    dilation=st.integers(1, 3),
    channels=st.integers(2, 4),
    each=st.integers(1, 3),
    bias=st.booleans(),
)
def test_a_depthwise_convolution_is_a_sum_of_shifted_images(
    rank: int, taps: int, stride: int, padding: int, dilation: int, channels: int, each: int, bias: bool
) -> None:
    conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    x = images(2, channels, *range(10, 10 + rank))
    w, b = images(channels * each, 1, *[taps] * rank), images(channels * each)
    names = same(lambda x, w, b: conv(x, w, b if bias else None, stride, padding, dilation, channels), x, w, b)
    assert not any("convolution" in name for name in names)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("size", "window", "how", "own"),
    [
        ((2, 3, 12, 13), (7, 7), {"padding": 3}, True),
        ((1, 4, 20, 9), (9, 3), {"padding": (4, 0)}, True),
        ((2, 3, 12, 13), (4, 6), {}, False),
        ((2, 3, 12, 13), (5, 5), {"stride": (1, 2)}, False),
        ((2, 3, 12, 13), (5, 5), {"dilation": 2}, False),
        ((2, 3, 9, 40), (1, 27), {}, False),
    ],
)
def test_a_large_filter_has_a_kernel_of_its_own(
    size: tuple[int, ...], window: tuple[int, ...], how: dict[str, int], own: bool, bias: bool
) -> None:
    x, w, b = images(*size).float(), images(size[1], 1, *window).float(), images(size[1]).float()
    names = same(lambda x, w, b: F.conv2d(x, w, b if bias else None, groups=size[1], **how) * 2.0, x, w, b)
    assert ("stark.depthwise.default" in names) is own
    last = x.to(memory_format=torch.channels_last)
    names = same(lambda x, w, b: F.conv2d(x, w, b if bias else None, groups=size[1], **how), last, w, b)
    assert "stark.depthwise.default" not in names, "it goes through images row by row"


@settings(max_examples=4)
@given(taps=st.integers(3, 4), stride=st.integers(1, 3), padding=st.integers(0, 1), dilation=st.integers(1, 2))
def test_a_maximum_over_volumes_is_one_of_shifted_images(taps: int, stride: int, padding: int, dilation: int) -> None:
    x = images(2, 3, 9, 10, 11)
    x[0, 0, 3, 3, 3], x[0, 1, 4, 4, 4] = float("nan"), float("-inf")
    names = same(lambda x: F.max_pool3d(x, taps, stride, padding, dilation), x)
    assert not any("pool" in name for name in names)


@pytest.mark.parametrize("ceil", [False, True])
def test_a_maximum_takes_windows_that_reach_beyond_the_image(ceil: bool) -> None:
    same(lambda x: F.max_pool3d(x, 3, 2, 1, ceil_mode=ceil), images(2, 3, 8, 10, 12))


@settings(max_examples=2)
@given(stride=st.integers(1, 3), padding=st.integers(0, 2))
def test_a_large_average_is_one_of_shifted_images(stride: int, padding: int) -> None:
    same(lambda x: F.avg_pool3d(x, 4, stride, padding), images(2, 3, 9, 10, 11))
    same(lambda x: F.avg_pool2d(x, (6, 7), stride, padding), images(2, 3, 9, 11))
    same(lambda x: F.avg_pool2d(x, [6], [stride], [padding]), images(2, 3, 9, 11))


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("divisor", [None, 7])
def test_a_large_average_divides_by_what_counts(ceil: bool, counted: bool, divisor: int | None) -> None:
    how = (ceil, counted, divisor)
    same(lambda x: F.avg_pool3d(x, (2, 3, 5), (2, 1, 3), (1, 1, 2), *how), images(2, 3, 8, 10, 12))
    same(lambda x: F.avg_pool2d(x, (6, 7), (2, 5), (3, 0), *how), images(2, 3, 9, 11))


DO_NOT: dict[str, tuple[Form, tuple[int, ...]]] = {
    "in groups of several": (lambda x: F.conv2d(x, x.new_ones(8, 2, 3, 3), groups=2), (2, 4, 8, 8)),
    "in no groups": (lambda x: F.conv2d(x, x.new_ones(8, 4, 3, 3)), (2, 4, 8, 8)),
    "large filters": (lambda x: F.conv2d(x, x.new_ones(4, 1, 9, 9), groups=4), (2, 4, 16, 16)),
    "transposed, channel by channel": (lambda x: F.conv_transpose2d(x, x.new_ones(4, 1, 3, 3), groups=4), (2, 4, 8, 8)),
    "transposed, dilated": (lambda x: F.conv_transpose2d(x, x.new_ones(4, 4, 3, 3), dilation=2), (2, 4, 8, 8)),
    "windows that Inductor writes": (lambda x: F.avg_pool2d(x, 5) + F.max_pool2d(x, 5), (2, 4, 10, 10)),
    "large averages that overlap": (lambda x: F.avg_pool2d(x, 9, 2), (2, 4, 20, 20)),
    "averages side by side": (lambda x: F.avg_pool2d(x, 7), (2, 4, 21, 21)),
    "one image": (lambda x: F.max_pool3d(x, [3], [1], [1]), (4, 9, 9, 9)),
    "places of the maximum": (lambda x: F.max_pool3d(x, 3, return_indices=True)[1], (2, 4, 9, 9, 9)),
}


@pytest.mark.parametrize("name", DO_NOT)
def test_nothing_is_done_where_no_rule_fits(name: str) -> None:
    form, shape = DO_NOT[name]
    same(form, images(*shape), families=())


def test_half_precision_stays() -> None:
    same(lambda x: F.max_pool3d(x, 3), images(2, 4, 9, 9, 9).half(), families=())


DIAGONALS: dict[str, Form] = {
    "from the left": lambda v, x: torch.diag(v) @ x,
    "from the right": lambda v, x: x.t() @ torch.diag_embed(v),
}


@pytest.mark.parametrize("name", DIAGONALS)
def test_a_product_with_a_diagonal_matrix_is_scaled(name: str) -> None:
    names = same(DIAGONALS[name], images(24), images(24, 40), families=("sums",))
    assert not any("mm" in one or "where" in one for one in names)


NOT_DIAGONAL: dict[str, Form] = {
    "beside the diagonal": lambda v, x: torch.diag(v, 1)[:24, :24] @ x,
    "a triangle": lambda v, x: torch.tril(v.expand(24, 24)) @ x,
    "not zero beside it": lambda v, x: (torch.diag(v) + 1) @ x,
    "columns": lambda v, x: torch.where(torch.eye(24).bool(), v[:, None], v.new_zeros(())) @ x.exp(),
}


@pytest.mark.parametrize("name", NOT_DIAGONAL)
def test_what_is_no_diagonal_matrix_is_multiplied(name: str) -> None:
    same(NOT_DIAGONAL[name], images(24), images(24, 40), families=())


@settings(max_examples=12)
@given(
    rank=st.integers(1, 3),
    taps=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    more=st.integers(0, 2),
    groups=st.integers(1, 2),
    bias=st.booleans(),
)
def test_a_transposed_convolution_is_an_ordinary_one(
    rank: int, taps: int, stride: int, padding: int, more: int, groups: int, bias: bool
) -> None:
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    x, w, b = images(2, 16, *range(6, 6 + rank)), images(16, 4, *[taps] * rank), images(4 * groups)

    def form(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return conv(x, w, b if bias else None, stride, padding, min(more, stride - 1), groups)

    try:
        form(x, w, b)
    except RuntimeError:
        return  # padding leaves nothing
    same(form, x, w, b, families=("transposed",))
