# ruff: noqa: E501
"""Random programs survive the rewriting; kernels are replaced by what they fall back to, which needs no compiler."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable

import pytest
import torch

from stark_lsp.core.roles import NothingToPropose
from stark_lsp.playbook.design import read_design

from .conftest import Bench, close
from .playbook_cases import Case, text_of

UNARY = ["torch.tanh({})", "{} * 0.5", "{}.abs() + 0.5", "F.relu({})", "{} - 1.5", "torch.exp(-{}.abs())", "{}.clamp(-1, 1)",
         "self.fc({})", "F.softmax({}, dim=-1)", "{}.mean(-1, keepdim=True) + {}", "{} / (1 + {}.abs().sum(dim=-1, keepdim=True))",
         "F.layer_norm({}, ({}.size(-1),))", "{}.view({}.size(0), 4, -1).reshape({}.shape)", "{}.t().contiguous().t() * 2",
         "{} * {}.std(-1).unsqueeze(-1)", "{} + {}.amax(0)", "{}.clone().add_(1)"]  # fmt: skip
BINARY = [
    "{} + {}",
    "{} * {}",
    "{} - 0.5 * {}",
    "torch.where({} > {}, 1.0, 0.5)",
    "torch.maximum({}, {})",
    "{} @ self.fc.weight + {}",
]


def program(seed: int) -> str:
    """Return the body of a forward with about ten operations."""
    rng = random.Random(seed)
    names = ["x", "y"]
    lines = []
    for number in range(rng.randint(4, 12)):
        template = rng.choice(UNARY if rng.random() < 0.55 else BINARY)
        if template in UNARY:
            name = rng.choice(names)
            expression = template.replace("{}", name)
        else:
            expression = template.format(rng.choice(names), rng.choice(names))
        target = rng.choice([*names, f"v{number}"])
        lines.append(f"{target} = {expression}")
        if target not in names:
            names.append(target)
    results = rng.sample(names, k=min(len(names), rng.randint(1, 2)))
    return "\n".join(f"        {line}" for line in [*lines, f"return {', '.join(results)}"])


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 60))])
def test_a_random_program_is_rewritten_faithfully(seed: int, bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(16, 16)\n\n"
        f"    def forward(self, x, y):\n{program(seed)}\n"
    )
    one = bench(text_of(Case("random", code, "[torch.randn(8, 16), torch.randn(8, 16)]")))
    try:
        node = one.attempt()
    except NothingToPropose:
        assert "what a tensor holds" not in asyncio.run(one.agents.reason())
        return
    new = one.build(node.candidate)
    module = sys.modules[type(new).__module__]
    design = read_design(node.candidate.source)
    assert design is not None
    for name in design.names:
        if hasattr(module, name):
            setattr(module, name, getattr(module, f"_{name}_pytorch"))
    with torch.no_grad():
        for rows in (8, 3):
            inputs = [torch.randn(rows, 16), torch.randn(rows, 16)]
            close(one.model(*inputs), new(*inputs))
