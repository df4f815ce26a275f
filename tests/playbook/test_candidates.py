"""The first candidate of each module computes what the module computes, at other sizes too."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from stark_lsp.playbook.design import read_design

from .conftest import Bench, close
from .playbook_cases import CASES, Case, text_of

pytestmark = pytest.mark.usefixtures("several_threads")


@contextlib.contextmanager
def only_kernels(model: torch.nn.Module, names: tuple[str, ...]) -> Iterator[None]:
    """Make every way back to PyTorch fail, so that a test sees whether the kernels did the work."""
    module = sys.modules[type(model).__module__]

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("fell back to PyTorch")

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            if hasattr(module, f"_{name}_pytorch"):
                patch.setattr(module, f"_{name}_pytorch", refuse)
        patch.setattr(type(model), "_forward_pytorch", refuse, raising=False)
        yield


# Each is built: every second one after each change, the others before it lands.
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow, pytest.mark.ci] if number % 2 else [])
        for number, case in enumerate(CASES)
    ],
)
def test_the_first_candidate_agrees_with_the_module(case: Case, bench: Callable[..., Bench]) -> None:
    one = bench(text_of(case))
    assert asyncio.run(one.agents.reason()) == ""
    node = one.attempt()
    design = read_design(node.candidate.source)
    assert design is not None
    assert len(design.kernels) >= 1
    assert len(design.kernels) >= min(case.kernels, 2)
    new = one.build(node.candidate)
    with torch.no_grad():
        with only_kernels(new, design.names):
            close(one.model(*one.inputs), new(*one.inputs))
        other = one.module.get_other_inputs()
        close(one.model(*other), new(*other))
    assert list(new.state_dict()) == list(one.model.state_dict())


OPTIONAL = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, mask=None, *, bias=None):
        y = torch.tanh(x) * 2 + x
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        if bias is not None:
            y = y + bias
        return y * y.abs()


def get_inputs():
    return [torch.randn(16, 64), torch.rand(16, 64) > 0.5]
"""


def test_a_tensor_that_may_be_left_out_may_be_left_out(bench: Callable[..., Bench]) -> None:
    one = bench(OPTIONAL)
    assert asyncio.run(one.agents.reason()) == ""
    new = one.build(one.attempt().candidate)
    x, mask = one.inputs
    for given, named in (((x, mask), {}), ((x,), {}), ((x, None), {}), ((x, mask), {"bias": torch.ones(64)})):
        close(one.model(*given, **named), new(*given, **named))


COUNTS = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("load", torch.zeros(64))

    def forward(self, x):
        y = torch.tanh(x) * 2 + x
        taken = (y > 0).float() * 0.5 + 1
        self.load.lerp_(taken.mean(0), 0.1)
        return y, taken


def get_inputs():
    return [torch.randn(16, 64)]
"""


def test_what_no_gradient_leads_back_from_stays_so_beside_what_one_does(bench: Callable[..., Bench]) -> None:
    # Else a buffer would hold the graphs of all calls.
    one = bench(COUNTS)
    new = one.build(one.attempt().candidate)
    (x,) = one.inputs
    for model in (one.model, new):
        results = model(x.clone().requires_grad_())
        assert [result.requires_grad for result in results] == [True, False]
        assert not model.load.requires_grad
    close(one.model(x), new(x))


LEAVES = (
    "nn.GELU()", "nn.LeakyReLU()", "nn.ELU()", "nn.CELU()", "nn.Softplus()", "nn.Hardtanh()", "nn.Hardshrink()",
    "nn.Softshrink()", "nn.Threshold(0.1, 0.0)", "nn.Softmax(1)", "nn.LogSoftmax(1)", "nn.Softmin(1)",
    "nn.LayerNorm(64)", "nn.RMSNorm(64)", "nn.InstanceNorm1d(8)", "nn.Dropout(0.0)", "nn.AlphaDropout(0.0)",
    "nn.LayerNorm(64, elementwise_affine=False)", "nn.LayerNorm(64, bias=False)",
    "nn.RMSNorm(64, elementwise_affine=False)",
)  # fmt: skip
"""Modules of one input."""
LOSSES = (
    "nn.CosineSimilarity()", "nn.MSELoss()", "nn.L1Loss()", "nn.SmoothL1Loss()", "nn.HuberLoss()", "nn.KLDivLoss()",
    "nn.SoftMarginLoss()", "nn.BCELoss()", "nn.BCEWithLogitsLoss()",
)  # fmt: skip
"""Of two."""
SETTINGS = f"""import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaves = nn.ModuleList([{", ".join(LEAVES)}])
        self.losses = nn.ModuleList([{", ".join(LOSSES)}])

    def forward(self, x, y):
        rows = [torch.tanh(one(x) * 2) + 1 for one in self.leaves]
        return [*rows, *(one(torch.sigmoid(x * 3), torch.sigmoid(y * 2)) for one in self.losses)]


def get_inputs():
    return [torch.randn(4, 8, 64), torch.randn(4, 8, 64)]
"""


def test_settings_of_modules_may_be_changed(bench: Callable[..., Bench]) -> None:
    # As somebody does who constructs the class otherwise than it was judged.
    one = bench(SETTINGS, train=True)
    new = one.build(one.attempt().candidate).train()
    close(one.model(*one.inputs), new(*one.inputs))
    wrong, changed = [], 0
    for name, part in one.model.named_modules():
        for key, other in _other_settings(part):
            twin, results = new.get_submodule(name), []
            before = getattr(part, key)
            for model, each in ((one.model, part), (new, twin)):
                setattr(each, key, other)
                torch.manual_seed(0)
                with contextlib.suppress(ValueError, IndexError, RuntimeError, AttributeError):
                    results.append(model(*one.inputs))
                setattr(each, key, before)
            changed += len(results) == 2
            if not all(torch.allclose(*pair, 1e-4, 1e-5, equal_nan=True) for pair in zip(*results, strict=True)):
                wrong.append(f"{part}.{key}")
    assert changed > 40
    assert wrong == []


def _other_settings(part: torch.nn.Module) -> Iterator[tuple[str, object]]:
    """Yield what somebody may set on a module: another number or word, a tensor where there is none."""
    words: dict[object, str] = {"mean": "sum", "none": "tanh"}
    for key, value in vars(part).items():
        if key[0] != "_" and type(value) in (int, float):
            yield key, value + (1 if type(value) is int else 0.3)
        elif value in list(words):
            yield key, words[value]
    for key, tensor in {**part._parameters, **part._buffers}.items():
        if tensor is None and not key.startswith(("running", "num_batches")):
            rows = 8 if isinstance(part, torch.nn.InstanceNorm1d) else 64
            kind = torch.nn.Parameter if key in part._parameters else torch.Tensor
            yield key, kind(torch.linspace(0.5, 2, rows))
