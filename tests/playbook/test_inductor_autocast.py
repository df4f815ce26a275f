"""What torch.compile writes for a class that is called under autocast: where it runs, what it gives, its gradients."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stark_lsp.judge.analysis import inductor
from stark_lsp.judge.reference import modules
from stark_lsp.playbook.inductor.proposal import AsCompiled

from .conftest import Bench
from .playbook_cases import HEAD
from .written import Written, gradients

pytestmark = pytest.mark.usefixtures("several_threads")

# Inside, one product asks for float32 in spite of autocast.
BLOCK = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.second = nn.Linear(64, 32)
        self.gate = nn.Parameter(torch.rand(32, 32))

    def forward(self, x):
        y = self.second(torch.tanh(self.first(x) * 0.5))
        with torch.autocast("cpu", enabled=False):
            return x + y.float() @ self.gate


def get_inputs():
    return [torch.randn(48, 32)]
"""


def write(one: Bench, recipe: dict[str, Any] | None = None) -> Written:
    """Write the candidate of a module that is called under autocast."""
    cast = modules.used(copy.deepcopy(one.model), "", "bfloat16", "cpu")
    made = inductor.program(cast, tuple(one.inputs), {}, str(one.path), recipe) | {"autocast": "bfloat16"}
    proposal = AsCompiled(one.problem, json.loads(json.dumps(made)))
    return Written(one, proposal, one.build(proposal.candidate))


def near(expected: torch.Tensor, found: torch.Tensor, least: float = 0.0) -> None:
    """Assert that two results agree as far as bfloat16 goes; what is no larger than `least` is rounding alone."""
    assert found.dtype is expected.dtype
    size = float(torch.linalg.vector_norm(expected.float()))
    assert float(torch.linalg.vector_norm((found - expected).float())) <= max(5e-2 * size, least)


def all_near(expected: list[torch.Tensor], found: list[torch.Tensor]) -> None:
    """Assert that gradients agree; one that is zero but for rounding is small beside the others."""
    largest = max(float(torch.linalg.vector_norm(one)) for one in expected)
    for a, b in zip(expected, found, strict=True):
        near(a, b, 1e-2 * largest)


@pytest.mark.slow
@pytest.mark.ci
def test_it_runs_under_this_autocast_alone(bench: Callable[..., Bench]) -> None:
    made = write(bench(BLOCK))
    (x,) = made.one.inputs
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16), made.by_kernels():
            near(made.one.model(x), made.new(x))
            assert torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", torch.float16), made.by_kernels(False):
            torch.testing.assert_close(made.new(x), made.one.model(x))
        with made.by_kernels(False):
            torch.testing.assert_close(made.new(x), made.one.model(x))


def test_its_gradients_are_those_of_the_form_under_autocast(bench: Callable[..., Bench]) -> None:
    made = write(bench(BLOCK))
    with torch.autocast("cpu", torch.bfloat16):
        expected = gradients(made.one.model, made.one.inputs)
        with made.by_kernels():
            result = made.new(*made.one.inputs)
            found = gradients(made.new, made.one.inputs)
    all_near(expected, found)
    # As training scripts do, backward comes where autocast is over.
    result.sum().backward()
    assert made.new.gate.grad is not None
