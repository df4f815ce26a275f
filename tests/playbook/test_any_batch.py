"""Kernels that serve batches of other sizes than the example's, and nothing that they were not written for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.verdict import Timing
from stark_lsp.judge.analysis import conditions, inductor
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor import recipes
from stark_lsp.playbook.inductor.proposal import AsCompiled
from stark_lsp.playbook.inductor.reader import SIZES

from .conftest import REFERENCE, Bench, close, formatted
from .playbook_cases import HEAD
from .written import gradients, write

pytestmark = pytest.mark.usefixtures("several_threads")

ANY = {"batch": True}
ROWS = SIZES[0]
KEPT = "Keep to batches of the example's size"
GATED = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Linear(24, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x, rows):
        gate = torch.sigmoid(self.rows(rows)).mean(1)
        return self.norm(x * gate) / x.shape[0], (x + gate).cumsum(0)


def get_inputs():
    return [torch.randn(6, 16), torch.randn(6, 5, 24)]
"""
"""Two inputs with one batch, which is counted and summed over; one has the name that candidates give its size."""


def module(forward: str, inputs: str, init: str = "pass") -> str:
    return f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n" + (
        f"    def forward(self, x):\n        {forward}\n\n\ndef get_inputs():\n    return [{inputs}]\n"
    )


def of(inputs: list[Any], size: int) -> list[Any]:
    return [torch.cat([x] * -(-size // len(x)))[:size].contiguous() if x.dim() else x for x in inputs]


def test_it_serves_other_batches(bench: Callable[..., Bench]) -> None:
    made = write(bench(GATED), ANY)
    for size in (1, 2, 5, 6, 17):
        given = of(made.one.inputs, size)
        with torch.no_grad(), made.by_kernels():
            close(made.one.model(*given), made.new(*given))
        with made.by_kernels():
            found = gradients(made.new, given)
        for expected, other in zip(gradients(made.one.model, given), found, strict=True):
            torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


def test_all_else_runs_the_original(bench: Callable[..., Bench]) -> None:
    made = write(bench(GATED), ANY)
    x, y = made.one.inputs
    others = {
        "two batches": (x[:4], y),
        "no batch": (x[:0], y[:0]),
        "another size": (x, y[:, :4]),
        "turned": (x.t().contiguous().t(), y),
        "broadcast": (x[:1], y[:1].expand(6, 5, 24)),
        "with gaps": (x[::2], y[::2]),
    }
    for inputs in others.values():
        results: list[Any] = []
        for model in (made.one.model, made.new):
            try:
                with torch.no_grad(), made.by_kernels(False):
                    results.append(model(*inputs))
            except RuntimeError as error:  # as two batches do
                results.append(str(error))
        close(*results)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (module("return torch.relu(x)", "torch.randn(6, 8)"), "rows >= 1"),
        (module("return torch.relu(x) if len(x) > 4 else torch.tanh(x)", "torch.randn(6, 8)"), "rows >= 5"),
        (module("return torch.relu(x.view(-1, 2, 8))", "torch.randn(6, 8)"), "rows >= 1 and rows % 2 == 0"),
        (module("return torch.relu(x) if len(x) == 6 else x", "torch.randn(6, 8)"), None),
        (module("return torch.relu(x)", "torch.randn(1, 8)"), None),
        (
            module("return torch.relu(x + self.p[: len(x)])", "torch.randn(6, 8)", "self.p = torch.ones(9, 8)"),
            "rows <= 9",
        ),
        (
            module("return torch.relu(x) + self.p[: len(x)].sum(0)", "torch.randn(6, 8)", "self.p = torch.ones(9, 8)"),
            "True",
        ),
        (module("return torch.relu(x[:4])", "torch.randn(6, 8)"), "rows >= 1"),
        (module("return torch.relu(x), len(x), len(x) > 4", "torch.randn(6, 8)"), None),
        (module("return torch.relu(x), 24 % (len(x) - 3)", "torch.randn(6, 8)"), None),
        (module("return torch.relu(x)", "torch.randn(30, 40)[::5, :8]"), None),
        (module("return x * self.w", "torch.randn(6, 8)", "self.w = nn.Parameter(torch.randn(6, 8))"), None),
    ],
    ids=[
        "any",
        "a branch",
        "pairs",
        "one alone",
        "an example of one",
        "places",
        "as many as there are",
        "the first",
        "numbers",
        "division",
        "gaps",
        "a weight of that size",
    ],
)
def test_what_it_asks_of_a_batch(text: str, asks: str | None, bench: Callable[..., Bench]) -> None:
    one = bench(text)
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path), ANY)
    assert not vars(one.inputs[0])  # Dynamo's marks are gone
    found = made.get("sizes")
    assert (found is None) is (asks is None)
    for size in range(2, 40) if found is not None else ():
        assert eval(found["asks"], {ROWS: size}) == eval(str(asks), {ROWS: size})
    new = one.build(AsCompiled(one.problem, json.loads(json.dumps(made))).candidate)
    for size in (1, 3, 4, 6, 8):
        results: list[Any] = []
        for model in (one.model, new):
            try:
                results.append(model(*of(one.inputs, size)))
            except (RuntimeError, ZeroDivisionError) as error:
                results.append(str(error)[:30])
        close(*results)


@pytest.mark.slow
@pytest.mark.ci
def test_a_sum_before_a_product_serves_other_batches(bench: Callable[..., Bench]) -> None:
    text = module("return self.l(x).sum(1)", "torch.randn(64, 256)", "self.l = nn.Linear(256, 128)")
    made = write(bench(text), {**ANY, "rewrites": ["sums"]})
    for size in (3, 65):
        given = of(made.one.inputs, size)
        with torch.no_grad(), made.by_kernels():
            close(made.one.model(*given), made.new(*given))


def test_the_first_input_need_not_have_the_batch(bench: Callable[..., Bench]) -> None:
    text = module("return torch.relu(x) * y + z", "torch.randn(8), torch.randn(6, 8), torch.randn(6, 8)")
    made = write(bench(text.replace("self, x)", "self, x, y, z)")), ANY)
    given = [torch.randn(8), torch.randn(3, 8), torch.randn(3, 8)]
    with torch.no_grad(), made.by_kernels():
        close(made.one.model(*given), made.new(*given))


def test_a_graph_holds_the_example_s_batch_alone(bench: Callable[..., Bench]) -> None:
    kept = json.loads((Path(__file__).parents[1] / "data" / "inductor" / "any_norm.json").read_text())
    one = bench(kept["text"])
    design = Design(recipes.STRATEGY, ((recipes.LAUNCH, "replayed"),))
    source = AsCompiled(one.problem, kept["made"], design).candidate.source
    assert "    if tensors[0].shape[:1] != (6,) or torch.cuda.is_current_stream_capturing()" in source
    assert formatted(source) == ""


def test_where_other_batches_cost_time_they_are_left_out(bench: Callable[..., Bench]) -> None:
    one = bench(GATED)

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return inductor.program(one.model, tuple(one.inputs), {}, str(one.path), recipe)

    def following(compiled_ms: float) -> list[str]:
        """Plans on the candidate as compiled, which takes 1 ms, where torch.compile takes so long."""
        del one.nodes[1:]
        timed = replace(REFERENCE.baselines, compile=Timing(compiled_ms, compiled_ms, compiled_ms, 5))
        one.reference = replace(REFERENCE, baselines=timed)
        one.agents = PlaybookAgents(one.analysis, one.problem, one.reference, ask=ask)
        plain, found = one.attempt(), []
        assert "lambda rows=0:" in plain.candidate.source
        with contextlib.suppress(NothingToPropose):
            while True:
                child = one.attempt(plain)
                assert child.plan is not None
                found.append(child.plan.title)
                if found[-1] == KEPT:
                    assert "lambda rows=0:" not in child.candidate.source
        return found

    assert following(0.85)[0] == KEPT
    # It may be as fast: 0.9 to 1.1 ms.
    assert KEPT not in following(0.87)


def test_an_own_strategy_s_patterns_know_sizes() -> None:
    assert recipes.Switches().recipe(Design(recipes.STRATEGY, ()))["batch"]
    own = recipes.Switch("mine", "on", "Mine", "", rewrites="mine", source="pass", text="Mine.")
    assert not recipes.Switches((own,)).recipe(Design(recipes.STRATEGY, ()))["batch"]


@given(
    bounds=st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from(["<", "<=", ">", ">="]), st.integers(0, 90)), max_size=5
    ),
    others=st.lists(st.sampled_from(["rows != 1", "2 * rows != 4", "rows % 3 == 0"]), max_size=2, unique=True),
    rows=st.integers(1, 100),
)
def test_conditions_become_one(bounds: list[tuple[int, str, int]], others: list[str], rows: int) -> None:
    asks = [f"{f'{times} * ' * (times > 1)}{ROWS} {sign} {limit}" for times, sign, limit in bounds]
    together = conditions.together([*asks, *others], [ROWS])
    assert eval(together, {ROWS: rows}) == all(eval(one, {ROWS: rows}) for one in [*asks, *others])
    assert not eval(together, {ROWS: 0})


@pytest.mark.parametrize(
    ("text", "served"),
    [
        (module("return torch.relu(x).squeeze(0)", "torch.randn(6, 8)"), [3]),
        (module("return torch.relu(x).squeeze()", "torch.randn(6, 8)"), [3]),
        (module("return torch.relu(x).squeeze(1)", "torch.randn(6, 1, 8)"), [1, 3]),
        (module("return torch.relu(x)", "torch.randn(8, 6).t()"), []),
        (module("return torch.relu(x @ x.t())", "torch.randn(6, 300)"), [1, 3]),
    ],
    ids=["a dimension of one", "all of one", "another one", "lies by columns", "a matrix of the batch"],
)
@pytest.mark.slow
@pytest.mark.ci
def test_what_a_batch_of_one_or_a_layout_changes(text: str, served: list[int], bench: Callable[..., Bench]) -> None:
    one = bench(text)
    one.inputs[:] = [x if x.is_contiguous() else torch.randn(8, 6).t() for x in one.inputs]
    made = write(one, ANY)
    for size in (1, 3):
        x = one.inputs[0][:size]
        with torch.no_grad(), made.by_kernels(size in served):
            close(one.model(x), made.new(x))
