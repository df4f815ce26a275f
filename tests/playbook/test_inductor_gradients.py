"""Gradients of as-compiled candidates where a weight is reached on two ways, or is not the module's any more."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from .conftest import Bench, close
from .playbook_cases import HEAD
from .written import STEP, write

pytestmark = [pytest.mark.usefixtures("several_threads", "_said"), pytest.mark.slow, pytest.mark.ci]

TEXT = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(32), nn.Linear(32, 32)
        self.register_buffer("scale", torch.rand(32) + 0.5)

    def forward(self, x):
        return x + torch.tanh(self.inner(self.norm(x)) * self.scale)


def get_inputs():
    return [torch.randn(8, 32)]
"""
Module = torch.nn.Module


def loss(out: Tensor) -> Tensor:
    return (out * torch.linspace(0, 1, out.numel()).view(out.shape)).sum()


def twice(m: Module, x: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss(m(m(x))), list(m.parameters())))


def from_a_weight(m: Module, x: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss(m(x + m.inner.bias)), list(m.parameters())))


def of_gradients(m: Module, x: Tensor) -> list[Tensor]:
    weights = list(m.parameters())
    first = torch.autograd.grad(loss(m(m(x))), weights, create_graph=True)
    return [*first, *torch.autograd.grad(sum(one.square().sum() for one in first), weights)]


def of_others(m: Module, x: Tensor) -> list[Tensor]:
    others = {name: torch.nn.Parameter(p.detach() * 2) for name, p in m.named_parameters()}
    return list(torch.autograd.grad(loss(functional_call(m, others, x)), list(others.values())))


def beside_frozen_others(m: Module, x: Tensor) -> list[Tensor]:
    others = {name: one.detach() * 2 for name, one in m.state_dict().items()}
    y = x.clone().requires_grad_()
    return list(torch.autograd.grad(loss(functional_call(m, others, y)), [y]))


def after_others_were_put_in(m: Module, x: Tensor) -> list[Tensor]:
    out, weights = m(x), list(m.parameters())
    m.load_state_dict({name: one * 3 for name, one in m.state_dict().items()}, assign=True)
    return list(torch.autograd.grad(loss(out), weights))


def after_a_buffer_was(m: Module, x: Tensor) -> list[Tensor]:
    out = m(x)
    m.scale = m.scale * 0
    return list(torch.autograd.grad(loss(out), list(m.parameters())))


def with_hooks(m: Module, x: Tensor) -> list[Tensor]:
    y = torch.nn.Parameter(x.clone())
    y.register_hook(lambda g: g * 2)
    out = m(y)
    m.inner.weight.register_hook(lambda g: g * 3)
    loss(out).backward()
    assert y.grad is not None
    return [y.grad, m.inner.weight.grad]


def under_autocast(m: Module, x: Tensor) -> list[Tensor]:
    out = loss(m(x))
    with torch.autocast("cpu", torch.bfloat16):
        return list(torch.autograd.grad(out, list(m.parameters())))


def frozen_before(m: Module, x: Tensor) -> list[Tensor]:
    out = m(x)
    m.requires_grad_(False)
    loss(out).backward()
    return [one for one in (p.grad for p in m.parameters()) if one is not None]


def of_one_in_two_places(m: Module, x: Tensor) -> list[Tensor]:
    m.inner.bias = m.norm.bias
    return list(torch.autograd.grad(loss(m(x)), list(m.parameters())))


def of_gradients_of_one_in_two_places(m: Module, x: Tensor) -> list[Tensor]:
    m.inner.bias = m.norm.bias
    return of_gradients(m, x)


@pytest.mark.parametrize("recipe", [None, STEP], ids=["form", "kernels"])
def test_they_are_the_originals(recipe: dict[str, object] | None, bench: Callable[..., Bench]) -> None:
    one = bench(TEXT, train=recipe is not None)
    made = write(one, recipe)
    (x,) = one.inputs
    ways = (
        twice, from_a_weight, of_gradients, of_others, beside_frozen_others, after_others_were_put_in,
        after_a_buffer_was, with_hooks, frozen_before, of_one_in_two_places, of_gradients_of_one_in_two_places,
    )  # fmt: skip
    # A program for backward stays in float32 there, where PyTorch's own products do not.
    for way in (*ways, *([] if recipe else [under_autocast])):
        old, new = copy.deepcopy(one.model), copy.deepcopy(made.new)
        with made.by_kernels():
            close(way(old, x), way(new, x))


class Scaled(Tensor):
    """A weight that means more than its numbers, as quantized ones do."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        given = [x.as_subclass(Tensor) * 2 if isinstance(x, cls) else x for x in args]
        return func(*given, **(kwargs or {}))


def test_a_weight_of_another_kind_is_not_read_as_if_it_were_none(bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT))
    (x,) = made.one.inputs
    for model in (made.one.model, made.new):
        model(x)
        model.inner._parameters["weight"] = model.inner.weight.data.as_subclass(Scaled)
    with made.by_kernels(False), torch.no_grad():
        close(made.one.model(x), made.new(x))


def test_a_shallow_copy_looks_for_itself(bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT))
    (x,) = made.one.inputs
    pair = []
    for model in (made.one.model, made.new):
        model(x)
        copied = copy.copy(model)
        copied._modules = {**model._modules, "norm": torch.nn.Identity()}
        pair.append(copied)
    with made.by_kernels(False):
        close(pair[0](x), pair[1](x))


def test_threads_may_train_one_module(bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT))
    xs = [torch.randn(8, 32) for _ in range(40)]

    def one(m: Module, x: Tensor) -> list[Tensor]:
        y = x.clone().requires_grad_()
        return list(torch.autograd.grad(loss(m(y)), [y, *m.parameters()]))

    expected = [one(made.one.model, x) for x in xs]
    with made.by_kernels(), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: one(made.new, x), xs))
    close(expected, found)
