"""Backward by the kernels that torch.compile writes, where a module is optimized in training mode."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Mode, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.evaluation.judge import open_judge
from stark_lsp.integrity import read
from stark_lsp.judge.analysis import NotTraceable, inductor
from stark_lsp.judge.reference import modules
from stark_lsp.playbook.handwritten import written
from stark_lsp.playbook.inductor.emit import emit
from stark_lsp.playbook.inductor.proposal import PLAIN, Recipes, facts
from stark_lsp.playbook.inductor.reader import CannotEmit
from stark_lsp.playbook.inductor.recipes import SWITCHES, Switches

from .conftest import Bench, close
from .playbook_cases import HEAD
from .test_inductor_autocast import all_near
from .written import STEP, Written, gradients, trained, write

pytestmark = [pytest.mark.usefixtures("several_threads"), pytest.mark.slow]

MODULE = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {{init}}

    def forward(self, {{arguments}}):
        {{forward}}


def get_inputs():
    return [{{inputs}}]
"""
CASES = {
    "layers": (
        "self.a, self.n, self.b = nn.Linear(64, 48), nn.LayerNorm(48), nn.Linear(48, 64)",
        "x",
        "return x + self.b(F.gelu(self.n(self.a(x))))",
        "torch.randn(32, 64)",
    ),
    "images": (
        "self.g, self.b = nn.GroupNorm(4, 16), nn.BatchNorm2d(8)\n        "
        "self.c = nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False)",
        "x",
        "return F.max_pool2d(F.silu(self.b(self.c(self.g(x)))), 2)",
        "torch.randn(2, 16, 8, 8)",
    ),
    "tokens": (
        "self.e, self.h = nn.Embedding(50, 32), nn.Linear(32, 50)",
        "i, t",
        "y = self.h(self.e(i))\n        return F.cross_entropy(y.flatten(0, 1), t.flatten()), y",
        "torch.randint(50, (4, 8)), torch.randint(50, (4, 8))",
    ),
    "dropped": (
        "self.a, self.b = nn.Linear(64, 48), nn.Linear(48, 64)",
        "x",
        "return x + F.dropout(self.b(F.dropout(torch.tanh(self.a(x)), 0.2)), 0.4)",
        "torch.randn(32, 64)",
    ),
    "bags": (  # whose places are taken twice
        "self.a, self.b = nn.EmbeddingBag(50, 16, mode='sum'), nn.EmbeddingBag(50, 16, mode='sum')",
        "i",
        "return torch.tanh(self.a(i)) * self.b(i)",
        "torch.randint(50, (8, 4))",
    ),
    "numbers": (
        "self.a = nn.Linear(64, 48)",
        "x",
        "y = self.a(x) * torch.tensor([0.9 ** j for j in range(48)], device=x.device)\n        "
        "return torch.tanh(y[:, torch.tensor([j for j in range(12) for _ in range(j)], device=x.device)])",
        "torch.randn(32, 64)",
    ),
    "twice": (
        "self.a = nn.Linear(64, 64)\n        self.b = nn.Linear(64, 64)\n        self.b.weight = self.a.weight",
        "x",
        "return self.b(torch.tanh(self.a(x)))",
        "torch.randn(32, 64)",
    ),
}
"""What is constructed, arguments, forward, inputs."""


def text_of(name: str) -> str:
    init, arguments, forward, inputs = CASES[name]
    return MODULE.format(init=init, arguments=arguments, forward=forward, inputs=inputs)


def agree(made: Written, inputs: list[Any]) -> None:
    expected = gradients(copy.deepcopy(made.one.model), inputs)
    for one, other in zip(expected, gradients(made.new, inputs), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.ci] if name in ("images", "numbers", "twice") else []) for name in CASES],
)
def test_its_gradients_are_those_of_the_module(name: str, bench: Callable[..., Bench]) -> None:
    made = trained(bench(text_of(name)))
    state = copy.deepcopy(made.new.state_dict())
    with made.by_kernels(), made.by_kernels(method="_backward"):
        agree(made, made.one.inputs)
    made.one.model(*made.one.inputs)
    close(dict(made.one.model.named_buffers()), dict(made.new.named_buffers()))
    made.new.load_state_dict(state)


CODES = """y = self.a(x)
        at = (y @ self.book.t()).argmax(1)
        kept = self.book[at]{}
        return y * kept, at, (y - kept).square().mean()"""


def coded(bench: Callable[..., Bench], more: str = "") -> Bench:
    init = "self.a = nn.Linear(64, 48)\n        self.register_buffer('book', torch.randn(9, 48))"
    body = CODES.format(more)
    one = bench(MODULE.format(init=init, arguments="x", forward=body, inputs="torch.randn(32, 64)"))
    one.model.train()
    return one


def follows(made: Written, places: Sequence[int]) -> None:
    """Assert that gradients of some of the results are the module's, after calls that change its state."""
    found = []
    for model in (made.one.model, made.new):
        results = model(*made.one.inputs)
        total = sum(results[place].square().sum() for place in places)
        found.append(torch.autograd.grad(total, [model.a.weight, model.a.bias]))
    all_near(*map(list, found))


def test_an_integer_among_the_results_needs_no_gradient(bench: Callable[..., Bench]) -> None:
    made = trained(coded(bench))
    with made.by_kernels(method="_backward"):
        follows(made, (0, 2))
    with made.by_kernels(False, "_backward"):
        follows(made, (2,))


def test_a_buffer_that_backward_reads_is_as_it_was_before_the_call(bench: Callable[..., Bench]) -> None:
    # The gradients of torch.compile are off by 44 % here.
    one = coded(bench, "\n        with torch.no_grad():\n            self.book.mul_(0.5).add_(y.mean(0))")
    with pytest.raises(CannotEmit, match="a buffer that the call changes"):
        trained(one)
    made = write(one)
    made.new.train()
    made.new.load_state_dict(one.model.state_dict())
    for places in ((0, 2), (2,), (0,)):
        with made.by_kernels():
            follows(made, places)


@pytest.mark.ci
@pytest.mark.parametrize("autocast", ["", "bfloat16"])
def test_both_programs_as_graphs(autocast: str, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever captures is a stand-in: the first call gives what a program gave while it was captured.
    for name in ("Stream", "Event", "CUDAGraph", "graph", "stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    one = bench(text_of("layers"))
    one.model.train()
    model = modules.used(copy.deepcopy(one.model), "", autocast, "cpu")
    program = inductor.program(model, tuple(one.inputs), {}, str(one.path), STEP) | {"autocast": autocast}
    candidate = emit(one.problem, program, replayed=True)
    source = candidate.source.replace("class _StarkForm", f"{written('graph')}\n\nclass _StarkForm", 1)
    new = one.build(replace(candidate, source=f"import _thread\nimport weakref\n{source}"))
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(autocast)):
        expected, found = (gradients(each, one.inputs) for each in (one.model, new))
        first = new(one.inputs[0].clone().requires_grad_())
        new(one.inputs[0])
    all_near(expected, found)
    # Another call came between.
    first.float().sum().backward()
    assert new.n.weight.grad is not None


@pytest.mark.ci
@pytest.mark.parametrize("recipe", [None, STEP], ids=["form", "kernels"])
def test_buffers_may_change_before_backward(recipe: dict[str, Any] | None, bench: Callable[..., Bench]) -> None:
    # As where a discriminator is called on real and on made-up images; a form changes them while it is differentiated.
    one = bench(text_of("images"))
    one.model.train()
    made = write(one, recipe)
    for model in (one.model, made.new):
        total = sum(model(x * 2).square().mean() for x in one.inputs * 2)
        for _ in range(2):
            total.backward(retain_graph=True)
    for a, b in zip(one.model.parameters(), made.new.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.ci
def test_what_was_frozen_and_is_no_more_has_its_gradient(bench: Callable[..., Bench]) -> None:
    one = bench(text_of("layers"))
    one.model.b.requires_grad_(False)
    made = trained(one)
    made.new.b.requires_grad_(False)
    with made.by_kernels(method="_backward"):
        agree(made, one.inputs)
    for model in (one.model, made.new):
        model.b.requires_grad_(True)
    with made.by_kernels(False, "_backward"), made.by_kernels():
        agree(made, one.inputs)


def test_what_no_gradient_leads_back_from_may_stand_beside_the_loss(bench: Callable[..., Bench]) -> None:
    lines = (
        "y = torch.tanh(x * self.weight)",
        "loss = y.square().mean()",
        "with torch.no_grad():",
        "    best = y.amax(1)",
        'return {"log": loss.detach(), "loss": loss, "best": best, "twice": y.detach() * 2, "again": loss.detach()}',
    )
    init, body = "self.weight = nn.Parameter(torch.ones(8))", "\n        ".join(lines)
    made = trained(bench(MODULE.format(init=init, arguments="x", forward=body, inputs="torch.randn(8, 8)")))
    (x,), found = made.one.inputs, []
    with made.by_kernels(method="_backward"):
        for model in (made.one.model, made.new):
            results = model(x)
            assert {name for name, one in results.items() if one.requires_grad} == {"loss"}
            found.append((results["log"], results["best"], *torch.autograd.grad(results["loss"], [model.weight])))
    all_near(*map(list, found))


def test_where_nothing_leads_back_there_is_no_program(bench: Callable[..., Bench]) -> None:
    one = bench(MODULE.format(init="pass", arguments="x", forward="return x.detach() * 2", inputs="torch.randn(8, 8)"))
    with pytest.raises(NotTraceable, match="nothing that it returns leads back"):
        inductor.program(one.model, tuple(one.inputs), {}, str(one.path), STEP)


def test_what_drops_is_random_in_eval_mode_and_differentiates_twice_in_training(bench: Callable[..., Bench]) -> None:
    one = bench(text_of("dropped"))
    with pytest.raises(NotTraceable, match="it is random"):
        inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    made, found = trained(one), []
    for model in (one.model, made.new):
        torch.manual_seed(0)
        (slope,) = torch.autograd.grad(model(*one.inputs).square().sum(), model.a.weight, create_graph=True)
        # Others draw meanwhile: the form that is computed anew draws what the kernels drew.
        torch.rand(7)
        found.append(torch.autograd.grad(slope.square().sum(), model.b.weight)[0])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)
    told = replace(facts(made.proposal._made), device="cuda", steps=99)
    graph = next(one for one in SWITCHES if one.replayed and not one.plain)
    assert graph.serves(replace(told, draws=False), 0.1)
    assert not graph.serves(told, 0.1), "capturing draws too"


async def judged(one: Bench, cache: Path) -> Verdict:
    settings = EvaluationSettings(seeds=2, warmup=1, rounds=4, round_ms=2.0, profile=False)
    problem = replace(one.problem, mode=Mode.TRAINING)
    judge = await open_judge(
        problem, interpreter=sys.executable, settings=settings, cache_dir=cache, log=lambda line: None
    )
    try:
        await judge.prepare(lambda text: None)
        recipes = Recipes(problem, judge.written, "cpu", 0, Switches())
        candidate = (await recipes.get(PLAIN)).candidate
        assert "_StarkTrained" in candidate.source
        assert read(candidate.source, candidate.class_name, one.problem.text, one.problem.qualname).refusals == ()
        return await judge.evaluate(candidate)
    finally:
        await judge.close()


def test_the_judge_takes_it(bench: Callable[..., Bench], judge_cache: Path) -> None:
    verdict = asyncio.run(judged(bench(text_of("images")), judge_cache))
    assert verdict.status is VerdictStatus.OK, f"{verdict.message}\n{verdict.log}"
