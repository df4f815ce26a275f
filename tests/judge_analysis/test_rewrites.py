"""Algebra on graphs: the same results by fewer operations, and nothing where no rule fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import rewrites

Form = Callable[..., torch.Tensor]
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
}
DO_NOT: dict[str, Form] = {
    "not linear": lambda x, w, b, p, q: torch.relu(F.linear(x, w, b)).sum(1),
    "used again": lambda x, w, b, p, q: (y := F.linear(x, w, b)).sum(1) + y[:, 0],
    "over rows": lambda x, w, b, p, q: F.linear(x, w, b).sum(0),
    "by rows": lambda x, w, b, p, q: (F.linear(x, w, b) * x[:, :1]).sum(1),
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


@pytest.mark.parametrize("name", FIT)
def test_a_sum_of_a_product_is_a_smaller_product(name: str) -> None:
    given = tensors()
    made = make_fx(FIT[name], tracing_mode="fake")(*given)
    assert rewrites.apply(made.graph) == 1
    made.recompile()
    out = made(*given)
    torch.testing.assert_close(out, FIT[name](*given))
    assert out.stride() == FIT[name](*given).stride()
    assert [ROWS, COLUMNS] not in results(made)


@pytest.mark.parametrize("name", DO_NOT)
def test_what_fits_no_rule_stays(name: str) -> None:
    given = tensors()
    made = make_fx(DO_NOT[name], tracing_mode="fake")(*given)
    before = results(made)
    assert rewrites.apply(made.graph) == 0
    made.recompile()
    torch.testing.assert_close(made(*given), DO_NOT[name](*given))
    assert results(made) == before
