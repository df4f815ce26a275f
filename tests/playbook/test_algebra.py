"""Candidates whose algebra was done first: Inductor takes every form, and results and gradients are the original's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch

from stark_lsp.judge.analysis import inductor
from stark_lsp.playbook.design import Design
from stark_lsp.playbook.inductor.proposal import AsCompiled
from stark_lsp.playbook.inductor.recipes import ALGEBRA, STRATEGY, Switches

from .conftest import Bench, close
from .playbook_cases import HEAD
from .written import Written, gradients

# What differs is rewritten graphs, which tests of the judge compare; each candidate is built for seconds.
pytestmark = [pytest.mark.usefixtures("several_threads"), pytest.mark.slow]

DESIGN = Design(STRATEGY, ((ALGEBRA, "sums"),))
RECIPE = Switches().recipe(DESIGN)
MODULE = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = {layer}
        self.scale = nn.Parameter(torch.rand({scale}) + 0.5)

    def forward(self, x):
        x = self.linear(x) * self.scale - 1.0
        return torch.tanh({result})


def get_inputs():
    return [torch.randn({shape})]
"""
BRANCHES = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(24, 24, 3, padding=1, bias=False), nn.Conv2d(24, 24, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(24) for _ in range(3))

    def forward(self, x):
        y = self.norms[0](self.wide(x))
        y += self.norms[1](self.narrow(x))
        return F.relu(y + self.norms[2](x))


def get_inputs():
    return [torch.randn(4, 24, 24, 28)]
"""
FORMS = {
    "columns": ("nn.Linear(96, 256)", "256", "F.avg_pool1d(x.unsqueeze(1), 8).squeeze(1)", "64, 96"),
    "places": ("nn.Conv2d(8, 24, 3, padding=1)", "24, 1, 1", "x.mean(dim=(2, 3))", "4, 8, 20, 24"),
    "all places": ("nn.ConvTranspose2d(8, 24, 3, 2)", "24, 1, 1", "x.mean(dim=(1, 2, 3))", "4, 8, 20, 24"),
    "channels": ("nn.Conv2d(8, 24, 3)", "24, 1, 1", "x.mean(dim=1, keepdim=True)", "4, 8, 20, 24"),
    "pools": ("nn.Conv2d(8, 24, 3, padding=1)", "24, 1, 1", "F.avg_pool2d(x, 2)", "4, 8, 20, 24"),
    "pools of more": (
        "nn.ConvTranspose3d(8, 24, 3, 2, 1)",
        "24, 1, 1, 1",
        "F.avg_pool3d(F.avg_pool3d(x, 2), 2)",
        "2, 8, 6, 10, 12",
    ),
}


OFTEN = ("places",)


def rewritten(one: Bench) -> Written:
    """Write the candidate of a module by algebra."""
    made = json.loads(json.dumps(inductor.program(one.model, tuple(one.inputs), {}, str(one.path), RECIPE)))
    proposal = AsCompiled(one.problem, made, DESIGN)
    return Written(one, proposal, one.build(proposal.candidate))


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.ci if name in OFTEN else ()) for name in FORMS])
def test_it_computes_what_the_module_computes(name: str, bench: Callable[..., Bench]) -> None:
    layer, scale, result, shape = FORMS[name]
    written = rewritten(bench(HEAD + MODULE.format(layer=layer, scale=scale, result=result, shape=shape)))
    one = written.one
    with torch.no_grad(), written.by_kernels():
        close(one.model(*one.inputs), written.new(*one.inputs))
    for found, expected in zip(gradients(written.new, one.inputs), gradients(one.model, one.inputs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.ci
def test_branches_are_one_convolution_by_the_weights_of_the_moment(bench: Callable[..., Bench]) -> None:
    written = rewritten(bench(HEAD + BRANCHES))
    one, new = written.one, written.new
    assert written.proposal.candidate.source.count("torch.convolution(") == 1
    with torch.no_grad(), written.by_kernels():
        close(one.model(*one.inputs), new(*one.inputs))
    state = {name: torch.rand_like(one) + 0.5 for name, one in one.model.state_dict().items() if one.dim()}
    for model in (one.model, new):
        model.load_state_dict(state, strict=False)
    with torch.no_grad(), written.by_kernels():
        close(one.model(*one.inputs), new(*one.inputs))
        for model in (one.model, new):
            model.wide.weight.mul_(-0.5)
            model.norms[2].weight.data = model.norms[2].weight.data * 3.0
        close(one.model(*one.inputs), new(*one.inputs))
