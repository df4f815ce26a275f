"""Settings that no call reads, such as the number of a layer: kernels run whatever they are, and of no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from .conftest import Bench, close
from .written import write

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
    ],
)
def test_kernels_run_in_every_layer_and_follow_what_is_read(read: str, bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT.replace("READ", read)))
    (x,), kind = made.one.inputs, type(made.new)
    unasked = "vars(" not in read
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
