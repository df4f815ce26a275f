"""Attention as one call: the same results, and nothing where it is something else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites

Form = Callable[..., torch.Tensor]
HEADS, LENGTH, WIDTH = 3, 256, 16
FIT: dict[str, Form] = {
    "scaled": lambda q, k, v, m: torch.softmax(q @ k.mT / math.sqrt(WIDTH), dim=-1) @ v,
    "scaled before": lambda q, k, v, m: ((q * 0.25) @ k.mT).softmax(-1) @ v,
    "not scaled": lambda q, k, v, m: torch.softmax(q @ k.mT, dim=3) @ v,
    "put": lambda q, k, v, m: (q @ k.mT * 0.25).masked_fill(m == 0, -math.inf).softmax(-1) @ v,
    "put a number": lambda q, k, v, m: torch.where(m > 0, q @ k.mT * 0.25, -1e9).softmax(-1) @ v,
    "added": lambda q, k, v, m: (q @ k.mT * 0.25 + m).softmax(-1) @ v,
    "added by keys": lambda q, k, v, m: (m[0] + q @ k.mT * 2.0 / 5.0).softmax(-1) @ v,
    "added and put": lambda q, k, v, m: ((q @ k.mT) / 4 + m).masked_fill(m == 0, -math.inf).softmax(-1) @ v,
    "put and added": lambda q, k, v, m: ((q @ k.mT).masked_fill(m == 0, -math.inf) + m[0]).softmax(-1) @ v,
    "two added": lambda q, k, v, m: (q @ k.mT + m + m[0]).softmax(-1) @ v,
    "one head": lambda q, k, v, m: (q[:, 0] @ k[:, 0].mT * 0.25 + m).softmax(-1) @ v[:, 0],
    "turned": lambda q, k, v, m: ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).reshape(2, LENGTH, -1),
}
MASKED = ("put", "put a number", "added", "added by keys", "added and put", "put and added", "two added", "one head")
DO_NOT: dict[str, Form] = {
    "another axis": lambda q, k, v, m: torch.softmax(q @ k.mT, dim=2) @ v,
    "no softmax": lambda q, k, v, m: torch.relu(q @ k.mT) @ v,
    "weights used": lambda q, k, v, m: (w := torch.softmax(q @ k.mT, -1)) @ v + w.sum(-1, keepdim=True),
    "scores used": lambda q, k, v, m: torch.softmax(s := q @ k.mT, -1) @ v + s.sum(-1, keepdim=True),
    "scaled behind a mask": lambda q, k, v, m: ((q @ k.mT + m) * 0.25).softmax(-1) @ v,
    "a number put, and a mask": lambda q, k, v, m: ((q @ k.mT).masked_fill(m == 0, -1e4) + m).softmax(-1) @ v,
    "something else": lambda q, k, v, m: torch.tanh(q @ k.mT).softmax(-1) @ v,
    "zero is put": lambda q, k, v, m: (q @ k.mT).masked_fill(m == 0, 0.0).softmax(-1) @ v,
    "weights scaled": lambda q, k, v, m: (torch.softmax(q @ k.mT, -1) * m) @ v,
    "short": lambda q, k, v, m: torch.softmax(q[:, :, :64] @ k[:, :, :64].mT, -1) @ v[:, :, :64],
    "odd": lambda q, k, v, m: torch.softmax(q[..., :12] @ k[..., :12].mT, -1) @ v[..., :12],
}


def tried() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    parts = (torch.randn(2, LENGTH, HEADS, WIDTH).transpose(1, 2) for _ in range(3))
    return (*parts, torch.ones(LENGTH, LENGTH).tril())


def taken(form: Form, given: tuple[torch.Tensor, ...]) -> tuple[int, torch.fx.GraphModule]:
    """Return how often the rule fits, and what it makes."""
    from torch._inductor.decomposition import select_decomp_table  # takes a second, and every process imports this file

    table = select_decomp_table()
    made = make_fx(form, tracing_mode="fake", decomposition_table=table)(*given)
    used = rewrites.apply(made.graph, ["attention"])
    made.graph.eliminate_dead_code()
    made.recompile()
    return used, made


@pytest.mark.parametrize("name", FIT)
def test_attention_is_one_call(name: str) -> None:
    given = tried()
    used, made = taken(FIT[name], given)
    assert used == 1
    assert not [node for node in made.graph.nodes if "mm" in str(node.target)]
    out, expected = made(*given), FIT[name](*given)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert out.stride() == expected.stride()


def on_any_device(q: Any, k: Any, v: Any, mask: Any, *more: Any, scale: float) -> tuple[torch.Tensor]:
    given = mask if isinstance(mask, torch.Tensor) else None
    return (torch.nn.functional.scaled_dot_product_attention(q, k, v, given, scale=scale),)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FIT)
def test_in_half_precision_it_is_pytorchs_own_call_or_with_a_mask_ours(name: str, dtype: torch.dtype) -> None:
    given = tuple(one.to(dtype) for one in tried())
    used, made = taken(FIT[name], given)
    assert used == 1
    calls = [node for node in made.graph.nodes if "attention" in str(node.target)]
    assert [("flash" if "flash" in str(node.target) else "stark") for node in calls] == [
        "stark" if name in MASKED else "flash"
    ]
    assert not [node for node in made.graph.nodes if "mm" in str(node.target)]
    if name not in MASKED:
        calls[0].target = on_any_device  # that kernel is a GPU's
        made.recompile()
    exact = FIT[name](*(one.double() for one in given))
    out, expected = made(*given), FIT[name](*given)
    # It is no further off than what was written.
    assert (out - exact).abs().max() <= 2 * (expected - exact).abs().max()
    assert (out.dtype, out.stride()) == (dtype, expected.stride())


def test_scores_that_are_scaled_behind_the_difference_are_taken() -> None:
    def form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.mT) * 1
        apart = torch.exp((scores - scores.amax(-1, keepdim=True)) * 0.25)
        return (apart / apart.sum(-1, keepdim=True)) @ v

    used, made = taken(form, tried())
    assert used == 1
    torch.testing.assert_close(made(*tried()), form(*tried()), rtol=1e-5, atol=1e-5)


def test_softmax_in_float32_between_products_in_half_precision_is_that_too() -> None:
    given = tuple(one.bfloat16() for one in tried())
    used, _ = taken(lambda q, k, v, m: torch.softmax((q @ k.mT * 0.25).float(), -1).to(q.dtype) @ v, given)
    assert used == 1
    # Of several dtypes it is something else.
    used, _ = taken(lambda q, k, v, m: torch.softmax((q @ k.mT * 0.25).float(), -1) @ v.float(), given)
    assert used == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", DO_NOT)
def test_what_is_something_else_is_left_alone(name: str, dtype: torch.dtype) -> None:
    assert taken(DO_NOT[name], tuple(one.to(dtype) for one in tried()))[0] == 0


def test_a_mask_is_laid_by_rows() -> None:
    def form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT + m.permute(2, 0, 1)).softmax(-1) @ v

    given = (*tried()[:3], torch.randn(LENGTH, LENGTH, HEADS))
    used, made = taken(form, given)
    assert used == 1
    (call,) = (node for node in made.graph.nodes if "stark" in str(node.target))
    assert call.args[3].meta["val"].stride()[1:] == (LENGTH * LENGTH, LENGTH, 1)
    torch.testing.assert_close(made(*given), form(*given), rtol=1e-5, atol=1e-5)


def test_scores_that_are_given_are_no_attention() -> None:
    scores, values = torch.randn(2, 300, 300), torch.randn(2, 300, 16)
    used, _ = taken(lambda s, v: torch.bmm(torch.softmax(s, -1), v), (scores, values))
    assert used == 0


@pytest.mark.parametrize(
    ("masked", "causal", "scale", "turned", "half"),
    [
        (False, False, None, True, False),
        (False, True, None, True, False),
        (True, False, 0.5, True, False),
        (False, False, 0.5, False, False),
        (True, False, None, True, True),
    ],
)
def test_what_pytorch_calls_attention_is_ours(
    masked: bool, causal: bool, scale: float | None, turned: bool, half: bool
) -> None:
    q, k, v, mask = (one.to(torch.bfloat16 if half else torch.float32) for one in tried())
    if not turned:
        q, k, v = (one.contiguous() for one in (q, k, v))
    # That of half precision lies by columns, the same for each of the batch.
    mask = mask.mT.contiguous().mT if half else mask
    given = mask.expand(2, HEADS, LENGTH, LENGTH) if masked else None

    def form(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        by = torch.ops.aten
        theirs = by._scaled_dot_product_cudnn_attention if half else by._scaled_dot_product_efficient_attention
        return theirs(q, k, v, given, False, 0.0, causal, scale=scale)[0]

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [mode.from_tensor(one) for one in (q, k, v)]
        made = make_fx(form)(*fake)
        before = next(node for node in made.graph.nodes if node.op == "output").args[0].meta["val"].stride()
    assert rewrites.apply(made.graph, ["attention"]) == 1
    made.graph.eliminate_dead_code()
    made.recompile()
    out = made(q, k, v)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, given, 0.0, causal, scale=scale)
    room = 2e-2 if half else 1e-5
    torch.testing.assert_close(out, expected, rtol=room, atol=room)
    cloned = [node.meta["val"].shape for node in made.graph.nodes if node.target is torch.ops.aten.clone.default]
    assert (mask.shape[-2:] in [one[-2:] for one in cloned]) is half
    assert all(one.numel() <= mask.numel() for one in cloned if one[-2:] == mask.shape[-2:])
    assert out.stride() == before
