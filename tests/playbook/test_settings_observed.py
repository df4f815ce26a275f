"""What calls are seen to read, wherever they read it, is asked for: an accepted class follows all its settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from stark_lsp.playbook.inductor import guards

from .conftest import Bench, close
from .written import Written, write

pytestmark = [pytest.mark.usefixtures("several_threads", "elsewhere"), pytest.mark.slow, pytest.mark.ci]

ELSEWHERE = """def scaled(x, config):
    return x * config.scale


def under(module, x):
    return x * module._scale


def keyed(x, scale, other=1):
    return x * scale


def halved_in_training(module, x):
    return x * 0.5 if module.training else x
"""
TEXT = """import dataclasses
import fractions
import functools
import types

import torch
import torch.nn as nn

import of_another_file
from of_another_file import scaled


@dataclasses.dataclass
class Config:
    scale: float = 0.5
    layers: int = 3

    def __float__(self):
        return float(self.scale)


class Scale(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.factor, self.__hidden = s, s

    def forward(self, x):
        return x * self.__hidden


def times(s):
    def inner(x):
        return x * s

    return inner


def decorated(run):
    @functools.wraps(run)
    def ran(self, x):
        return run(self, x) * self._scale

    return ran


class Model(nn.Module):
    def __init__(self, s=0.5):
        super().__init__()
        self.a = nn.Linear(32, 32)
        self.shift, self._scale, self.__own = s, s, s
        self.config = HELD

    def double(self, y):
        return y * 2

    def triple(self, y):
        return y * 3

    @decorated
    def same(self, y):
        return y

    def forward(self, x):
        y = torch.tanh(self.a(x)) * 1.5
        return (READ).cumsum(0)


def get_inputs():
    return [torch.randn(16, 32)]
"""
CASES = {
    "a function of another file": ("Config(s)", "scaled(y, self.config)"),
    "of a module": ("Config(s)", "of_another_file.scaled(y, self.config)"),
    "a private setting there": ("None", "of_another_file.under(self, y)"),
    "a computed name": ("Config(s)", 'y * getattr(self.config, "".join(["sca", "le"]))'),
    "all of it": ("Config(s)", 'y * vars(self.config)["scale"]'),
    "as a dict": ("Config(s)", 'y * dataclasses.asdict(self.config)["scale"]'),
    "a namespace": ("types.SimpleNamespace(scale=s)", "of_another_file.keyed(y, **vars(self.config))"),
    "an operator": ("Config(s)", "y * float(self.config)"),
    "a decorator": ("None", "self.same(y)"),
    "two underscores": ("None", "y * self.__own"),
    "of a part": ("Scale(s)", "self.config(y)"),
    "infinite": ('Config(s if s != 0.5 else float("inf"))', "y.clamp(max=self.config.scale)"),
    "infinite in a row": ('(0.0, s if s != 0.5 else float("inf"))', "y.clamp(max=self.config[1])"),
    "a closure": ("times(s)", "self.config(y)"),
    "a default": ("lambda x, s=s: x * s", "self.config(y)"),
    # What conditions do not tell, a setting beside it does that no call reads.
    "a method": ("self.double if s < 1 else self.triple", "self.config(y)"),
    "a lambda": ("(lambda x: x * 2) if s < 1 else (lambda x: x * 3)", "self.config(y)"),
    "many numbers": ("[s * place for place in range(1000)]", "y * self.config[500]"),
    "parts in a list": ("[Scale(s), Scale(s)]", "self.config[1](y)"),
    "a fraction": ("fractions.Fraction(s)", "y * float(self.config)"),
}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_another_file.py").write_text(ELSEWHERE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "of_another_file", raising=False)


def follows(made: Written) -> None:
    """Assert that kernels run with the settings that they were made for, and results are right with others too."""
    (x,), kind = made.one.inputs, type(made.new)
    with torch.no_grad():
        for s in (0.5, 2.0):
            old, new = made.one.module.Model(s).eval(), kind(s).eval()
            new.load_state_dict(old.state_dict())
            made.new = new
            with made.by_kernels(s == 0.5):
                close(old(x), new(x))


@pytest.mark.parametrize(
    ("case", "digest"), [*((case, False) for case in CASES), *((case, True) for case in [*CASES][::4])]
)
def test_a_class_follows_its_settings(
    case: str, digest: bool, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    if digest:
        monkeypatch.setattr(guards, "FEW", 0)
    made_of, read = CASES[case]
    follows(write(bench(TEXT.replace("HELD", made_of).replace("READ", read))))


def test_the_mode_that_another_file_asks_for_counts(bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT.replace("HELD", "None").replace("READ", "of_another_file.halved_in_training(self, y)")))
    old, new, (x,) = made.one.module.Model().train(), made.new.train(), made.one.inputs
    new.load_state_dict(old.state_dict())
    with torch.no_grad():
        close(old(x), new(x))


def test_what_may_not_be_there_elsewhere_raises_nothing(bench: Callable[..., Bench]) -> None:
    held = "types.SimpleNamespace(**({'scale': s} if s == 0.5 else {}))"
    made = write(bench(TEXT.replace("HELD", held).replace("READ", 'y * (getattr(self.config, "scale", None) or 3)')))
    (x,), old, new = made.one.inputs, made.one.module.Model(2.0).eval(), type(made.new)(2.0).eval()
    new.load_state_dict(old.state_dict())
    with torch.no_grad():
        close(old(x), new(x))


INHERITED = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    gain = 1.5

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(32, 32)

    def act(self, x):
        return torch.tanh(x)

    @property
    def power(self):
        return 2.0

    def forward(self, x):
        return (self.act(self.a(x)) * self.gain * self.power).cumsum(0)


class Same(Model):
    pass


class Gelu(Model):
    def act(self, x):
        return F.gelu(x)


class Stronger(Model):
    gain = 3.0


class Powerful(Model):
    @property
    def power(self):
        return 5.0


def get_inputs():
    return [torch.randn(16, 32)]
"""


@pytest.mark.parametrize("digest", [False, True], ids=["by name", "digest"])
def test_a_class_that_inherits_from_an_accepted_one_has_its_own_methods(
    digest: bool, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    if digest:
        monkeypatch.setattr(guards, "FEW", 0)
    made = write(bench(INHERITED))
    (x,), accepted = made.one.inputs, type(made.new)
    for name in ("Same", "Gelu", "Stronger", "Powerful"):
        old = getattr(made.one.module, name)().eval()
        own = {key: value for key, value in vars(type(old)).items() if key in ("act", "gain", "power")}
        made.new = type(name, (accepted,), own)().eval()
        made.new.load_state_dict(old.state_dict())
        with torch.no_grad(), made.by_kernels(name == "Same"):
            close(old(x), made.new(x))


MADE = """def made(s):
    if s < 1:
        def act(x):
            return x * 2
    else:
        def act(x):
            return x * 3
    return act
"""
SOMETIMES = """class Sometimes:
    def __init__(self, s):
        self.on = s < 1
        if self.on:
            self.scale = s
"""
SLOTTED = """class Slotted:
    __slots__ = ("clip",)

    def __init__(self, clip):
        self.clip = clip
"""
CACHE = """    _cache = {}

    def cached(self, y):
        return self._cache.setdefault((len(y), self.config), self.config)

"""
ODD = {
    # held, read, before the class
    "methods of parts": ("self.a.forward if s < 1 else self.b.forward", "self.config(y)", ""),
    "functions of one name": ("made(s)", "self.config(y)", MADE),
    "a value that may not be there": ("Sometimes(s)", "y * self.config.scale if self.config.on else y * 3", SOMETIMES),
    "a None in a slot": ("Slotted(None if s < 1 else 0.01)", "y if self.config.clip is None else y * 3", SLOTTED),
    "three objects deep": (
        "types.SimpleNamespace(a=types.SimpleNamespace(b=types.SimpleNamespace(c=s)))", "y * self.config.a.b.c", ""
    ),
    "beside a pattern": ("[re.compile('x'), Config(s)]", "scaled(y, self.config[1])", "import re\n"),
    "beside a lock": ("[threading.Lock(), Config(s)]", "scaled(y, self.config[1])", "import threading\n"),
    "a cache of the class": ("s", "y * self.cached(y)", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_odd_settings_are_followed(case: str, bench: Callable[..., Bench]) -> None:
    held, read, before = ODD[case]
    text = TEXT.replace("HELD", held).replace("READ", read).replace("class Model", f"{before}\n\nclass Model", 1)
    text = text.replace(
        "        self.shift, self",
        "        self.b = nn.Sequential(nn.Linear(32, 32), nn.ReLU())\n        self.shift, self",
    )
    text = text.replace("    def double", CACHE + "    def double")
    follows(write(bench(text)))
