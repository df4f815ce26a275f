"""What a class reads besides tensors, and its accepted form too: whoever changes it gets what the original gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from stark_lsp.integrity import read
from stark_lsp.judge.analysis import inductor, parts
from stark_lsp.playbook.inductor import guards
from stark_lsp.playbook.source import CannotEdit

from .conftest import Bench, close
from .playbook_cases import HEAD
from .written import Written, trained, write

pytestmark = pytest.mark.usefixtures("several_threads")

TEXT = f"""{HEAD}
EPS = 0.25
UNUSED = 3.0


class Config:
    def __init__(self, scale=2.0, act="tanh"):
        self.scale, self.act, self.unused = scale, act, 1
        self.heads, self.width = 2, 4

    @property
    def per_head(self):
        return self.width / self.heads


def shifted(x):
    return x + EPS


class Scale(nn.Module):
    factor = 0.5

    def forward(self, x):
        return x * self.factor


class Model(nn.Module):
    gain = 1.5

    def __init__(self):
        super().__init__()
        self.config = Config()
        self.options = {{"alpha": 0.5, "beta": 2}}
        self.betas = [0.1, 0.9]
        self.act = F.relu
        self._bias = 0.125
        self.scale = Scale()

    def forward(self, x):
        y = shifted(x) * self.options["alpha"] * self.gain + self._bias
        y = self.act(y) if self.config.act == "tanh" else torch.sigmoid(y)
        for beta in self.betas:
            y = y * beta * self.config.per_head
        return torch.tanh(self.scale(y) * self.config.scale).cumsum(0)


def get_inputs():
    return [torch.randn(32, 96)]
"""


def _constant(model: Any) -> None:
    sys.modules[type(model).__module__].EPS = 7.0  # type: ignore[attr-defined]


def _class_of_a_part(model: Any) -> None:
    type(model.scale).factor = 3.0


CHANGES: dict[str, Callable[[Any], object]] = {
    "a constant of the file": _constant,
    "an item of a dict": lambda model: model.options.update(alpha=3.0),
    "another dict": lambda model: setattr(model, "options", {"alpha": 4.0}),
    "an item of a list": lambda model: model.betas.__setitem__(0, 0.7),
    "one item more": lambda model: model.betas.append(0.7),
    "what a configuration holds": lambda model: setattr(model.config, "scale", 5.0),
    "a text of a configuration": lambda model: setattr(model.config, "act", "sigmoid"),
    "what a property is made of": lambda model: setattr(model.config, "heads", 8),
    "another configuration": lambda model: setattr(model, "config", type(model.config)(scale=6.0)),
    "a function": lambda model: setattr(model, "act", F.silu),
    "a name with an underscore": lambda model: setattr(model, "_bias", 9.0),
    "what its class has": lambda model: setattr(model, "gain", 0.3),
    "what the class of a part has": lambda model: setattr(model.scale, "factor", 0.2),
}


@pytest.fixture(params=["few parts", "a digest"])
def made(request: pytest.FixtureRequest, bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Written:
    if request.param == "a digest":
        monkeypatch.setattr(guards, "FEW", 0)
    return write(bench(TEXT))


def test_the_static_check_has_nothing_against_it(made: Written) -> None:
    problem, candidate = made.one.problem, made.proposal.candidate
    assert read(candidate.source, candidate.class_name, problem.text, problem.qualname).refusals == ()


def test_what_is_changed_is_what_it_goes_by(made: Written) -> None:
    x = made.one.inputs[0].requires_grad_()
    with made.by_kernels():
        close(made.one.model(x), made.new(x))
    for name, change in CHANGES.items():
        # Each on what the last one left: both have it.
        for model in (made.one.model, made.new):
            change(model)
        with made.by_kernels(False):
            expected, found = made.one.model(x), made.new(x)
        close(expected, found)
        for ours, theirs in zip(*(torch.autograd.grad(one.sum(), x) for one in (expected, found)), strict=True):
            close(ours, theirs)
        assert not torch.equal(expected, torch.zeros_like(expected)), name


@pytest.mark.parametrize("name", CHANGES)
def test_one_change_is_enough(name: str, made: Written) -> None:
    for model in (made.one.model, made.new):
        CHANGES[name](model)
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_what_no_call_reads_is_not_asked_for(bench: Callable[..., Bench]) -> None:
    made = write(bench(TEXT))
    made.new.config.unused = 2
    sys.modules[type(made.new).__module__].UNUSED = 4.0  # type: ignore[attr-defined]
    with made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_what_calls_change_is_no_constant_and_no_setting(bench: Callable[..., Bench]) -> None:
    keeping = TEXT.replace("y = shifted(x)", "self._bias = len(x) / 256\n        y = shifted(x)")
    one = bench(keeping)
    one.model._bias = 9.0
    told = inductor.program(one.model, tuple(one.inputs), {})
    asked = dict(told["reads"])
    assert 'getattr(self.config, "scale", ...)' in asked
    assert not any("_bias" in one for one in asked)
    noting = TEXT.replace("y = shifted(x)", "self.betas.append(1.0)\n        y = shifted(x)")
    one = bench(noting)
    with pytest.raises(inductor.NotTraceable, match=r"its settings \(self\.betas\)"):
        inductor.program(one.model, tuple(one.inputs), {})


def test_a_vocabulary_is_no_setting(bench: Callable[..., Bench]) -> None:
    one = bench(TEXT.replace('"beta": 2', '"beta": {n: str(n) for n in range(1000)}'))
    assert "options" not in parts.told(one.model, False)[0][2]


def test_what_cannot_be_written_is_compared_by_digest(bench: Callable[..., Bench]) -> None:
    infinite = TEXT.replace("self.betas = [0.1, 0.9]", "self.betas = (1.0, float('inf'))")
    text = json.dumps(inductor.program((one := bench(infinite)).model, tuple(one.inputs), {})["parts"])
    assert text == "[]"


def test_a_backward_pre_hook_of_a_part_runs(bench: Callable[..., Bench]) -> None:
    made = trained(bench(TEXT))
    x = made.one.inputs[0].requires_grad_()
    grads = []
    for model in (made.one.model, made.new):
        model.scale.register_full_backward_pre_hook(lambda part, given: tuple(2 * one for one in given))
        grads.append(torch.autograd.grad(model(x).sum(), x)[0])
    close(*grads)


@pytest.mark.slow
@pytest.mark.ci
def test_a_hook_that_was_traced_is_asked_for_as_well(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As transformers installs them with a first call.
    hooked = TEXT.replace("x * self.factor", "x * self.factor * 1.0") + (
        "\n\ndef kept(part, given, out):\n    return None\n\n\ndef doubled(part, given, out):\n    return 2 * out\n"
    )
    one = bench(hooked)
    space = sys.modules[type(one.model).__module__]
    one.model.scale.register_forward_hook(space.kept)
    with pytest.raises(inductor.NotTraceable, match="scale has hooks"):
        write(one)
    monkeypatch.setattr(parts, "TRACED", (f"{space.__name__}.kept",))
    made = write(one)
    expected = one.model(*one.inputs)
    with made.by_kernels(False):
        close(expected, made.new(*one.inputs))
    made.new.scale.register_forward_hook(space.kept)
    with made.by_kernels():
        close(expected, made.new(*one.inputs))
    handle = made.new.scale.register_forward_hook(space.doubled)
    one.model.scale.register_forward_hook(space.doubled)
    with made.by_kernels(False):
        close(one.model(*one.inputs), made.new(*one.inputs))
    handle.remove()
    with made.by_kernels():
        close(expected, made.new(*one.inputs))


ODD = f"""{HEAD}class Part(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self._factor = factor

    def forward(self, x):
        return torch.tanh(x) * self._factor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        names = ("1x", "class", "a-b", "0", "plain")
        self.parts = nn.ModuleDict({{name: Part(0.5 + i / 8) for i, name in enumerate(names)}})
        self.__scale = 2.0

    def forward(self, x):
        for part in self.parts.values():
            x = part(x)
        return x.cumsum(0) * self.__scale


def get_inputs():
    return [torch.randn(32, 96)]
"""


@pytest.mark.slow
@pytest.mark.ci
def test_parts_of_odd_names_are_asked_by_them(bench: Callable[..., Bench]) -> None:
    made = write(bench(ODD))
    with made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    for name in ("1x", "a-b", "0"):
        for model in (made.one.model, made.new):
            model.parts[name]._factor += 1.0
        with made.by_kernels(False):
            close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


def test_a_file_that_calls_something_else_what_is_imported_is_left_alone(bench: Callable[..., Bench]) -> None:
    listing = TEXT.replace("self._bias = 0.125", "self._bias = 0.125 + len({}('nothing.*'))")
    one = bench("from glob import glob\n" + listing.replace("{}", "glob"))
    with pytest.raises(CannotEdit, match="its file calls something else glob"):
        write(one)
    assert write(bench("import glob\n" + listing.replace("{}", "glob.glob"))).new is not None


@pytest.mark.parametrize(
    "more", ["", "self.more = nn.Sequential(*[nn.Tanh() for _ in range(8)])"], ids=["named", "digest"]
)
def test_a_bias_that_there_was_not_is_seen(more: str, bench: Callable[..., Bench]) -> None:
    text = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32, bias=False)
        self.norm = nn.LayerNorm(32, bias=False)
        self.register_buffer("shift", None)
        {more}

    def forward(self, x):
        y = torch.tanh(self.norm(torch.tanh(self.linear(x)))) * 2
        return y if self.shift is None else y + self.shift


def get_inputs():
    return [torch.randn(16, 32)]
"""
    made = write(bench(text))
    with torch.no_grad(), made.by_kernels():
        close(made.new(*made.one.inputs), made.one.model(*made.one.inputs))
    for part, name in (("linear", "bias"), ("norm", "bias"), ("", "shift")):
        for model in (made.new, made.one.model):
            other = torch.linspace(0.5, 2, 32)
            setattr(model.get_submodule(part), name, torch.nn.Parameter(other) if part else other)
        with torch.no_grad(), made.by_kernels(False):
            close(made.new(*made.one.inputs), made.one.model(*made.one.inputs))
        for model in (made.new, made.one.model):
            setattr(model.get_submodule(part), name, None)
        with torch.no_grad(), made.by_kernels():
            made.new(*made.one.inputs)
