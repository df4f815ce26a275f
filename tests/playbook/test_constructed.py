"""A class that is constructed with other arguments than it was judged with gives what the original gives then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from .conftest import Bench
from .written import write

pytestmark = pytest.mark.usefixtures("several_threads")

TEXT = """import enum
import functools
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


class Pool(enum.Enum):
    MEAN = 0
    MAX = 1


@dataclass
class Inner:
    by: float = 0.7
    pool: Pool = Pool.MEAN


@dataclass(frozen=True)
class Config:
    inner: Inner = field(default_factory=Inner)
    more: dict = field(default_factory=lambda: {"t": 0.5})


class Wide:
    by = 1.5


class Model(nn.Module):
    def __init__(self, pool=Pool.MEAN, config=None, wide=Wide, act=functools.partial(F.leaky_relu, negative_slope=0.1),
                 bias=False, gate=False, down=False, dtype=torch.float32, rows=range(2), columns=slice(0, 8), norm=True,
                 learned=False, extra=False):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.pool, self.config, self.wide, self.act = pool, config or Config(), wide, act
        self.dtype, self.rows, self.columns = dtype, rows, columns
        self.register_parameter("bias", nn.Parameter(torch.rand(16)) if bias else None)
        self.register_buffer("gate", torch.rand(16) if gate else None)
        self.register_module("down", nn.Linear(16, 16) if down else None)
        self.norm = nn.BatchNorm1d(16) if norm else None
        self.scale = nn.Parameter(torch.full((16,), 1.5)) if learned else 1.5
        if extra:
            self.extra, self.factor = nn.Parameter(torch.rand(16)), 1.25
        MORE

    def forward(self, x):
        y = torch.tanh(self.linear(x) * 1.5)
        y = y * 2 if self.pool is Pool.MEAN else y + 1
        y = y * self.config.inner.by if self.config.inner.pool is Pool.MEAN else y.exp()
        y = self.act(y * self.config.more["t"] * self.wide.by * self.scale)
        y = torch.sin(y if self.bias is None else y + self.bias)
        y = y if self.gate is None else y * self.gate
        if hasattr(self, "extra"):
            y = y + self.extra
        y = y * getattr(self, "factor", 2)
        y = y if self.down is None else self.down(y)
        if self.norm is not None:
            y = self.norm(y)
        for row in ROWS:
            y = torch.cos(y + row)
        return (y.to(self.dtype) * 2)COLUMNS.cumsum(0)


def get_inputs():
    return [torch.randn(8, 16)]
"""
OTHERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "pool": lambda file: {"pool": file.Pool.MAX},
    "inner": lambda file: {"config": file.Config(file.Inner(0.3))},
    "inner pool": lambda file: {"config": file.Config(file.Inner(pool=file.Pool.MAX))},
    "dict": lambda file: {"config": file.Config(more={"t": 0.9})},
    "a class": lambda file: {"wide": type("Wider", (file.Wide,), {"by": 3.0})},
    "partial": lambda file: {"act": file.functools.partial(file.F.leaky_relu, negative_slope=0.4)},
    "function": lambda file: {"act": torch.tanh},
    "a bias": lambda file: {"bias": True},
    "a gate": lambda file: {"gate": True},
    "a part": lambda file: {"down": True},
    "no norm": lambda file: {"norm": False},
    "more": lambda file: {"extra": True},
    "dtype": lambda file: {"dtype": torch.float64},
}
COMPILED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "learned": lambda file: {"learned": True},
    "rows": lambda file: {"rows": range(3)},
    "columns": lambda file: {"columns": slice(8, 16)},
}
"""What kernels of the playbook's own do not follow."""


@pytest.mark.parametrize("kind", ["own", pytest.param("named", marks=[pytest.mark.slow, pytest.mark.ci]), "digest"])
def test_constructed_with_other_arguments_it_gives_the_same(kind: str, bench: Callable[..., Bench]) -> None:
    more = "self.parts = nn.ModuleList(nn.Identity() for _ in range(6))" if kind == "digest" else "pass"
    text = TEXT.replace("MORE", more).replace("ROWS", "range(2)" if kind == "own" else "self.rows")
    text = text.replace("COLUMNS", "" if kind == "own" else "[:, self.columns]")
    if kind == "named":  # no conditions by name can be written for these
        text = text.replace("functools.partial(F.leaky_relu, negative_slope=0.1)", "F.relu").replace(
            "Pool.MEAN,", "None,"
        )
        text = (
            text.replace("self.pool is Pool.MEAN", "self.pool is None")
            .replace("range(2)", "(0, 1)")
            .replace("slice(0, 8)", "None")
            .replace("[:, self.columns]", "")
        )
    one = bench(text)
    if kind == "own":
        new = type(one.build(one.attempt().candidate))
    else:
        made = write(one)
        new = type(made.new)
        with torch.no_grad(), made.by_kernels():
            made.new(*one.inputs)
    assert kind == "own" or ("_stark_part(" in made.proposal.candidate.source) is (kind == "named")
    for name, change in (OTHERS if kind == "own" else {**OTHERS, **COMPILED}).items():
        if kind == "named" and name in ("partial", "rows", "columns"):
            continue
        torch.manual_seed(0)
        old = one.module.Model(**change(one.module)).eval()
        torch.manual_seed(0)
        other = new(**change(sys.modules[new.__module__])).eval()
        other.load_state_dict(old.state_dict())
        torch.testing.assert_close(other(*one.inputs), old(*one.inputs), msg=lambda text, name=name: f"{name}: {text}")
