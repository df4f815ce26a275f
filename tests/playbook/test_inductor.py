"""What torch.compile writes, as a candidate: its results, its gradients, and where it hands over."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import copy
import functools
import json
import logging
import pickle
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Mode, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.evaluation.judge import open_judge
from stark_lsp.integrity import read
from stark_lsp.judge.analysis import NotTraceable, inductor
from stark_lsp.playbook.design import read_design
from stark_lsp.playbook.inductor import emit, guards, reader
from stark_lsp.playbook.inductor.proposal import PLAIN, AsCompiled, Recipes
from stark_lsp.playbook.inductor.reader import CannotEmit
from stark_lsp.playbook.inductor.recipes import STRATEGY, Switches

from .conftest import Bench, close
from .playbook_cases import BY_NAME, HEAD, Case, text_of

pytestmark = pytest.mark.usefixtures("several_threads")

TRIED = ("transformer_block", "keyword_and_default")
"""Of those that `playbook_cases` has; each kind of step and result once. All of them were tried by hand."""
LONG = "conv_batch_norm"
"""As well, but it takes 20 s."""
SCALED = f"""{HEAD}class Scaled(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(96) + 0.5)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Model(nn.Module):
    def __init__(self, eps=1e-3):
        super().__init__()
        self.norm = Scaled(eps)

    def forward(self, x):
        return torch.tanh(self.norm(x)).cumsum(0)


def get_inputs():
    return [torch.randn(32, 96)]
"""


RING = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.out = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("kept", torch.zeros(40, 16))
        self.register_buffer("cursor", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x):
        y = self.project(x)
        slot = (self.cursor + torch.arange(8, device=x.device)) % 40
        with torch.no_grad():
            self.kept.index_copy_(0, slot, y.detach())
            self.cursor += 8
        return self.out(torch.tanh(y @ self.kept.t()).softmax(-1) @ self.kept)


def get_inputs():
    return [torch.randn(8, 16)]
"""


STEP = {"backward": True}
"""The recipe for backward as well, see `test_inductor_step.py`."""


@dataclass
class Written:
    """A candidate beside its original."""

    one: Bench
    proposal: AsCompiled
    new: torch.nn.Module

    @contextlib.contextmanager
    def by_kernels(self, wanted: bool = True, method: str = "_compiled") -> Iterator[None]:
        """Assert that kernels ran in the block, or that they did not."""
        calls: list[int] = []
        kind = type(self.new)
        run = getattr(kind, method)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, method, staticmethod(lambda *given: calls.append(1) or run(*given)))
            yield
        assert bool(calls) is wanted


def write(one: Bench, recipe: dict[str, Any] | None = None) -> Written:
    """Write the candidate of a module."""
    made = json.loads(json.dumps(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), recipe)))
    proposal = AsCompiled(one.problem, made)
    return Written(one, proposal, one.build(proposal.candidate))


def trained(one: Bench) -> Written:
    """Write the candidate of a module in training mode."""
    one.model.train()
    made = write(one, STEP)
    made.new.train()
    made.new.load_state_dict(one.model.state_dict())
    return made


def answering(made: dict[str, Any]) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    """Return what stands in for the judge: it gives one program, whatever the recipe."""

    async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
        return made

    return ask


def gradients(model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    """Return the gradients of a model's inputs and parameters."""
    leaves = [x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    torch.manual_seed(0)  # of what drops
    results = model(*leaves)
    tensors = results.values() if isinstance(results, dict) else [results] if torch.is_tensor(results) else results
    wanted = [x for x in (*leaves, *model.parameters()) if torch.is_tensor(x) and x.requires_grad]
    weighted = [
        (x * torch.linspace(0, 1, x.numel(), device=x.device).view(x.shape)).sum()
        for x in tensors
        if torch.is_tensor(x)
    ]
    return list(torch.autograd.grad(sum(weighted), wanted))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "dictionary_result",
        *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.ci]) for name in TRIED),
        pytest.param(LONG, marks=pytest.mark.slow),
    ],
)
def test_it_computes_what_the_module_computes(name: str, bench: Callable[..., Bench]) -> None:
    made = write(bench(text_of(BY_NAME[name])))
    with torch.no_grad(), made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    with made.by_kernels():
        found = gradients(made.new, made.one.inputs)
    for expected, other in zip(gradients(made.one.model, made.one.inputs), found, strict=True):
        torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(params=["by name", "by digest"])
def _said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the parts of a module said by name, as in a small one, and by a digest, as in a large one."""
    if request.param == "by digest":
        monkeypatch.setattr(guards, "FEW", 0)


@pytest.mark.usefixtures("_said")
def test_it_hands_over_wherever_it_was_not_made_for(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,) = made.one.inputs
    new = made.new
    for other in (x[:7], x.double(), torch.randn(96, 32).t()):
        pair = [copy.deepcopy(model).to(other.dtype) for model in (made.one.model, new)]
        with made.by_kernels(False), torch.no_grad():
            close(pair[0](other), pair[1](other))
    with made.by_kernels(False), torch.autocast("cpu", torch.bfloat16):
        new(x)
    with made.by_kernels(False):
        torch.export.export(new, (x,))
    weights = {"norm.weight": torch.full((96,), 2.0, requires_grad=True)}
    with made.by_kernels(False):
        torch.func.functional_call(new, weights, (x,)).sum().backward()
    assert weights["norm.weight"].grad is not None


@pytest.mark.usefixtures("_said")
def test_whoever_watches_or_traces_sees_the_original(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,), new = made.one.inputs, made.new
    expected = made.one.model(x)
    with made.by_kernels(False):
        close(expected, torch.fx.symbolic_trace(new)(x))
        close(expected, make_fx(new)(x)(x))
        with FakeTensorMode(allow_non_fake_inputs=True):
            new(x)
        with FlopCounterMode(display=False):
            new(x)
        with pytest.raises(TypeError, match="'Parameter' and 'NoneType'"):
            new(None)
    with made.by_kernels(), torch.device("cpu"):
        new(x)


def test_gradients_of_what_autograd_cannot_keep(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.bias = nn.Parameter(torch.zeros(16))\n\n"
        "    def forward(self, x, scale: float = 1.5):\n        return (x + self.bias).tanh().cumsum(0) * scale\n"
    )
    one = bench(text_of(Case("frozen", code, "[torch.randn(8, 16)]")))
    with torch.inference_mode():
        features = one.inputs[0].clone()
    for made in (write(one), trained(one)):
        for model in (one.model, made.new):
            model.zero_grad()
            model(features).sum().backward()
        close(one.model.bias.grad, made.new.bias.grad)
        with torch.no_grad(), made.by_kernels():
            close(one.model(features), made.new(features))
        with made.by_kernels(False):
            close(one.model(features), torch.fx.symbolic_trace(made.new)(features, 1.5))


@pytest.mark.usefixtures("_said")
def test_a_module_that_was_changed_after_a_call_is_seen(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,) = made.one.inputs
    new = made.new
    with made.by_kernels():
        new(x)
    new.norm.eps = 0.5
    with made.by_kernels(False):
        changed = new(x)
    made.one.model.norm.eps = 0.5
    close(made.one.model(x), changed)
    new.norm.eps = 1e-3
    with made.by_kernels():
        new(x)
    new.double()
    with made.by_kernels(False):
        new(x.double())
    new.float()
    copied = copy.deepcopy(new)
    seen: list[int] = []
    hook = new.norm.register_forward_hook(lambda *given: seen.append(1))
    with made.by_kernels(False):
        new(x)
    assert seen
    hook.remove()
    with made.by_kernels():
        new(x)
        copied(x)
    copied.norm.eps = 0.5
    with made.by_kernels(False):
        close(made.one.model(x), copied(x))
    with made.by_kernels():
        pickle.loads(pickle.dumps(new))(x)
    inner = new.norm
    new.norm = torch.nn.Identity()
    new.norm.weight = inner.weight
    with made.by_kernels(False):
        close(torch.tanh(x).cumsum(0), new(x))
    # As an adapter is called after what it holds.
    new.norm = type("Scaled", (torch.nn.Identity,), {"eps": 1e-3, "weight": property(lambda self: inner.weight)})()
    with made.by_kernels(False):
        close(torch.tanh(x).cumsum(0), new(x))


@pytest.mark.usefixtures("_said")
def test_a_part_of_another_class_of_that_name_is_seen(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("= Scaled(eps)", "= nn.LayerNorm(96)")
    made = write(bench(text))
    (x,), new = made.one.inputs, made.new
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(x), new(x))
    plain = new.norm
    plain.forward = lambda x: x
    with made.by_kernels(False), torch.no_grad():
        close(torch.tanh(x).cumsum(0), new(x))
    del plain.forward
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(x), new(x))
    # As adapters are written.
    new.norm = type("LayerNorm", (torch.nn.LayerNorm,), {"forward": lambda self, x: x})(96)
    with made.by_kernels(False), torch.no_grad():
        close(torch.tanh(x).cumsum(0), new(x))


@pytest.mark.usefixtures("_said")
def test_gradients_are_as_before_under_checkpoints_and_hooks(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,), models = made.one.inputs, (made.one.model, made.new)

    def gradients(run: Callable[[torch.nn.Module], torch.Tensor]) -> None:
        for model in models:
            model.zero_grad()
            run(model).square().sum().backward()
        for old, new in zip(*(model.parameters() for model in models), strict=True):
            assert new.grad is not None
            torch.testing.assert_close(old.grad, new.grad, rtol=1e-4, atol=1e-4)

    with made.by_kernels():
        gradients(lambda model: checkpoint(model, x, use_reentrant=False))
    with torch.autograd.graph.save_on_cpu(), made.by_kernels():
        gradients(lambda model: model(x))
    for model in models:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: 2.0 * gradient)
    gradients(lambda model: model(x))
    with made.by_kernels(False):
        traced = torch.jit.trace(made.new, (x,), check_trace=False)
    close(made.one.model(2.0 * x), traced(2.0 * x))


def test_a_part_that_has_two_names_is_seen_at_each(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("= Scaled(eps)", "= self.last = Scaled(eps)").replace(
        "tanh(self.", "tanh(self.last(x) + self."
    )
    made = write(bench(text))
    (x,), new = made.one.inputs, made.new
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(x), new(x))
    new.last = torch.nn.Identity()
    with made.by_kernels(False), torch.no_grad():
        close(torch.tanh(x + new.norm(x)).cumsum(0), new(x))


@pytest.mark.usefixtures("_said")
def test_weights_that_are_one_may_be_untied(bench: Callable[..., Bench]) -> None:
    tied = "self.norm = Scaled(eps)\n        self.end = Scaled(eps)\n        self.end.weight = self.norm.weight"
    text = SCALED.replace("self.norm = Scaled(eps)", tied).replace(".cumsum(0)", "* self.end(x)")
    made = write(bench(text))
    (x,) = made.one.inputs
    with made.by_kernels():
        close(made.one.model(x), made.new(x))
    for model in (made.one.model, made.new):
        model.end.weight = torch.nn.Parameter(torch.linspace(0, 1, 96))
    with made.by_kernels(False):
        close(made.one.model(x), made.new(x))


GROWING = f"""{HEAD}class Model(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.scales = nn.ParameterList([torch.full([96], 0.5 + i / 8) for i in range(n)])
        self.shifts = nn.ParameterDict({{str(i): torch.full([96], i / 8) for i in range(n)}})
        self.first = nn.Parameter(torch.ones(96))
        self.last = self.first

    def forward(self, x):
        for scale in self.scales:
            x = torch.tanh(x * scale)
        for shift in self.shifts.values():
            x = torch.sigmoid(x + shift)
        return x * self.first + self.last


def get_inputs():
    return [torch.randn(16, 96)]
"""


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.scales.append(torch.full([96], 2.0)),
        lambda model: model.scales.append(2.0),
        lambda model: model.shifts.update({"more": torch.full([96], 2.0)}),
        lambda model: setattr(model, "last", torch.nn.Parameter(torch.zeros(96))),
    ],
    ids=["a parameter", "a number", "a key", "untied"],
)
def test_lists_of_parameters_may_grow(change: Callable[[Any], object], bench: Callable[..., Bench]) -> None:
    made = write(bench(GROWING))
    with made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    deeper = type(made.new)(4)
    for model in (made.one.model, made.new):
        change(model)
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    close(type(made.one.model)(4)(*made.one.inputs), deeper(*made.one.inputs))


PLAIN_TENSORS = f"""{HEAD}class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = torch.linspace(0.5, 2.0, 96)
        self.unused = torch.ones(3)

    def forward(self, x):
        return torch.tanh(x * self.slopes)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.out = Part(), nn.Linear(96, 32)
        self.places = torch.arange(96).flip(0)

    def forward(self, x):
        return self.out(self.part(x)[:, self.places])


def get_inputs():
    return [torch.randn(16, 96)]
"""


@pytest.mark.parametrize("recipe", [None, STEP], ids=["form", "kernels"])
@pytest.mark.usefixtures("_said")
def test_tensors_that_are_attributes_alone_are_read_anew(
    recipe: dict[str, Any] | None, bench: Callable[..., Bench]
) -> None:
    made = write(bench(PLAIN_TENSORS), recipe)
    made.new.load_state_dict(made.one.model.state_dict())
    changes: list[Callable[[Any], object]] = [
        lambda model: None,
        lambda model: model.part.slopes.mul_(0.5),
        lambda model: setattr(model, "places", torch.arange(96)),
    ]
    for change in changes:
        for model in (made.one.model, made.new):
            change(model)
        with made.by_kernels():
            agree = zip(*(gradients(model, made.one.inputs) for model in (made.one.model, made.new)), strict=True)
            assert all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in agree)
    for model in (made.one.model, made.new):
        model.part.slopes = torch.ones(96, dtype=torch.float64)
    with made.by_kernels(False), pytest.raises(RuntimeError, match="dtype"):
        made.new(*made.one.inputs)


@pytest.mark.usefixtures("_said")
def test_a_part_that_shares_a_weight_may_be_replaced(bench: Callable[..., Bench]) -> None:
    tied = "self.norm = Scaled(eps)\n        self.end = Scaled(eps)\n        self.end.weight = self.norm.weight"
    made = write(bench(SCALED.replace("self.norm = Scaled(eps)", tied).replace(".cumsum(0)", "* self.end(x)")))
    for model in (made.one.model, made.new):
        model.end = torch.nn.Identity()
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


@pytest.mark.usefixtures("_said")
def test_an_input_may_be_called_weights(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("x):\n        return torch.tanh(", "x, weights):\n        return weights * torch.tanh(")
    made = write(bench(text.replace("96)]\n", "96), torch.randn(96)]\n")))
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


@pytest.mark.usefixtures("_said")
def test_where_the_mode_matters_it_runs_in_eval_mode_only(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("torch.tanh(self.norm(x))", "F.dropout(torch.tanh(self.norm(x)), 0.5, self.training)")
    made = write(bench(text))
    with made.by_kernels():
        made.new(*made.one.inputs)
    made.new.train()
    with made.by_kernels(False):
        assert (made.new(*made.one.inputs).diff(dim=0) == 0).any()


@pytest.mark.slow
@pytest.mark.ci
def test_batch_norm_learns_in_training_as_it_does_in_pytorch(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("self.norm = Scaled(eps)", "self.norm = nn.BatchNorm1d(96)")
    one = bench(text)
    one.model.train()
    made = write(one)
    (x,) = one.inputs
    with made.by_kernels():
        for _ in range(2):
            found = gradients(made.new, [x])
            expected = gradients(one.model, [x])
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert int(made.new.norm.num_batches_tracked) == 2
    close(dict(one.model.state_dict()), dict(made.new.state_dict()))
    made.new.eval()
    with made.by_kernels(False):
        made.new(x)


NAMED = f"""{HEAD}import dataclasses
from typing import NamedTuple


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


@dataclasses.dataclass
class Output:
    pair: Pair
    total: torch.Tensor
    rest: object = None

    def __post_init__(self):
        self.rest = {{rest}}


class Model(nn.Module):
    def forward(self, x):
        y = torch.tanh(x) * 2 + 1
        return Output(Pair(y, 3), total=y.sum(1))


def get_inputs():
    return [torch.randn(8, 64)]
"""


def test_a_result_of_a_class_is_made_by_its_name(bench: Callable[..., Bench]) -> None:
    made = write(bench(NAMED.format(rest="self.rest")))
    (x,) = made.one.inputs
    with made.by_kernels():
        found, expected = made.new(x), made.one.model(x)
    assert (type(found).__name__, type(found.pair).__name__) == ("Output", "Pair")
    close((*expected.pair, expected.total), (*found.pair, found.total))
    made.new(x.requires_grad_()).total.sum().backward()
    assert x.grad is not None
    one = bench(NAMED.format(rest="[self.rest]"))
    with pytest.raises(NotTraceable, match="returns a Output"):
        inductor.program(one.model, tuple(one.inputs), {}, str(one.path))


@pytest.mark.parametrize("recipe", [None, STEP], ids=["form", "kernels"])
def test_a_result_may_be_changed_in_place(recipe: dict[str, Any] | None, bench: Callable[..., Bench]) -> None:
    # As by an nn.ReLU(inplace=True) behind it.
    text = SCALED.replace("self.norm = Scaled(eps)", "self.a = nn.Linear(96, 32)")
    text = text.replace("return torch.tanh(self.norm(x)).cumsum(0)", "return self.a(torch.tanh(x))")
    one = bench(text.replace("torch.randn(32, 96)", "torch.randn(4, 8, 96)"))
    one.model.train(recipe is not None)
    made = write(one, recipe)
    made.new.train(recipe is not None)
    slopes = []
    for model in (one.model, made.new):
        x = one.inputs[0].clone().requires_grad_()
        model(x).relu_().square().sum().backward()
        slopes.append([x.grad, model.a.weight.grad])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-4, atol=1e-4)


def test_what_no_gradient_leads_back_from_is_detached(bench: Callable[..., Bench]) -> None:
    # Else `.numpy()` of it would raise.
    text = SCALED.replace(".cumsum(0)", "").replace("return torch.tanh", "y = torch.tanh")
    text = text.replace(
        "y = torch.tanh(self.norm(x))", "y = torch.tanh(self.norm(x))\n        return y, y.detach() * 2, y > 0"
    )
    made = write(bench(text))
    (x,) = made.one.inputs
    with made.by_kernels():
        found = made.new(x)
    assert (
        [one.requires_grad for one in found] == [one.requires_grad for one in made.one.model(x)] == [True, False, False]
    )
    close(made.one.model(x), found)
    torch.testing.assert_close(gradients(made.new, [x]), gradients(made.one.model, [x]))


@pytest.mark.parametrize("recipe", [None, STEP], ids=["forward", "backward"])
def test_what_no_weight_reaches_requires_gradients_with_an_input_alone(
    recipe: dict[str, Any] | None, bench: Callable[..., Bench]
) -> None:
    text = SCALED.replace(".cumsum(0)", "").replace("return torch.tanh", "y = torch.tanh")
    text = text.replace("self.norm(x))", "self.norm(x)) * self.frozen\n        return y, x.exp() * 2, self.frozen + 1")
    text = text.replace(
        "self.norm = ", "self.frozen = nn.Parameter(torch.rand(96), requires_grad=False)\n        self.norm = "
    )
    one = bench(text)
    one.model.train(recipe is not None)
    made = write(one, recipe)
    made.new.train(recipe is not None)
    for given in (made.one.inputs[0], made.one.inputs[0].clone().requires_grad_()):
        with made.by_kernels():
            found = made.new(given)
        expected = made.one.model(given)
        assert [x.requires_grad for x in found[:2]] == [x.requires_grad for x in expected[:2]]
        close(expected, found)
    torch.testing.assert_close(gradients(made.new, [given]), gradients(made.one.model, [given]))
    for model in (made.one.model, made.new):
        model.frozen.requires_grad_()
    torch.testing.assert_close(gradients(made.new, [given]), gradients(made.one.model, [given]))


def test_gradients_come_of_what_buffers_held_before_the_call(bench: Callable[..., Bench]) -> None:
    # Backward by the form runs forward once more, when buffers have moved on.
    one = bench(RING)
    made = write(one)
    (x,) = one.inputs
    for _ in range(2):
        with made.by_kernels():
            torch.testing.assert_close(gradients(made.new, [x]), gradients(one.model, [x]), rtol=1e-4, atol=1e-6)
        close(dict(one.model.named_buffers()), dict(made.new.named_buffers()))


def test_weights_that_change_are_read_anew(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    (x,) = made.one.inputs
    made.new(x)
    with torch.no_grad():
        for model in (made.one.model, made.new):
            model.norm.weight.mul_(3)
        with made.by_kernels():
            close(made.one.model(x), made.new(x))


def test_its_plan_names_the_functions_and_the_users_lines(bench: Callable[..., Bench]) -> None:
    made = write(bench(SCALED))
    texts = [anchor.text for anchor in made.proposal.anchors()]
    assert len(texts) == 2
    assert "rsqrt" in texts[0]
    assert "cumsum" in texts[1]
    advice = made.proposal.advice(PromptLibrary())
    assert "`fused_" in advice
    assert "cumsum" in advice
    assert read_design(made.proposal.candidate.source).strategy == STRATEGY  # type: ignore[union-attr]
    assert "_inductor" not in made.proposal.candidate.source


def test_it_is_the_first_proposal_on_the_class_and_made_once(bench: Callable[..., Bench]) -> None:
    from stark_lsp.playbook.agents import PlaybookAgents

    from .conftest import REFERENCE

    one = bench(text_of(BY_NAME["silu_gate"]))
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, ask=answering(made))
    first = one.attempt()
    assert first.plan is not None
    assert first.plan.strategy == STRATEGY
    second = one.attempt()
    assert second.plan is not None
    assert second.plan.strategy != STRATEGY
    nothing = {"untraceable": {"message": "It is random"}}
    assert asyncio.run(PlaybookAgents(nothing, one.problem, REFERENCE, ask=answering(made)).reason()) == ""
    refused = PlaybookAgents(nothing, one.problem, REFERENCE, ask=answering({"none": "it calls numpy"}))
    assert "it calls numpy" in asyncio.run(refused.reason())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x += 1\n        return torch.tanh(x)", "in place"),
        ("self.calls += 1\n        return torch.tanh(x)", r"its settings \(self\.calls\)"),
        ("return torch.tanh(x) * torch.rand_like(x)", "random"),
        ("print(x.sum().item())\n        return torch.tanh(x)", "as a whole"),
        ("return x", "programs"),
    ],
)
def test_what_it_cannot_take_over_is_told(body: str, why: str, bench: Callable[..., Bench]) -> None:
    text = (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.calls = 0\n"
        f'        self.register_buffer("seen", torch.zeros(1))\n\n    def forward(self, x):\n        {body}\n\n\n'
        "def get_inputs():\n    return [torch.randn(8, 8)]\n"
    )
    with pytest.raises(NotTraceable, match=why):
        inductor.program(*((one := bench(text)).model, tuple(one.inputs), {}))


NUMBERS = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pairs = [(i, j) for i in range(11) for j in range(i)]

    def forward(self, x):
        first, second = (torch.tensor(one, device=x.device) for one in zip(*self.pairs))
        bounds = torch.tensor([float("-inf"), 0.5] * 8, device=x.device)
        numbers0 = torch.maximum(torch.tanh(x[:, :16]), bounds)
        return x[:, first] * x[:, second] + numbers0.sum(), first


def get_inputs():
    return [torch.randn(8, 64)]
"""


def test_tensors_made_of_numbers_are_made_once(bench: Callable[..., Bench]) -> None:
    made = write(bench(NUMBERS))
    for _ in range(2):
        with made.by_kernels(), torch.inference_mode():
            found = made.new(*made.one.inputs)
            close(made.one.model(*made.one.inputs), found)
            found[1].zero_()  # which is the caller's own
    with made.by_kernels():
        agree = zip(*(gradients(model, made.one.inputs) for model in (made.one.model, made.new)), strict=True)
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in agree)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with made.by_kernels(False):
            close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    finally:
        torch.set_default_dtype(usual)
    for model in (made.one.model, made.new):
        model.pairs[3] = (9, 9)
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


@pytest.mark.parametrize("held", ["list(range(65))", "set(range(20))", "__import__('numpy').arange(20)"])
def test_tensors_of_numbers_that_nobody_asks_for_are_refused(held: str, bench: Callable[..., Bench]) -> None:
    text = NUMBERS.replace("self.pairs = [", f"self.held = {held}\n        self.pairs = [")
    with pytest.raises(CannotEmit, match="a constant"):
        write(bench(text))


def test_a_class_that_logs_is_taken_as_a_whole(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    # As transformers has it.
    once = functools.cache(lambda self, *said: self.warning(*said))
    monkeypatch.setattr(logging.Logger, "warning_once", once, raising=False)
    text = SCALED.replace(
        "return torch.tanh(", "logger.warning_once('old'); warnings.warn('old')\n        return torch.tanh("
    )
    made = write(bench(f"import logging\nimport warnings\n\nlogger = logging.getLogger('model')\n{text}"))
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_an_infinite_argument_is_no_constant(bench: Callable[..., Bench]) -> None:
    old, new = (
        "x):\n        return torch.tanh(self.norm(x))",
        "x, most=math.inf):\n        return self.norm(x).clamp(max=most)",
    )
    one = bench(SCALED.replace(old, new))
    with pytest.raises(NotTraceable, match="most is inf"):
        inductor.program(one.model, tuple(one.inputs), {})


def test_vectors_that_pytorch_does_not_use_itself_are_not_written(bench: Callable[..., Bench]) -> None:
    one = bench(SCALED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "NO VEC")
        with pytest.raises(NotTraceable, match="where PyTorch's own kernels are for NO VEC"):
            inductor.program(one.model, tuple(one.inputs), {})


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["rfft(x)", "fft2(x)[..., :17]"])  # a copy in complex numbers comes before fft2
def test_what_is_made_on_a_device_is_made_where_the_inputs_are(transform: str, bench: Callable[..., Bench]) -> None:
    lines = (
        "class Model(nn.Module):\n    def forward(self, x):",
        f"f = torch.fft.{transform}",
        "out = torch.zeros_like(f)",
        "out[:, :4] = f[:, :4] * 2",
        "return torch.tanh(torch.fft.irfft(out)) + x",
    )
    made = write(bench(HEAD + "\n        ".join(lines) + "\n\n\ndef get_inputs():\n    return [torch.randn(8, 32)]\n"))
    with torch.no_grad(), made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_a_device_is_read_as_it_is_printed() -> None:
    statement = ast.parse("buf0 = f(2, device=device(type='cuda', index=0), other=device(type='cpu'))").body[0]
    assert "device=device, other=torch.device('cpu')" in ast.unparse(reader._Renamed({}).visit(statement))


def test_a_program_that_nobody_would_keep_is_refused(bench: Callable[..., Bench]) -> None:
    one = bench(SCALED)
    made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    made["code"] += "\n" * emit.MOST
    with pytest.raises(CannotEmit, match=r"has 1\.0 million characters"):
        AsCompiled(one.problem, made)


def test_a_kernel_in_another_language_is_refused_by_name() -> None:
    with pytest.raises(reader.CannotEmit, match="kernel_0 is written in metal"):
        reader.read("kernel_0 = async_compile.metal('k', '')\ndef call(self, args):\n    return (args,)\n")


def test_it_gives_what_a_training_script_may_ask_for(bench: Callable[..., Bench]) -> None:
    made = trained(bench(SCALED))
    (x,), new, old = made.one.inputs, made.new, made.one.model
    (parameter,), (other,) = new.parameters(), old.parameters()
    with made.by_kernels(method="_backward"):
        # A gradient with other strides, and the same graph twice.
        total = new(x).sum()
        total.backward(retain_graph=True)
        total.backward()
        (2 * old(x).sum()).backward()
        torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)
    with torch.no_grad(), made.by_kernels():
        close(old(x), new(x))
    with made.by_kernels(False, "_backward"), FlopCounterMode(display=False):
        new(x).sum().backward()
    watched = new(x).sum()
    with made.by_kernels(False, "_backward"), FlopCounterMode(display=False):
        watched.backward()
    (2 * old(x).sum()).backward()
    torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)
    with made.by_kernels(False, "_backward"):
        # A gradient of a gradient.
        (first,) = torch.autograd.grad(new(x).square().sum(), parameter, create_graph=True)
    (second,) = torch.autograd.grad(old(x).square().sum(), other, create_graph=True)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)
    for model in (old, new):
        model.zero_grad()
        checkpoint(model, x, use_reentrant=False).square().sum().backward()
    torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_it_is_asked_for_in_training_mode_and_where_it_fails_forward_alone(bench: Callable[..., Bench]) -> None:
    one = bench(SCALED)
    plain = inductor.program(one.model, tuple(one.inputs), {}, str(one.path))
    step = inductor.program(one.model, tuple(one.inputs), {}, str(one.path), STEP)
    asked: list[bool] = []

    def source(mode: Mode, given: dict[str, Any], told: str = "") -> str:
        async def ask(recipe: dict[str, Any]) -> dict[str, Any]:
            asked.append("backward" in recipe)
            return await answering(given if asked[-1] else plain)(recipe)

        recipes = Recipes(replace(one.problem, mode=mode), ask, "cpu", 0, Switches())
        made = asyncio.run(recipes.get(PLAIN)).candidate.source
        assert recipes.reason.strip() == told
        return made

    why = "What torch.compile writes for backward cannot be taken over: it is random."
    assert "_StarkTrained" in source(Mode.TRAINING, step)
    assert "_StarkTrained" not in source(Mode.TRAINING, {"none": "it is random"}, why)
    assert "_StarkTrained" not in source(Mode.EVAL, step)
    assert asked == [True, True, False, False]


async def judged(one: Bench, cache: Path) -> Verdict:
    """Write the candidate from what a judge gives, and have it judged."""
    settings = EvaluationSettings(seeds=2, warmup=1, rounds=4, round_ms=2.0, profile=False)
    judge = await open_judge(
        one.problem, interpreter=sys.executable, settings=settings, cache_dir=cache, log=lambda line: None
    )
    try:
        await judge.prepare(lambda text: None)
        made = await judge.written({})
        candidate = AsCompiled(one.problem, made).candidate
        # Nothing in it minds the mode, so that it is fast in a module that nobody put into eval mode as well.
        assert made["mode_matters"] is False
        assert read(candidate.source, candidate.class_name, one.problem.text, one.problem.qualname).refusals == ()
        return await judge.evaluate(candidate)
    finally:
        await judge.close()


# What its headers need is compiled ahead, which takes a quarter of a minute.
@pytest.mark.slow
def test_the_judge_gives_the_program_and_takes_the_candidate(bench: Callable[..., Bench], judge_cache: Path) -> None:
    verdict = asyncio.run(judged(bench(SCALED), judge_cache))
    assert verdict.status is VerdictStatus.OK, f"{verdict.message}\n{verdict.log}"
