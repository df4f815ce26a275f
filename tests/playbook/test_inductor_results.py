"""Results of as-compiled candidates: their classes, their gradients, and what a caller may do to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stark_lsp.judge.analysis import NotTraceable, inductor

from .conftest import Bench, close
from .playbook_cases import HEAD, Case, text_of
from .written import SCALED, STEP, gradients, trained, write

# Guards and rules that are rarely touched.
pytestmark = [pytest.mark.usefixtures("several_threads"), pytest.mark.slow, pytest.mark.ci]

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


LOOKED_UP = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)

    def forward(self, places, x):
        picked = torch.gather(x, 1, places)
        return torch.tanh(self.norm(self.table(places))) + picked.unsqueeze(-1), x[0, places[0]].exp()


def get_inputs():
    return [torch.randint(0, 50, (4, 24)), torch.randn(4, 50)]
"""


@pytest.mark.parametrize("step", [False, True])
def test_an_index_out_of_bounds_is_pytorchs_error(step: bool, bench: Callable[..., Bench]) -> None:
    one = bench(LOOKED_UP)
    made = trained(one) if step else write(one)
    places, x = one.inputs
    with made.by_kernels():
        close(one.model(places, x), made.new(places, x))
    bad = places.clone()
    bad[2, 3] = 50
    for model in (one.model, made.new):
        with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
            model(bad, x)
    with made.by_kernels():
        close(one.model(places, x), made.new(places, x))
