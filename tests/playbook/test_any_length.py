"""Kernels that serve other lengths than the example's, where that is wanted, and nothing they were not written for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.judge.analysis import sizes
from stark_lsp.judge.analysis.sizes import LENGTH, ROWS
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor import graphs, reader, recipes

from .conftest import Bench, close
from .playbook_cases import HEAD
from .written import gradients, write

pytestmark = pytest.mark.usefixtures("several_threads")

ANY = {"batch": True, "length": True}
LANGUAGE = """
    def __init__(self, C=48, H=4, L=64, V=100):
        super().__init__()
        self.H = H
        self.emb, self.pos = nn.Embedding(V, C), nn.Embedding(L, C)
        self.qkv, self.out = nn.Linear(C, 3 * C), nn.Linear(C, V)
        self.register_buffer("mask", torch.tril(torch.ones(L, L)).view(1, 1, L, L))

    def forward(self, ids):
        B, T = ids.shape
        x = self.emb(ids) + self.pos(torch.arange(T, device=ids.device))
        C = x.shape[-1]
        q, k, v = (one.view(B, T, self.H, -1).transpose(1, 2) for one in self.qkv(x).split(C, dim=2))
        w = (q @ k.transpose(-2, -1)) * C**-0.5
        w = w.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf")).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(B, T, C) + x)
"""
GATED = """
    def __init__(self):
        super().__init__()
        self.l, self.n = nn.Linear(24, 16), nn.LayerNorm(16)

    def forward(self, x, y):
        gate = torch.sigmoid(self.l(y)).mean(1)
        return self.n(x * gate) / y.shape[1], (x + gate).cumsum(0)
"""
MASKED = """
    def __init__(self):
        super().__init__()
        self.emb, self.l = nn.Embedding(50, 32), nn.Linear(32, 32)

    def forward(self, ids, mask):
        x = torch.where(mask[..., None], F.silu(self.l(self.emb(ids))), 0.0)
        return x.sum(1) / mask.sum(1, keepdim=True)
"""
SIGNAL = """
    def __init__(self):
        super().__init__()
        self.c, self.n = nn.Conv1d(16, 32, 5, padding=2), nn.GroupNorm(4, 16)

    def forward(self, x):
        a, b = self.c(self.n(x)).chunk(2, 1)
        return torch.tanh(a) * torch.sigmoid(b) + x
"""
HEADS = """
    def forward(self, q, k, v, bias):
        return torch.relu((q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v)
"""


def heads(rows: int, length: int) -> list[Any]:
    return [*(torch.randn(rows, 4, length, 16) for _ in range(3)), torch.randn(length, length)]


CASES: dict[str, tuple[str, str, Callable[[int, int], list[Any]], str]] = {
    "text": (LANGUAGE, "torch.randint(0, 100, (3, 24))", lambda b, t: [torch.randint(0, 100, (b, t))], "[:2]"),
    "second input": (
        GATED,
        "torch.randn(6, 16), torch.randn(6, 5, 24)",
        lambda b, t: [torch.randn(b, 16), torch.randn(b, t, 24)],
        "[:2]",
    ),
    "one text with a mask": (
        MASKED,
        "torch.randint(0, 50, (1, 24)), torch.ones(1, 24, dtype=torch.bool)",
        lambda b, t: [torch.randint(0, 50, (1, t)), torch.rand(1, t) < 0.7],
        "[1:2]",
    ),
    "channels first": (SIGNAL, "torch.randn(3, 16, 100)", lambda b, t: [torch.randn(b, 16, t)], "[:3:2]"),
    "heads and a bias": (
        HEADS,
        "*(torch.randn(2, 4, 24, 16) for _ in range(3)), torch.randn(24, 24)",
        heads,
        "[:3:2]",
    ),
}


def of(bench: Callable[..., Bench], name: str) -> Bench:
    body, inputs, *_ = CASES[name]
    return bench(f"{HEAD}class Model(nn.Module):{body}\n\ndef get_inputs():\n    return [{inputs}]\n")


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("name", CASES)
def test_it_serves_other_lengths(name: str, bench: Callable[..., Bench]) -> None:
    made = write(of(bench, name), ANY)
    others, part = CASES[name][2:]
    assert f'getattr(inputs[0], "shape", ()){part}' in made.proposal.candidate.source
    for rows, length in ((2, 24), (3, 7), (5, 50), (3, 2)):
        given = others(rows, length)
        with torch.no_grad(), made.by_kernels():
            close(made.one.model(*given), made.new(*given))
    if any(one.is_floating_point() for one in given) or list(made.one.model.parameters()):
        with made.by_kernels():
            found = gradients(made.new, given)
        for expected, other in zip(gradients(made.one.model, given), found, strict=True):
            torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.ci
def test_all_else_runs_the_original(bench: Callable[..., Bench]) -> None:
    made = write(of(bench, "text"), ANY)
    ids = torch.randint(0, 100, (3, 24))
    others = {
        "more than there are places": torch.randint(0, 100, (3, 65)),
        "no text": ids[:, :0],
        "turned": ids.t().contiguous().t(),
        "a part": ids[:, :12],
        "every other": ids[:, ::2],
        "another type": ids.int(),
        "one more dimension": ids[None],
    }
    for ids in others.values():
        results: list[Any] = []
        for model in (made.one.model, made.new):
            try:
                with torch.no_grad(), made.by_kernels(False):
                    results.append(model(ids))
            except (RuntimeError, IndexError, ValueError) as error:
                results.append(str(error))
        close(*results)


def test_one_that_is_not_wanted_has_the_example_s(bench: Callable[..., Bench]) -> None:
    made = write(of(bench, "second input"), {"batch": True})
    given = CASES["second input"][2](4, 7)
    with torch.no_grad(), made.by_kernels(False):
        close(made.one.model(*given), made.new(*given))


def test_what_may_be_a_length() -> None:
    def found(*shapes: tuple[int, ...]) -> list[dict[str, int]]:
        given = [(f"x{place}", torch.empty(shape)) for place, shape in enumerate(shapes)]
        return [one.known for one in sizes.ways(given, ANY)]

    rows: dict[str, int] = {ROWS: 4}
    assert found((4, 30)) == [{**rows, LENGTH: 30}, rows, {}]
    assert found((4, 30, 64)) == [{**rows, LENGTH: 30}, {**rows, LENGTH: 64}, rows, {}]
    # Images come alone; the heads of an attention do not.
    assert found((4, 3, 32, 32)) == [rows, {}]
    assert found((4, 8, 30, 16), (4, 8, 30, 16)) == [{**rows, LENGTH: 30}, rows, {}]
    # Of two sizes that are equal nobody knows which is which.
    assert found((4, 4, 64)) == [{**rows, LENGTH: 64}, rows, {}]
    assert found((1, 30)) == [{LENGTH: 30}, {}]
    assert found((1, 1, 1)) == found(()) == [{}]
    assert len(found((4, 5, 6), (4, 7, 8))) == sizes.TRIED + 2
    assert [one.known for one in sizes.ways([("x", torch.empty(4, 30))], {**ANY, "backward": True})] == [{}]


@given(
    times=st.integers(1, 9),
    limits=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    table=st.integers(2, 12),
    rows=st.integers(1, 30),
    length=st.integers(1, 30),
)
def test_conditions_on_two_sizes_become_one(times: int, limits: list[int], table: int, rows: int, length: int) -> None:
    asks = [
        f"min({table}, length) == length",
        f"4 * min({table}, length) != 8",
        *(f"{times + place} * rows * length <= {limit}" for place, limit in enumerate(limits)),
        "length * rows <= 300",
        "(length == length or length == 1)",
        "rows == rows",
        "rows > 1",
    ]
    together = sizes._together(asks, [ROWS, LENGTH])
    given = {ROWS: rows, LENGTH: length}
    assert eval(together, given) == all(eval(one, given) for one in asks)
    assert "min(" not in together
    assert "==" not in together


def test_who_wants_any_length_asks_for_it() -> None:
    design = Design(recipes.STRATEGY, ())
    assert not recipes.Switches().recipe(design)["length"]
    assert recipes.Switches(any_length=True).recipe(design)["length"]
    own = recipes.Switch("mine", "on", "Mine", "", rewrites="mine", source="pass", text="Mine.")
    assert not recipes.Switches((own,), any_length=True).recipe(design)["length"]


def test_a_graph_holds_the_example_s_sizes_alone() -> None:
    given = [{"expression": "x", "shape": [4, 8, 30, 16], "stride": [3840, 480, 16, 1]}]
    made = {"changes": [], "sizes": {"known": {ROWS: 4, LENGTH: 30}, "dims": {ROWS: 0, LENGTH: 2}}}
    captured = "\n".join(graphs.methods(given, None, made))
    assert "if tensors[0].shape[:3:2] != (4, 30) or torch" in captured
    assert reader.open_part({}) == ""
    assert "shape" not in "\n".join(graphs.methods(given, None, {"changes": []}))
