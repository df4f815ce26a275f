"""Own kernels of a forward that reads numbers, switches or dtypes of PyTorch's parts: what is read may be another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from .conftest import Bench, close
from .playbook_cases import HEAD

TEXT = f"""{HEAD}class Model(nn.Module):
    def __init__(self, c=64, bias=True, p=0.25, eps=1e-5, heads=4):
        super().__init__()
        self.a = nn.Linear(c, c, bias=bias)
        self.drop, self.norm = nn.Dropout(p), nn.LayerNorm(c, eps)
        self.heads = nn.MultiheadAttention(c, heads)
        self.parts = nn.Sequential(nn.Linear(c, c), nn.GELU())
        self.parts.k = 2.0

    def forward(self, x):
        BODY


def get_inputs():
    return [torch.randn(32, 64)]
"""


def changed(**settings: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        for path, value in settings.items():
            owner, _, name = path.rpartition("_")
            setattr(model.get_submodule(owner), name, value)

    return change


@pytest.mark.parametrize(
    ("body", "arguments", "change"),
    [
        ("return torch.softmax(self.a(x) * self.a.in_features ** -0.5, -1)", {"c": 32}, None),
        ("return torch.tanh(self.a(x) / self.a.out_features) * 2", {"c": 32}, None),
        ("return torch.tanh(x * (x.var() + self.norm.eps)) * 2", {"eps": 2.0}, None),
        ("return torch.tanh(x * (1 - self.drop.p)) * 2", {"p": 0.75}, None),
        ("return torch.tanh(x * (1 - self.drop.p)) * 2", {}, changed(drop_p=0.75)),
        ("return torch.tanh(x / self.heads.num_heads) * 2", {"heads": 8}, None),
        ("return torch.tanh(x / self.parts.k) * 2", {}, changed(parts_k=5.0)),
        ("h = self.a(x)\n        if self.a.bias is None:\n            h = h * 3\n        return torch.tanh(h) * 2 + 1",
         {"bias": False}, None),
        ("h = self.a(x)\n        if self.a.bias is None:\n            h = h * 3\n        return torch.tanh(h) * 2 + 1",
         {}, changed(a_bias=None)),
    ],
    ids=["in", "out", "eps", "p", "p set", "heads", "of a container", "no bias", "bias taken away"],
)  # fmt: skip
def test_what_is_read_of_a_part_may_be_another(
    body: str, arguments: dict[str, Any], change: Callable[[Any], None] | None, bench: Callable[..., Bench]
) -> None:
    one = bench(TEXT.replace("BODY", body))
    new = one.build(one.attempt().candidate)
    close(one.model(*one.inputs), new(*one.inputs))
    old, other = type(one.model)(**arguments), type(new)(**arguments)
    other.load_state_dict(old.state_dict())
    x = torch.randn(32, arguments.get("c", 64))
    for model in (old, other):
        model.eval()
        if change is not None:
            change(model)
    close(old(x), other(x))


def test_the_dtype_that_is_read_of_a_weight_may_be_another(bench: Callable[..., Bench]) -> None:
    body = "h = (torch.tanh(x) * 1.5 + x * 0.5).to(self.a.weight.dtype)\n        return torch.tanh(self.a(h)) * 2"
    one = bench(TEXT.replace("BODY", body))
    new = one.build(one.attempt().candidate)
    close(one.model(*one.inputs), new(*one.inputs))
    for model in (one.model, new):
        model.bfloat16()
    assert new(*one.inputs).dtype == torch.bfloat16
    close(one.model(*one.inputs), new(*one.inputs))


@pytest.fixture
def float64() -> Iterator[Callable[[], None]]:
    before = torch.get_default_dtype()
    yield lambda: torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(before)


MADE = f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 255 - 0.5) * 2


def get_inputs():
    return [torch.randint(0, 255, (32, 64))]
"""


def test_what_numbers_become_without_a_dtype_may_be_another(
    bench: Callable[..., Bench], float64: Callable[[], None]
) -> None:
    one = bench(MADE)
    new = one.build(one.attempt().candidate)
    close(one.model(*one.inputs), new(*one.inputs))
    float64()
    assert new(*one.inputs).dtype == torch.float64
    close(one.model(*one.inputs), new(*one.inputs))
