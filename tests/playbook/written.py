"""What the tests of as-compiled candidates share: a candidate beside its original, and their gradients."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from stark_lsp.judge.analysis import inductor
from stark_lsp.playbook.inductor.proposal import AsCompiled

from .conftest import Bench
from .playbook_cases import HEAD

SCALED = f"""{HEAD}class Scaled(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(96) + 0.5)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Model(nn.Module):
    def __init__(self, eps=1e-3):
        super().__init__()
        self.norm = Scaled(eps)

    def forward(self, x):
        return torch.tanh(self.norm(x)).cumsum(0)


def get_inputs():
    return [torch.randn(32, 96)]
"""


STEP = {"backward": True}
"""The recipe for backward as well, see `test_inductor_step.py`."""


@dataclass
class Written:
    """A candidate beside its original."""

    one: Bench
    proposal: AsCompiled
    new: torch.nn.Module

    @contextlib.contextmanager
    def by_kernels(self, wanted: bool = True, method: str = "_compiled") -> Iterator[None]:
        """Assert that kernels ran in the block, or that they did not."""
        calls: list[int] = []
        kind = type(self.new)
        run = getattr(kind, method)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, method, staticmethod(lambda *given: calls.append(1) or run(*given)))
            yield
        assert bool(calls) is wanted


def write(one: Bench, recipe: dict[str, Any] | None = None) -> Written:
    """Write the candidate of a module."""
    made = json.loads(json.dumps(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), recipe)))
    proposal = AsCompiled(one.problem, made)
    return Written(one, proposal, one.build(proposal.candidate))


def trained(one: Bench, recipe: dict[str, Any] = STEP) -> Written:
    """Write the candidate of a module in training mode."""
    one.model.train()
    made = write(one, recipe)
    made.new.train()
    made.new.load_state_dict(one.model.state_dict())
    return made


def gradients(model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    """Return the gradients of a model's inputs and parameters."""
    leaves = [x.clone().requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    torch.manual_seed(0)  # of what drops
    results = model(*leaves)
    tensors = results.values() if isinstance(results, dict) else [results] if torch.is_tensor(results) else results
    wanted = [x for x in (*leaves, *model.parameters()) if torch.is_tensor(x) and x.requires_grad]
    weighted = [
        (x * torch.linspace(0, 1, x.numel(), device=x.device).view(x.shape)).sum()
        for x in tensors
        if torch.is_tensor(x)
    ]
    return list(torch.autograd.grad(sum(weighted), wanted))  # type: ignore[arg-type]
