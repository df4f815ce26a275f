"""Convolutions in float16 as TF32 has them: the same numbers meet, and nothing where cuDNN has no TF32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites
from stark_lsp.judge.analysis.rewrites import convolutions, direct, transposed

Form = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones are worth it here, and cuDNN is said to round to even."""
    for rule in (convolutions, direct, transposed):
        monkeypatch.setattr(rule, "LEAST", 1)
    monkeypatch.setattr(convolutions, "WIDE", 1)
    monkeypatch.setattr(convolutions, "LEAST_OF_GROUP", 1)
    monkeypatch.setattr(direct, "FEWEST", 1)
    monkeypatch.setattr(convolutions, "rounds_up", lambda *given: False)


def rewritten(form: object, *given: torch.Tensor, family: str = "convolutions") -> torch.fx.GraphModule | None:
    """Return a form's graph with the rule used; None where it does not fit."""
    made = make_fx(form, tracing_mode="fake")(*given)
    used = rewrites.apply(made.graph, [family])
    made.recompile()
    return made if used else None


@settings(max_examples=30, deadline=None)
@given(
    rank=st.integers(1, 3),
    taps=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    channels=st.integers(1, 9),
    groups=st.integers(1, 3),
    bias=st.booleans(),
    last=st.booleans(),
    up=st.booleans(),
    scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e4, 1e20]),
)
def test_a_convolution_is_that_of_rounded_numbers(
    rank: int,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    channels: int,
    groups: int,
    bias: bool,
    last: bool,
    up: bool,
    scale: float,
) -> None:
    x = torch.randn(2, channels * groups, *range(6, 6 + rank)) * scale
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if last and groups == 1 else x
    apart = torch.tensor([1e-3, 1.0, 1e3, 1e-9, 1e9]).view(5, *[1] * rank + [1])
    w = (torch.randn(groups, 5, channels, *[taps] * rank) * apart).flatten(0, 1)
    b = torch.randn(5 * groups)

    def form(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return CONVOLUTIONS[rank - 1](x, w, b if bias else None, stride, padding, dilation, groups)

    check(form, x, w, b, up)


@settings(max_examples=40, deadline=None)
@given(
    rank=st.integers(1, 3),
    size=st.integers(3, 7),
    taps=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    stride=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    padding=st.integers(0, 3),
    more=st.integers(0, 3),
    dilation=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    channels=st.integers(1, 9),
    groups=st.integers(1, 3),
    last=st.booleans(),
    scale=st.sampled_from([1e-20, 1.0, 1e20]),
)
def test_a_transposed_convolution_is_too(
    rank: int,
    size: int,
    taps: list[int],
    stride: list[int],
    padding: int,
    more: int,
    dilation: list[int],
    channels: int,
    groups: int,
    last: bool,
    scale: float,
) -> None:
    x = torch.randn(2, channels * groups, *range(size, size + rank)) * scale
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if last and groups == 1 else x
    w, b = torch.randn(channels * groups, 4, *taps[:rank]), torch.randn(4 * groups)

    def form(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        output_padding = [min(more, one - 1) for one in stride[:rank]]
        return TRANSPOSED[rank - 1](x, w, b, stride[:rank], padding, output_padding, groups, dilation[:rank])

    each = zip(x.shape[2:], stride, taps, dilation, strict=False)
    if any((side - 1) * step - 2 * padding + (count - 1) * apart < 1 for side, step, count, apart in each):
        return  # padding leaves nothing
    check(form, x, w, b, False)


def check(form: Form, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, up: bool) -> None:
    """See that the rule fits, and gives the form of rounded numbers, as it lies in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolutions, "rounds_up", lambda *given: up)
        made = rewritten(form, x, w, b)
    assert made is not None
    out = made(x, w, b)
    expected = form(convolutions.tf32(x, up).double(), convolutions.tf32(w, up).double(), b.double())
    largest = expected.abs().amax(dim=[0, *range(2, expected.dim())], keepdim=True)
    assert out.dtype is torch.float32
    assert out.stride() == form(x, w, b).stride()
    assert bool(((out - expected).abs() <= 1e-5 * largest + 1e-37).all())


def test_what_has_no_end_stays_where_it_is() -> None:
    x, w = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    x[0, 1, 2, 2], x[0, 2, 6, 6] = float("inf"), float("nan")
    made = rewritten(lambda x, w: F.conv2d(x, w), x, w)
    assert made is not None
    assert torch.equal(made(x, w).isfinite(), F.conv2d(x, w).isfinite())


def test_numbers_are_rounded_to_ten_bits() -> None:
    halves = torch.tensor([1.0 + 2**-11, 1.0 + 3 * 2**-11, -1.0 - 2**-11, 1.0 + 2**-12, float("inf"), float("nan")])
    assert (convolutions.tf32(halves, True) - 1.0).tolist()[:4] == [2**-10, 2**-9, -2.0 - 2**-10, 0.0]
    assert (convolutions.tf32(halves, False) - 1.0).tolist()[:4] == [0.0, 2**-9, -2.0, 0.0]
    for up in (False, True):
        assert torch.equal(convolutions.tf32(halves, up)[4:].isinf(), halves[4:].isinf())


OTHERWISE = {
    "channels last, in groups": lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w[:, :2], groups=2),
    "of float64": lambda x, w: F.conv2d(x.double(), w.double()),
    "of bfloat16": lambda x, w: F.conv2d(x.bfloat16(), w.bfloat16()),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_no_other_is_taken(name: str) -> None:
    assert rewritten(OTHERWISE[name], torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)) is None


DIRECT = {
    "an image": lambda x, w, b: F.conv2d(x, w, b, (2, 1), 1, (1, 2)),
    "a line": lambda x, w, b: F.conv1d(x.flatten(2), w.flatten(2), b),
    "a volume": lambda x, w, b: F.conv3d(x[:, :, None], w[:, :, None], b, padding=(0, 2, 1)),
    "in groups": lambda x, w, b: F.conv2d(x, w[:, :2], b, padding=1, groups=2),
}


@settings(max_examples=20, deadline=None)
@given(
    rank=st.integers(1, 3),
    taps=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
    transposed=st.booleans(),
    last=st.booleans(),
    up=st.booleans(),
)
def test_the_gradient_of_an_input_is_one_too(
    rank: int,
    taps: int,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    transposed: bool,
    last: bool,
    up: bool,
) -> None:
    x, w = torch.randn(2, 6, *range(6, 6 + rank)), torch.randn(6, 6 // groups, *[taps] * rank)
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if last and groups == 1 else x
    how = ([stride] * rank, [padding] * rank, [dilation] * rank, transposed, [0] * rank, groups)
    gradient = torch.randn_like(torch.convolution(x, w, None, *how))

    def form(gradient: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ops.aten.convolution_backward(gradient, x, w, [6], *how, [True, True, True])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolutions, "rounds_up", lambda *given: up)
        made = rewritten(form, gradient, x, w)
    assert made is not None
    (behind,) = (node for node in made.graph.nodes if node.target is torch.ops.aten.convolution_backward.default)
    assert behind.args[-1] == [False, True, True]
    found, *others = made(gradient, x, w)
    expected = form(*(convolutions.tf32(one, up) for one in (gradient, x, w)))[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert all(map(torch.equal, others, form(gradient, x, w)[1:]))


def test_of_no_input_there_is_no_gradient() -> None:
    x, w = torch.randn(2, 6, 8), torch.randn(6, 6, 3)
    how = ([6], [1], [0], [1], False, [0], 1)

    def form(gradient: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ops.aten.convolution_backward(gradient, x, w, *how, [False, True, True])[1:]

    assert rewritten(form, torch.randn(2, 6, 6), x, w) is None


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize("name", DIRECT)
def test_what_cudnn_does_not_round_is_taken_in_parts(name: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "rounds_up", lambda *given: None)
    x, w, b = torch.randn(2, 4, 8, 9) * scale, torch.randn(6, 4, 3, 3), torch.randn(6)
    made = rewritten(DIRECT[name], x, w, b)
    assert made is not None
    (called,) = (node for node in made.graph.nodes if node.target is torch.ops.stark.direct.default)
    high, low = called.args[1:3]
    expected = DIRECT[name](x, w, b)
    # With AVX2, oneDNN adds the bias in another place.
    assert (made(x, w, b) - expected).abs().max() <= 5e-7 * expected.abs().max()
    assert high is not low
    w.view(-1)[5] = float("inf")
    assert torch.equal(made(x, w, b).isfinite(), DIRECT[name](x, w, b).isfinite())


@pytest.mark.parametrize("groups", [1, 2])
def test_what_is_transposed_and_not_rounded_is_made_ordinary_and_taken_in_parts(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolutions, "rounds_up", lambda *given: None)
    x, w, b = torch.randn(2, 16, 8, 9), torch.randn(16, 5, 3, 2), torch.randn(5 * groups)

    def form(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose2d(x, w, b, 2, 1, (1, 0), groups)

    made = rewritten(form, x, w, b)
    assert made is not None
    called = [node.target for node in made.graph.nodes]
    assert torch.ops.stark.direct.default in called
    assert torch.ops.aten.convolution.default not in called
    torch.testing.assert_close(made(x, w, b), form(x, w, b), rtol=1e-5, atol=1e-4)


def test_what_is_not_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "rounds_up", lambda *given: None)
    monkeypatch.setattr(direct, "FEWEST", 8)
    x, w = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)
    last = x.to(memory_format=torch.channels_last)
    for form, image in ((F.conv2d, last), (lambda x, w: F.conv2d(x, w[:, :2], groups=2), x)):
        assert rewritten(form, image, w) is None
    # A shortcut of a network that halves its images.
    assert rewritten(lambda x, w: F.conv2d(x, w, stride=2), x, torch.randn(4, 4, 1, 1)) is None
    monkeypatch.setattr(direct, "LONGEST", 35)
    assert rewritten(F.conv2d, x, w) is None


def test_nothing_is_tried_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(convolutions, "LEAST", 1)
    assert rewritten(lambda x, w: F.conv2d(x, w), torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)) is None


@pytest.mark.parametrize("up", [False, True, None])
def test_how_a_kernel_rounds_is_seen_by_numbers_that_are_rounded_before(
    up: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU's convolution stands for cuDNN's."""
    exact = torch.convolution

    def rounding(x: torch.Tensor, w: torch.Tensor, *how: object) -> torch.Tensor:
        return exact(x, w, *how) if up is None else exact(convolutions.tf32(x, up), convolutions.tf32(w, up), *how)

    monkeypatch.setattr(torch, "convolution", rounding)
    how = ((1, 1), (1, 1), (1, 1), (0, 0))
    for strides in ((12800, 400, 20, 1), (12800, 1, 640, 32)):
        each = ((4, 32, 20, 20), strides, (48, 32, 3, 3), (288, 9, 3, 1), *how)
        assert convolutions.observed("cpu", convolutions.Sizes(each, False, 1)) is up
    turned = ((4, 32, 20, 20), strides, (32, 48, 3, 3), (432, 9, 3, 1), *how)
    assert convolutions.observed("cpu", convolutions.Sizes(turned, True, 1)) is up
