"""Settings that no call reads, such as the number of a layer: kernels run whatever they are, and of no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from .conftest import Bench, close
from .written import gradients, trained, write

pytestmark = [pytest.mark.usefixtures("several_threads", "_said"), pytest.mark.slow, pytest.mark.ci]

TEXT = """import functools

import torch
import torch.nn as nn


def scaled(module, x):
    return x * module.factor


class Part(nn.Module):
    def __init__(self, layer_idx, factor):
        super().__init__()
        self.layer_idx, self.factor, self.name = layer_idx, factor, f"part {layer_idx}"
        self.linear = nn.Linear(32, 32)
        self.shared = type(self).shared = factor

    @functools.lru_cache
    def remembered(self):
        return self.factor

    def extra_repr(self):
        return self.name

    def forward(self, x):
        y = torch.tanh(self.linear(x)) * 2
        READ


class Model(nn.Module):
    def __init__(self, layer_idx=0, factor=1.5):
        super().__init__()
        self.layer_idx = layer_idx
        self.part = Part(layer_idx, factor)

    def forward(self, x):
        return self.part(x).cumsum(0)


def get_inputs():
    return [torch.randn(16, 32)]
"""


@pytest.mark.parametrize(
    "read",
    [
        "return scaled(self, y)",
        'return y * getattr(self, "fac" + "tor")',
        'return y * vars(self)["factor"]',
        "return y * self.remembered()",
        'return y * super().__getattribute__("factor")',
        'return y * self.__getstate__()["factor"]',
        "return y * type(self).shared",
    ],
)
def test_kernels_run_in_every_layer_and_follow_what_is_read(read: str, bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT.replace("READ", read)))
    (x,), kind = made.one.inputs, type(made.new)
    unasked = not any(one in read for one in ("vars(", "__get"))
    for layer, factor in ((0, 1.5), (7, 1.5), (0, 2.5)):
        old, new = made.one.module.Model(layer, factor).eval(), kind(layer, factor).eval()
        new.load_state_dict(old.state_dict())
        made.new = new
        with torch.no_grad(), made.by_kernels(factor == 1.5 and (layer == 0 or unasked)):
            close(old(x), new(x))
        close(old(x), new(x))


def test_what_calls_set_is_no_setting_that_they_leave_alone(bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT.replace("READ", "self.layer_idx = len(x)\n        return y")))
    new = type(made.new)().eval()
    new(*made.one.inputs)
    assert new.part.layer_idx == 16


def test_what_backward_alone_reads_is_asked_for(bench: Callable[..., Bench]) -> None:
    read = "if y.requires_grad:\n            y.register_hook(lambda slope: slope * self.factor)\n        return y"
    made = trained(bench(TEXT.replace("READ", read)))
    for factor in (1.5, 2.5):
        old, new = made.one.module.Model(0, factor), type(made.new)(0, factor)
        new.load_state_dict(old.state_dict())
        for one, other in zip(gradients(old, made.one.inputs), gradients(new, made.one.inputs), strict=True):
            close(one, other)


def test_a_part_may_compare_itself(bench: Callable[..., Bench]) -> None:
    compare = "    def __eq__(self, other):\n        return self.factor == other.factor\n\n"
    compare += "    __hash__ = nn.Module.__hash__\n"
    made = write(
        bench(TEXT.replace("READ", "return y").replace("    def extra_repr", f"{compare}\n    def extra_repr"))
    )
    with torch.no_grad(), made.by_kernels():
        made.new(*made.one.inputs)
