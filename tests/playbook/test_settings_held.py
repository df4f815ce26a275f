"""Settings that stand in containers and objects: a class constructed with others gives what the original gives."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

from .conftest import Bench, close
from .written import write

pytestmark = [pytest.mark.usefixtures("several_threads"), pytest.mark.slow, pytest.mark.ci]

TEXT = """import argparse
import collections
import functools
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Stage:
    scale: float = 0.5
    residual: bool = True


@dataclass(frozen=True)
class Slotted:
    __slots__ = ("scale",)
    scale: float

    def by(self, n):
        return self.scale * n


class Keyed:
    def __init__(self, scale):
        self._held = {"scale": scale}

    def __getitem__(self, name):
        return self._held[name]


class Model(nn.Module):
    def __init__(self, s=0.5):
        super().__init__()
        self.a = nn.Linear(32, 32)
        self.held = HELD

    def forward(self, x):
        y = torch.tanh(self.a(x)) * 1.5
        return (y * (READ)).cumsum(0)


def get_inputs():
    return [torch.randn(16, 32)]
"""
CASES = {
    "a set": ("{s}", "2.0 if 0.5 in self.held else 3.0"),
    "no set": ("{s} if s < 1 else None", "2.0 if self.held else 3.0"),
    "frozen texts": ("frozenset(['b', 'a' if s < 1 else 'c'])", "2.0 if 'a' in self.held else 3.0"),
    "a dict with a class": ("{'scale': s, 'norm': nn.LayerNorm}", "self.held['scale']"),
    "a dict with fewer": ("{'norm': nn.LayerNorm, **({'scale': s} if s < 1 else {})}", "self.held.get('scale', 3.0)"),
    "objects in a list": ("[Stage(), Stage(s, s < 1)]", "self.held[1].scale + self.held[1].residual"),
    "objects in a dict": ("{'a': Stage(s)}", "self.held['a'].scale"),
    "a part in a tuple": ("[('a', self.a, s)]", "self.held[0][2]"),
    "slots": ("Slotted(s)", "self.held.scale"),
    "a method": ("Slotted(s)", "self.held.by(2)"),
    "by key": ("Keyed(s)", "self.held['scale']"),
    "a deque": ("collections.deque([1.0, s])", "self.held[-1]"),
    "bytes": ("bytes([int(2 * s)])", "self.held[0]"),
    "complex": ("complex(s, 1)", "self.held.real"),
    "partial of a class": ("functools.partial(Stage, s)", "self.held().scale"),
    "a long list": ("[s] * 96", "self.held[3]"),
    "a dict of another class": ("collections.OrderedDict(scale=s)", "self.held['scale']"),
    "functions in a list": ("[torch.relu if s < 1 else torch.sigmoid]", "self.held[0](y)"),
    "a function with a number": ("(torch.mul, s)", "self.held[0](y, self.held[1])"),
    "a slice": ("slice(0, int(2 * s))", "float(self.held.stop)"),
    "a key more": ("{'a': s} if s < 1 else {'a': 0.5, 'b': 1}", "2.0 if 'b' in self.held else 3.0"),
    "more keys": ("{'a': s} if s < 1 else {'a': 0.5, 'b': 1}", "float(len(self.held)) + sum(self.held.values())"),
    "an object or None": ("Stage(s) if s < 1 else None", "self.held.scale if self.held is not None else 3.0"),
    "None or an object": ("Stage(s) if s > 1 else None", "self.held.scale if self.held is not None else 3.0"),
    "a dict or None": ("{'scale': s} if s < 1 else None", "self.held['scale'] if self.held is not None else 3.0"),
    "a row or None": ("[1.0, s] if s < 1 else None", "self.held[1] if self.held is not None else 3.0"),
    "an object with less": ("argparse.Namespace(scale=0.5, **({'more': 1} if s < 1 else {}))", "self.held.scale"),
    "a class": ("nn.ReLU if s < 1 else nn.GELU", "2.0 if self.held is nn.ReLU else 3.0"),
    "a device": ("torch.device('cpu' if s < 1 else 'meta')", "2.0 if self.held.type == 'cpu' else 3.0"),
}
OWN = {
    "numpy's in an object": ("Stage(np.int64(2 * s))", "float(self.held.scale)"),
    "a class as a key": ("{nn.ReLU: s}", "self.held[nn.ReLU]"),
}
"""Of these the kernels that torch.compile writes are not tried."""


@pytest.mark.parametrize("name", CASES)
def test_what_a_class_holds_may_be_another(name: str, bench: Callable[..., Bench]) -> None:
    held, read = CASES[name]
    one = bench(TEXT.replace("HELD", held).replace("READ", read))
    made = write(one)
    with torch.no_grad(), made.by_kernels():
        close(one.model(*one.inputs), made.new(*one.inputs))
    right(one, type(made.new))
    if "untraceable" not in one.analysis:
        right(one, own(one))


@pytest.mark.parametrize("name", OWN)
def test_what_a_class_with_own_kernels_holds_may_be_another(name: str, bench: Callable[..., Bench]) -> None:
    held, read = OWN[name]
    one = bench(TEXT.replace("HELD", held).replace("READ", read))
    right(one, own(one))


def own(one: Bench) -> type[torch.nn.Module]:
    """Return the class with kernels of the playbook's own, which run for the settings at hand."""
    new = one.build(one.attempt().candidate)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.delattr(type(new), "_forward_pytorch")  # so that kernels run, or it raises
        close(one.model(*one.inputs), new(*one.inputs))
    return type(new)


def right(one: Bench, kind: type[torch.nn.Module]) -> None:
    """Assert that a class gives what the original gives, with the settings at hand and with others."""
    assert sys.modules[kind.__module__] is not one.module
    for other in (0.5, 2.0):
        old = one.module.Model(other).eval()
        new = kind(other).eval()
        new.load_state_dict(old.state_dict())
        close(old(*one.inputs), new(*one.inputs))
