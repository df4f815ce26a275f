"""Kernels that serve other lengths than the example's, where that is wanted, and nothing they were not written for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.verdict import Interval
from stark_lsp.judge.analysis import conditions, inductor, sizes
from stark_lsp.judge.analysis.conditions import LENGTH, ROWS
from stark_lsp.judge.analysis.rewrites import slim
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor import graphs, reader, recipes
from stark_lsp.playbook.inductor.proposal import AsCompiled

from .conftest import REFERENCE, Bench, close
from .playbook_cases import HEAD
from .written import STEP, Written, gradients, trained, write

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
DROPPED = """
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(32, 32)

    def forward(self, x):
        return torch.tanh(self.l(x.squeeze(0))).mean(0)
"""
FIRST = """
    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(16, 32, 5, padding=2)

    def forward(self, x):
        return torch.tanh(self.c(x.squeeze(0)))
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
        lambda b, t: [torch.randint(0, 50, (b, t)), torch.rand(b, t) < 0.7],
        "[:2]",
    ),
    "one text": (LANGUAGE, "torch.randint(0, 100, (1, 24))", lambda b, t: [torch.randint(0, 100, (b, t))], "[:2]"),
    "one signal that drops its dimension": (
        FIRST,
        "torch.randn(1, 16, 100)",
        lambda b, t: [torch.randn(1, 16, t)],
        "[2:3]",
    ),
    "one that drops its dimension": (
        DROPPED,
        "torch.randn(1, 24, 32)",
        lambda b, t: [torch.randn(1, t, 32)],
        "[1:2]",
    ),
    "channels first": (SIGNAL, "torch.randn(3, 16, 100)", lambda b, t: [torch.randn(b, 16, t)], "[:3:2]"),
    "heads and a mask of as many dimensions": (
        HEADS,
        "*(torch.randn(2, 4, 24, 16) for _ in range(3)), torch.randn(2, 1, 24, 24)",
        lambda b, t: [*heads(b, t)[:3], torch.randn(b, 1, t, t)],
        "[:3:2]",
    ),
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
    for rows, length in ((2, 24), (3, 7), (5, 50), (3, 2), (1, 9)):
        given = others(rows, length)
        with torch.no_grad(), made.by_kernels():
            close(made.one.model(*given), made.new(*given))
    if any(one.is_floating_point() for one in given) or list(made.one.model.parameters()):
        with made.by_kernels():
            found = gradients(made.new, given)
        for expected, other in zip(gradients(made.one.model, given), found, strict=True):
            torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


TRAINED: dict[str, tuple[str, str, Callable[[int, int], list[Any]], list[tuple[int, int]]]] = {
    "a text and its loss": (
        LANGUAGE.replace("ids):", "ids, wanted):").replace(
            "return self.out((w @ v).transpose(1, 2).reshape(B, T, C) + x)",
            "y = self.out((w @ v).transpose(1, 2).reshape(B, T, C) + x)\n"
            "        return y, F.cross_entropy(y.flatten(0, 1), wanted.flatten())",
        ),
        "torch.randint(0, 100, (3, 24)), torch.randint(0, 100, (3, 24))",
        lambda b, t: [torch.randint(0, 100, (b, t)), torch.randint(0, 100, (b, t))],
        [(2, 24), (3, 7), (5, 64), (3, 24)],
    ),
    "second input": (*CASES["second input"][:3], [(2, 5), (3, 7), (7, 9), (6, 5)]),
    # Sizes of one are left out for it; and a weight is called as what flows in.
    "without the first": (
        """
    def __init__(self):
        super().__init__()
        self.l, self.gradient0 = nn.Linear(16, 16), nn.Parameter(torch.rand(16))

    def forward(self, x):
        y = torch.tanh(self.l(x))[:, 1:] * self.gradient0
        return y if x.shape[0] == 1 else 2 * y
""",
        "torch.randn(4, 12, 16)",
        lambda b, t: [torch.randn(b, t, 16)],
        [(2, 12), (4, 20), (3, 7), (4, 12)],
    ),
    # The length is the number of features, so that the batch alone is any.
    "rows and statistics": (
        """
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(30, 64), nn.BatchNorm1d(64), nn.Linear(64, 10)

    def forward(self, x):
        return F.log_softmax(self.b(F.relu(self.n(self.a(x)))), -1)
""",
        "torch.randn(16, 30)",
        lambda b, _: [torch.randn(b, 30)],
        [(2, 0), (5, 0), (40, 0), (16, 0)],
    ),
}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("name", TRAINED)
def test_it_trains_at_other_sizes(name: str, bench: Callable[..., Bench]) -> None:
    body, inputs, others, every = TRAINED[name]
    one = bench(f"{HEAD}class Model(nn.Module):{body}\n\ndef get_inputs():\n    return [{inputs}]\n")
    made = trained(one, {**ANY, **STEP})
    assert "min(64, length)" not in made.proposal.candidate.source
    for x in [others(rows, length) for rows, length in every]:
        with made.by_kernels(method="_backward"):
            found = gradients(made.new, x)
        for expected, other in zip(gradients(one.model, x), found, strict=True):
            torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-4)
    close(dict(one.model.named_buffers()), dict(made.new.named_buffers()))
    if name == "without the first":
        x = others(1, 12)
        with made.by_kernels(False):
            close(one.model(*x), made.new(*x))


@pytest.mark.parametrize("size", ["x.shape[1]", "float(x.shape[1])", "x.shape[1] > 7"])
@pytest.mark.parametrize("write", [write, trained], ids=["eval", "training"])
def test_a_size_that_is_returned_is_known(
    size: str, write: Callable[..., Written], bench: Callable[..., Bench]
) -> None:
    body = f"    def forward(self, x):\n        return torch.tanh(x) * x, {size}\n"
    one = bench(f"{HEAD}class Model(nn.Module):\n{body}\n\ndef get_inputs():\n    return [torch.randn(4, 12)]\n")
    made = write(one, {**ANY, **(STEP if write is trained else {})})
    for x in (torch.randn(4, 12), torch.randn(4, 7)):
        with made.by_kernels(x.shape[1] == 12):
            close(one.model(x), made.new(x))


@pytest.mark.parametrize("part", ["y[:, :12]", "y[:, -12:]", "y[:4]"])
def test_results_are_one_at_the_example_s_sizes_alone(part: str, bench: Callable[..., Bench]) -> None:
    body = f"    def forward(self, x):\n        y = torch.tanh(x) * x\n        return y, {part}\n"
    one = bench(f"{HEAD}class Model(nn.Module):\n{body}\n\ndef get_inputs():\n    return [torch.randn(4, 12)]\n")
    made = write(one, ANY)
    for x in (torch.randn(4, 12), torch.randn(5, 12), torch.randn(4, 15)):
        close(one.model(x), made.new(x))


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


def on_a_gpu(
    bench: Callable[..., Bench], body: str, inputs: str, kernels: tuple[tuple[str, str], ...], *, training: bool = False
) -> Written:
    """Return a candidate for any length beside its original, both on a GPU."""
    one = bench(f"{HEAD}class Model(nn.Module):{body}\n\ndef get_inputs():\n    return [{inputs}]\n")
    one.model.cuda().train(training)
    one.inputs[:] = [x.cuda() for x in one.inputs]
    design = Design(recipes.STRATEGY, kernels)
    recipe = {**recipes.Switches(any_length=True).recipe(design), **(STEP if training else {})}
    made = json.loads(json.dumps(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), recipe)))
    proposal = AsCompiled(one.problem, made, design)
    new = one.build(proposal.candidate).cuda().train(training)
    new.load_state_dict(one.model.state_dict())
    return Written(one, proposal, new)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize(
    ("kernels", "items"),
    [
        ((), 4),
        ((), 1),
        ((("attention", "streamed"), ("products", "halves")), 4),
        ((("attention", "streamed"), ("products", "halves")), 1),
        ((("launch", "replayed"),), 4),
        ((("launch", "replayed"),), 1),
        ((("tuning", "search"),), 4),
    ],
    ids=lambda value: "+".join(label for _, label in value) or "as compiled" if isinstance(value, tuple) else None,
)
def test_it_serves_other_lengths_on_a_gpu(
    kernels: tuple[tuple[str, str], ...], items: int, bench: Callable[..., Bench]
) -> None:
    body = LANGUAGE.replace("C=48, H=4, L=64", "C=256, H=4, L=512")
    inputs = f"torch.randint(0, 100, ({items}, 200))"
    written = on_a_gpu(bench, body, inputs, kernels)
    one, new = written.one, written.new
    # A graph is captured at the first call of the example's sizes, and replayed at the others.
    example = items, 200
    for rows, length in (example, example, (2, 100), (1, 150), (5, 2), (3, 333), (4, 201), example):
        ids = torch.randint(0, 100, (rows, length), device="cuda")
        with torch.no_grad():
            result = new(ids)
            torch.testing.assert_close(result, one.model(ids), rtol=1e-3, atol=1e-4)
        if (rows, length) != example:
            with torch.no_grad(), written.by_kernels():
                new(ids)
    with torch.no_grad(), written.by_kernels(False), pytest.raises((IndexError, RuntimeError)):
        new(torch.randint(0, 100, (4, 513)))  # on the CPU: an index out of bounds would end the process


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("rows", [17, 64])
def test_products_with_few_rows_serve_others_on_a_gpu(rows: int, bench: Callable[..., Bench]) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3001, 2000), nn.Linear(2000, 1003, bias=False)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))
"""
    written = on_a_gpu(bench, body, f"torch.randn({rows}, 3001)", (("products", "halves"),))
    one, new = written.one, written.new
    for count in (rows, 1, 2, 16, 65, 300, 1024, 1025):
        x = torch.randn(count, 3001, device="cuda")
        with torch.no_grad(), written.by_kernels(slim.FEWEST <= count <= slim.MOST_OF_ANY):
            result = new(x)
        torch.testing.assert_close(result, one.model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("kernels", [(), (("launch", "replayed"),)], ids=["as compiled", "two graphs"])
def test_it_trains_at_other_sizes_on_a_gpu(kernels: tuple[tuple[str, str], ...], bench: Callable[..., Bench]) -> None:
    body = TRAINED["a text and its loss"][0].replace("C=48, H=4, L=64", "C=256, H=4, L=512")
    inputs = "torch.randint(0, 100, (4, 200)), torch.randint(0, 100, (4, 200))"
    written = on_a_gpu(bench, body, inputs, kernels, training=True)
    one, new = written.one, written.new
    assert "lambda rows=0, length=0:" in written.proposal.candidate.source
    for rows, length in ((4, 200), (4, 200), (2, 100), (5, 2), (3, 333), (4, 201), (8, 512), (4, 200)):
        given = [torch.randint(0, 100, (rows, length), device="cuda") for _ in range(2)]
        replayed = bool(kernels) and (rows, length) == (4, 200)
        with contextlib.nullcontext() if replayed else written.by_kernels(method="_backward"):
            found = gradients(new, given)
        for expected, other in zip(gradients(one.model, given), found, strict=True):
            torch.testing.assert_close(other, expected, rtol=2e-3, atol=2e-3 * float(expected.abs().max()))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("forward", "least"),
    [
        ("torch.tanh(x) * (10 % (x.shape[1] - 3))", (1, 4)),
        ("torch.tanh(x) * (1.0 / (x.shape[1] - 1)) / (1 / (x.shape[0] - 1))", (2, 2)),
        ("torch.tanh(x) * math.sqrt(x.shape[1] - 5)", (1, 6)),
        ("torch.tanh(x) / x.shape[1] + x.shape[1] ** -0.5 + (x.shape[1] + 3) // 2", (1, 1)),
        ("torch.tanh(x + self.places[: x.shape[1]]) * self.places[None, : x.shape[1]].cos()", (1, 1)),
    ],
    ids=["a remainder", "divisions", "a root", "none that raises", "places"],
)
def test_where_python_raises_kernels_do_not_run(
    forward: str, least: tuple[int, int], bench: Callable[..., Bench]
) -> None:
    init = (
        "    def __init__(self):\n        super().__init__()\n        self.places = nn.Parameter(torch.randn(40, 16))"
    )
    body = f"{init}\n\n    def forward(self, x):\n        return {forward}"
    inputs = "def get_inputs():\n    return [torch.randn(4, 12, 16)]\n"
    one = bench(f"import math\n{HEAD}class Model(nn.Module):\n{body}\n\n\n{inputs}")
    made = write(one, ANY)
    for rows, length in ((1, 12), (4, 1), (4, 3), (4, 5), (4, 12), (5, 40), (2, 41)):
        x, results = torch.randn(rows, length, 16), []
        kernels = rows >= least[0] and length >= least[1] and (length < 41 or "places" not in forward)
        for model in (made.one.model, made.new):
            with torch.no_grad(), made.by_kernels(kernels and model is made.new):
                try:
                    results.append(model(x))
                except (ArithmeticError, ValueError, RuntimeError) as error:
                    results.append(type(error))
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
    one: dict[str, int] = {ROWS: 1}
    assert found((1, 30)) == [{**one, LENGTH: 30}, {LENGTH: 30}, one, {}]
    assert found((1, 30, 8), (30, 30)) == [{**one, LENGTH: 30}, {**one, LENGTH: 8}, {LENGTH: 30}, {LENGTH: 8}, one, {}]
    # What comes before the batch may be one for all of it.
    assert found((1, 30), (4, 30, 8)) == found((1, 1, 30, 30), (4, 30, 8)) == [
        {**rows, LENGTH: 30}, {**rows, LENGTH: 8}, rows, {},
    ]  # fmt: skip
    assert found((1, 1, 1)) == [one, {}]
    assert found((1,), (4, 30), (1,)) == [{**rows, LENGTH: 30}, rows, {}]
    assert found(()) == [{}]
    assert len(found((4, 5, 6), (4, 7, 8))) == sizes.TRIED + 2
    # In training, and of a single item, nothing is left open for who does not want it.
    for shape, recipe in (((4, 30), {"batch": True, **STEP}), ((1, 8, 8, 8), {"batch": True})):
        x = [("x", torch.empty(shape))]
        assert [one.known for one in sizes.ways(x, recipe)] == [{}]
        assert sizes.wider(x, recipe)
        assert not sizes.wider(x, {**recipe, "length": True})
    assert not sizes.wider([("x", torch.empty(4, 8, 8, 8))], {"batch": True})


@given(
    times=st.integers(1, 9),
    limits=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    table=st.integers(2, 12),
    rows=st.integers(1, 30),
    length=st.integers(1, 30),
)
def test_conditions_on_two_sizes_become_one(times: int, limits: list[int], table: int, rows: int, length: int) -> None:
    asks = [
        f"length == min({table}, length)",
        f"4 * min({table}, length) != 8",
        *(f"{times + place} * rows * length <= {limit}" for place, limit in enumerate(limits)),
        "length * rows <= 300",
        "(length == length or length == 1)",
        "length < length * rows",
        "3 * rows * length > 7",
        f"{times} * ((6 + rows) // 7) <= {limits[0]}",
        f"{times} * ((4 + length * rows) // 5) <= {limits[0]}",
        "rows != -4",
        "rows == rows",
        "rows > 1",
    ]
    together = conditions.together(asks, [ROWS, LENGTH])
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


def test_it_is_tried_once_nothing_large_is_left() -> None:
    facts = recipes.Facts("cuda", True, False, 4, 6, rewrites=frozenset({"attention", "halves"}), lengths=True)
    switches, plain = recipes.Switches(), Design(recipes.STRATEGY, ())

    def names(design: Design, facts: recipes.Facts) -> list[list[str]]:
        return [[name for name, _ in one.kernels] for one in switches.following(design, facts, 20.0)]

    both = next(switches.following(plain, facts, 20.0))
    assert names(plain, facts)[0] == ["attention", "products"]
    assert names(plain, facts)[-1] == ["lengths"]
    assert names(both, facts)[0] == ["attention", "products", "lengths"]
    assert switches.recipe(next(switches.following(both, facts, 20.0)))["length"]
    for other in (replace(facts, lengths=False), replace(facts, training=True, lengths=False)):
        assert not any("lengths" in one for one in names(both, other))


def test_it_is_an_attempt_of_its_own_where_kernels_are_faster(bench: Callable[..., Bench]) -> None:
    one = of(bench, "second input")

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return inductor.program(one.model, tuple(one.inputs), {}, str(one.path), recipe)

    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=ask)
    plain = one.attempt()
    assert "lambda rows=0:" in plain.candidate.source
    child = one.attempt(plain)
    assert child.plan is not None
    assert child.plan.title == "Serve inputs of other sizes as well"
    assert "lambda rows=0, length=0:" in child.candidate.source
    with pytest.raises(NothingToPropose):
        one.plan(plain)
    assert plain.verdict is not None
    slower = replace(plain, verdict=replace(plain.verdict, speedup_vs_eager=Interval(0.9, 0.8, 1.0)))
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=ask)
    with pytest.raises(NothingToPropose):
        one.plan(slower)
    # Whoever has to have it gets it at once.
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=ask, any_length=True)
    one.nodes[1:] = []
    assert "lambda rows=0, length=0:" in one.attempt().candidate.source


def test_a_graph_holds_the_example_s_sizes_alone() -> None:
    given = [{"expression": "x", "shape": [4, 8, 30, 16], "stride": [3840, 480, 16, 1]}]
    made = {"changes": [], "sizes": {"known": {ROWS: 4, LENGTH: 30}, "dims": {ROWS: 0, LENGTH: 2}}}
    captured = "\n".join(graphs.methods(given, None, made))
    assert "if tensors[0].shape[:3:2] != (4, 30) or torch" in captured
    assert reader.open_part({}) == ""
    assert "shape" not in "\n".join(graphs.methods(given, None, {"changes": []}))
