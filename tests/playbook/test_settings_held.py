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
    "an object or None": ("Stage(s) if s < 1 else None", "self.held.scale if self.held is not None else 3.0"),
    "None or an object": ("Stage(s) if s > 1 else None", "self.held.scale if self.held is not None else 3.0"),
    "a dict or None": ("{'scale': s} if s < 1 else None", "self.held['scale'] if self.held is not None else 3.0"),
    "a row or None": ("[1.0, s] if s < 1 else None", "self.held[1] if self.held is not None else 3.0"),
    "an object with less": ("argparse.Namespace(scale=0.5, **({'more': 1} if s < 1 else {}))", "self.held.scale"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_class_holds_may_be_another(name: str, bench: Callable[..., Bench]) -> None:
    held, read = CASES[name]
    one = bench(TEXT.replace("HELD", held).replace("READ", read))
    made = write(one)
    kinds = [type(made.new)]
    with torch.no_grad(), made.by_kernels():
        close(one.model(*one.inputs), made.new(*one.inputs))
    if "untraceable" not in one.analysis:
        own = one.build(one.attempt().candidate)
        kinds.append(type(own))
        with pytest.MonkeyPatch.context() as patch, torch.no_grad():
            patch.delattr(type(own), "_forward_pytorch", raising=False)  # so that kernels run, or it raises
            close(one.model(*one.inputs), own(*one.inputs))
    for kind in kinds:
        assert sys.modules[kind.__module__] is not one.module
        for other in (0.5, 2.0):
            old = one.module.Model(other).eval()
            new = kind(other).eval()
            new.load_state_dict(old.state_dict())
            close(old(*one.inputs), new(*one.inputs))
