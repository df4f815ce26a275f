"""Products with few rows: pieces of the inner dimension are summed, and nothing where there is nothing to gain."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites
from stark_lsp.judge.analysis.rewrites import slim

FAMILIES = ("halves", "short-halves")


def uses(made: torch.fx.GraphModule) -> int:
    """Return how many products are taken so."""
    return len(made.graph.find_nodes(op="call_function", target=torch.ops.stark.slim.default))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(2, 256),
    inner=st.integers(256, 3000),
    columns=st.integers(1, 150),
    form=st.sampled_from(["linear", "no bias", "turned"]),
    family=st.sampled_from(FAMILIES),
)
def test_it_is_the_product(rows: int, inner: int, columns: int, form: str, family: str) -> None:
    x, w, b = torch.randn(rows, inner), torch.randn(columns, inner), torch.randn(columns)
    forms = {
        "linear": lambda x, w, b: F.linear(x, w, b),
        "no bias": lambda x, w, b: x @ w.t(),
        "turned": lambda x, w, b: (x.t().contiguous().t() @ w.t().contiguous()) * b,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slim, "LEAST", 1)
        made = make_fx(forms[form], tracing_mode="fake")(x, w, b)
        assert rewrites.apply(made.graph, [family]) == uses(made) == 1
    made.recompile()
    found, expected = made(x, w, b), forms[form](*(one.double() for one in (x, w, b)))
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-3)


@given(rows=st.integers(2, 256), inner=st.integers(256, 200_000), columns=st.integers(1, 20_000))
def test_pieces_are_whole_steps_and_none_is_empty(rows: int, inner: int, columns: int) -> None:
    parts = slim.parts_of(rows, inner, columns)
    each = slim.length(inner, parts)
    assert each % slim.STEP == 0
    assert (parts - 1) * each < inner <= parts * each
    assert parts == 1 or each >= slim.SHORTEST // 2


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 4096, 4096), (64, 512, 1024), (64, 200, 8192), (300, 4096, 400), (640, 512, 1024)],
    ids=["a vector", "small", "short", "more rows", "many"],
)
def test_others_are_not_taken_so(rows: int, inner: int, columns: int) -> None:
    made = make_fx(torch.mm, tracing_mode="fake")(torch.empty(rows, inner), torch.empty(inner, columns))
    rewrites.apply(made.graph, ["halves"])
    assert uses(made) == 0


def test_halves_take_what_has_more_rows() -> None:
    for rows, few in ((128, 1), (160, 0), (256, 0)):
        made = make_fx(torch.mm, tracing_mode="fake")(torch.empty(rows, 4096), torch.empty(4096, 4096))
        assert rewrites.apply(made.graph, ["halves"]) == 1
        assert uses(made) == few


def test_rows_that_may_be_any_are_bounded() -> None:
    made = make_fx(lambda x: x @ torch.ones(4097, 4099), tracing_mode="symbolic")(torch.empty(17, 4097))
    (x,) = made.graph.find_nodes(op="placeholder")
    environment = x.meta["val"].shape[0].node.shape_env
    with environment.suppress_guards():
        assert rewrites.apply(made.graph, ["halves"], any_size=True) == uses(made) == 1
    before = len(environment.guards)
    with pytest.raises(rewrites.OneSize):
        slim.bound(made.graph, asked=False)
    slim.bound(made.graph, asked=True)
    assert [str(one.expr)[-7:] for one in environment.guards[before:]] == ["<= 1024"]
    made.recompile()
    x = torch.randn(40, 4097)
    torch.testing.assert_close(made(x), x @ torch.ones(4097, 4099), rtol=1e-4, atol=1e-3)


def test_float64_and_half_precision_are_left_alone() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        x, w = torch.empty(16, 4096, dtype=dtype), torch.empty(4096, 4096, dtype=dtype)
        made = make_fx(torch.mm, tracing_mode="fake")(x, w)
        assert rewrites.apply(made.graph, ["halves"]) == 0


@given(rows=st.integers(2, 256), columns=st.integers(1, 20_000), turned=st.booleans())
def test_blocks_are_hardly_wider_than_the_result(rows: int, columns: int, turned: bool) -> None:
    block = slim.block_of(rows, columns, turned)
    assert block.columns <= 2 * max(8, columns)
    assert block.rows <= 2 * max(8, rows)
