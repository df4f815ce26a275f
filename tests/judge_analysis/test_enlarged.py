"""Convolutions of enlarged images: computed while these are small, where that is the same and pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch._decomp import get_decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites
from stark_lsp.judge.analysis.rewrites import enlarged

Form = Callable[..., torch.Tensor]
AS_INDUCTOR = get_decompositions([torch.ops.aten._unsafe_view])


def larger(x: torch.Tensor, mode: str = "bilinear", **how: Any) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2, mode=mode, **how)


MADE: dict[str, Form] = {
    "bilinear": lambda x, s, w, v, b: torch.tanh(F.conv2d(larger(x), w, b)),
    "corners": lambda x, s, w, v, b: F.conv2d(larger(x, align_corners=True), w, b),
    "another size": lambda x, s, w, v, b: F.conv2d(F.interpolate(x, size=(17, 23), mode="bilinear"), w, b),
    "nearest": lambda x, s, w, v, b: F.conv2d(larger(x, "nearest"), w),
    "bicubic": lambda x, s, w, v, b: F.conv2d(larger(x, "bicubic"), w, b) * 2.0,
    "padded": lambda x, s, w, v, b: F.conv2d(F.pad(x, (3, 2, 0, 9)), w, b),
    "groups": lambda x, s, w, v, b: F.conv2d(larger(x), w[:, :4], b, groups=3),
    "beside another": lambda x, s, w, v, b: F.conv2d(torch.cat([larger(x), s], 1), v, b),
    "between two": lambda x, s, w, v, b: F.conv2d(torch.cat([s, larger(x), s], 1), torch.cat([v, v[:, :5]], 1), b),
    "both": lambda x, s, w, v, b: F.conv2d(torch.cat([larger(x), larger(x * 2.0)], 1), torch.cat([w, w], 1)),
    "one dimension": lambda x, s, w, v, b: F.conv1d(
        F.interpolate(x[:, :, 0], scale_factor=2, mode="linear"), w[..., 0], b
    ),
    "three dimensions": lambda x, s, w, v, b: F.conv3d(
        F.interpolate(x[:, :, None], scale_factor=2, mode="nearest"), w[..., None], b
    ),
}
LEFT: dict[str, Form] = {
    "not linear": lambda x, s, w, v, b: F.conv2d(F.relu(larger(x)), w, b),
    "filters of several places": lambda x, s, w, v, b: F.conv2d(larger(x), w.expand(-1, -1, 2, 2), b),
    "strided": lambda x, s, w, v, b: F.conv2d(larger(x), w, b, stride=2),
    "padding": lambda x, s, w, v, b: F.conv2d(larger(x), w, b, padding=1),
    "padded with ones": lambda x, s, w, v, b: F.conv2d(F.pad(x, (9, 9, 9, 9), value=1.0), w, b),
    "padded with channels": lambda x, s, w, v, b: F.conv2d(F.pad(x, (9, 9, 9, 9, 5, 0)), v, b),
    "used again": lambda x, s, w, v, b: F.conv2d(y := larger(x), w, b) + y[:, :6],
    "scaled by channels": lambda x, s, w, v, b: F.conv2d(larger(x) * b.repeat(2)[:, None, None], w, b),
    "something added": lambda x, s, w, v, b: F.conv2d(larger(x) + 1.0, w, b),
    "of two images": lambda x, s, w, v, b: F.conv2d(larger(x) + larger(x * 2.0), w, b),
    "smaller": lambda x, s, w, v, b: F.conv2d(F.interpolate(x, scale_factor=0.5), w, b),
    "hardly larger": lambda x, s, w, v, b: F.conv2d(F.pad(x, (1, 1)), w, b),
    "many more channels": lambda x, s, w, v, b: F.conv2d(larger(x), w.repeat(9, 1, 1, 1)),
    "half precision": lambda x, s, w, v, b: F.conv2d(larger(x.bfloat16()), w.bfloat16(), b.bfloat16()),
}


def tensors() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    shapes = ((2, 12, 8, 9), (2, 5, 16, 18), (6, 12, 1, 1), (6, 17, 1, 1), (6,))
    return tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


def traced(form: Form) -> torch.fx.GraphModule:
    """Return the graph as Inductor is handed it: what interpolates is taken apart."""
    with enable_python_dispatcher():
        return make_fx(form, tracing_mode="fake", decomposition_table=AS_INDUCTOR)(*tensors())


def places(made: torch.fx.GraphModule) -> list[tuple[int, ...]]:
    """Return the sizes of what convolutions give."""
    return [tuple(node.meta["val"].shape[2:]) for node in made.graph.nodes if "convolution" in str(node.target)]


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enlarged, "LEAST", 1)


@pytest.mark.parametrize("name", MADE)
def test_a_convolution_of_single_places_comes_before_what_enlarges(name: str) -> None:
    made = traced(MADE[name])
    (before,) = places(made)
    assert rewrites.apply(made.graph, ["sums"]) == 1
    made.graph.eliminate_dead_code()
    made.recompile()
    out, expected = made(*tensors()), MADE[name](*tensors())
    torch.testing.assert_close(out, expected)
    assert out.stride() == expected.stride()
    beside = [before] if name in ("beside another", "between two") else []
    assert [each for each in places(made) if each == before] == beside


@pytest.mark.parametrize("name", LEFT)
def test_where_that_is_not_the_same_or_does_not_pay_it_stays(name: str) -> None:
    made = traced(LEFT[name])
    assert rewrites.apply(made.graph, ["sums"]) == 0
    assert len(places(made)) == 1


def test_numbers_that_are_not_finite_stay_where_they_are() -> None:
    x, *more = tensors()
    x[0, 3, 2, 2], x[1, 0, 5, 5], x[1, 1, 0, 0] = float("inf"), float("nan"), -float("inf")
    for name in ("bilinear", "nearest", "padded"):
        made = traced(MADE[name])
        expected = made(x, *more)
        rewrites.apply(made.graph, ["sums"])
        made.recompile()
        torch.testing.assert_close(made(x, *more), expected, equal_nan=True)
