"""As-compiled candidates whose module is changed after it was made: seen, or read anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stark_lsp.playbook.inductor.reader import CannotEmit

from .conftest import Bench, close
from .playbook_cases import HEAD
from .written import SCALED, STEP, gradients, write

# Guards and rules that are rarely touched.
pytestmark = [pytest.mark.usefixtures("several_threads"), pytest.mark.slow, pytest.mark.ci]


@pytest.mark.usefixtures("_said")
def test_a_part_of_another_class_of_that_name_is_seen(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("= Scaled(eps)", "= nn.LayerNorm(96)")
    made = write(bench(text))
    (x,), new = made.one.inputs, made.new
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(x), new(x))
    plain = new.norm
    plain.forward = lambda x: x
    with made.by_kernels(False), torch.no_grad():
        close(torch.tanh(x).cumsum(0), new(x))
    del plain.forward
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(x), new(x))
    # As adapters are written.
    new.norm = type("LayerNorm", (torch.nn.LayerNorm,), {"forward": lambda self, x: x})(96)
    with made.by_kernels(False), torch.no_grad():
        close(torch.tanh(x).cumsum(0), new(x))


def test_a_part_that_has_two_names_is_seen_at_each(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("= Scaled(eps)", "= self.last = Scaled(eps)").replace(
        "tanh(self.", "tanh(self.last(x) + self."
    )
    made = write(bench(text))
    (x,), new = made.one.inputs, made.new
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(x), new(x))
    new.last = torch.nn.Identity()
    with made.by_kernels(False), torch.no_grad():
        close(torch.tanh(x + new.norm(x)).cumsum(0), new(x))


@pytest.mark.usefixtures("_said")
def test_weights_that_are_one_may_be_untied(bench: Callable[..., Bench]) -> None:
    tied = "self.norm = Scaled(eps)\n        self.end = Scaled(eps)\n        self.end.weight = self.norm.weight"
    text = SCALED.replace("self.norm = Scaled(eps)", tied).replace(".cumsum(0)", "* self.end(x)")
    made = write(bench(text))
    (x,) = made.one.inputs
    with made.by_kernels():
        close(made.one.model(x), made.new(x))
    for model in (made.one.model, made.new):
        model.end.weight = torch.nn.Parameter(torch.linspace(0, 1, 96))
    with made.by_kernels(False):
        close(made.one.model(x), made.new(x))


GROWING = f"""{HEAD}class Model(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.scales = nn.ParameterList([torch.full([96], 0.5 + i / 8) for i in range(n)])
        self.shifts = nn.ParameterDict({{str(i): torch.full([96], i / 8) for i in range(n)}})
        self.first = nn.Parameter(torch.ones(96))
        self.last = self.first

    def forward(self, x):
        for scale in self.scales:
            x = torch.tanh(x * scale)
        for shift in self.shifts.values():
            x = torch.sigmoid(x + shift)
        return x * self.first + self.last


def get_inputs():
    return [torch.randn(16, 96)]
"""


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.scales.append(torch.full([96], 2.0)),
        lambda model: model.scales.append(2.0),
        lambda model: model.shifts.update({"more": torch.full([96], 2.0)}),
        lambda model: setattr(model, "last", torch.nn.Parameter(torch.zeros(96))),
    ],
    ids=["a parameter", "a number", "a key", "untied"],
)
def test_lists_of_parameters_may_grow(change: Callable[[Any], object], bench: Callable[..., Bench]) -> None:
    made = write(bench(GROWING))
    with made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    deeper = type(made.new)(4)
    for model in (made.one.model, made.new):
        change(model)
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    close(type(made.one.model)(4)(*made.one.inputs), deeper(*made.one.inputs))


PLAIN_TENSORS = f"""{HEAD}class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = torch.linspace(0.5, 2.0, 96)
        self.unused = torch.ones(3)

    def forward(self, x):
        return torch.tanh(x * self.slopes)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.out = Part(), nn.Linear(96, 32)
        self.places = torch.arange(96).flip(0)

    def forward(self, x):
        return self.out(self.part(x)[:, self.places])


def get_inputs():
    return [torch.randn(16, 96)]
"""


@pytest.mark.parametrize("recipe", [None, STEP], ids=["form", "kernels"])
@pytest.mark.usefixtures("_said")
def test_tensors_that_are_attributes_alone_are_read_anew(
    recipe: dict[str, Any] | None, bench: Callable[..., Bench]
) -> None:
    made = write(bench(PLAIN_TENSORS), recipe)
    made.new.load_state_dict(made.one.model.state_dict())
    changes: list[Callable[[Any], object]] = [
        lambda model: None,
        lambda model: model.part.slopes.mul_(0.5),
        lambda model: setattr(model, "places", torch.arange(96)),
    ]
    for change in changes:
        for model in (made.one.model, made.new):
            change(model)
        with made.by_kernels():
            agree = zip(*(gradients(model, made.one.inputs) for model in (made.one.model, made.new)), strict=True)
            assert all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in agree)
    for model in (made.one.model, made.new):
        model.part.slopes = torch.ones(96, dtype=torch.float64)
    with made.by_kernels(False), pytest.raises(RuntimeError, match="dtype"):
        made.new(*made.one.inputs)


@pytest.mark.usefixtures("_said")
def test_a_part_that_shares_a_weight_may_be_replaced(bench: Callable[..., Bench]) -> None:
    tied = "self.norm = Scaled(eps)\n        self.end = Scaled(eps)\n        self.end.weight = self.norm.weight"
    made = write(bench(SCALED.replace("self.norm = Scaled(eps)", tied).replace(".cumsum(0)", "* self.end(x)")))
    for model in (made.one.model, made.new):
        model.end = torch.nn.Identity()
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


@pytest.mark.usefixtures("_said")
def test_an_input_may_be_called_weights(bench: Callable[..., Bench]) -> None:
    text = SCALED.replace("x):\n        return torch.tanh(", "x, weights):\n        return weights * torch.tanh(")
    made = write(bench(text.replace("96)]\n", "96), torch.randn(96)]\n")))
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


NUMBERS = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pairs = [(i, j) for i in range(11) for j in range(i)]

    def forward(self, x):
        first, second = (torch.tensor(one, device=x.device) for one in zip(*self.pairs))
        bounds = torch.tensor([float("-inf"), 0.5] * 8, device=x.device)
        numbers0 = torch.maximum(torch.tanh(x[:, :16]), bounds)
        return x[:, first] * x[:, second] + numbers0.sum(), first


def get_inputs():
    return [torch.randn(8, 64)]
"""


def test_tensors_made_of_numbers_are_made_once(bench: Callable[..., Bench]) -> None:
    made = write(bench(NUMBERS))
    for _ in range(2):
        with made.by_kernels(), torch.inference_mode():
            found = made.new(*made.one.inputs)
            close(made.one.model(*made.one.inputs), found)
            found[1].zero_()  # which is the caller's own
    with made.by_kernels():
        agree = zip(*(gradients(model, made.one.inputs) for model in (made.one.model, made.new)), strict=True)
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in agree)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with made.by_kernels(False):
            close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    finally:
        torch.set_default_dtype(usual)
    for model in (made.one.model, made.new):
        model.pairs[3] = (9, 9)
    with made.by_kernels(False):
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))


@pytest.mark.parametrize("held", ["list(range(65))", "set(range(20))", "__import__('numpy').arange(20)"])
def test_tensors_of_numbers_that_nobody_asks_for_are_refused(held: str, bench: Callable[..., Bench]) -> None:
    text = NUMBERS.replace("self.pairs = [", f"self.held = {held}\n        self.pairs = [")
    with pytest.raises(CannotEmit, match="a constant"):
        write(bench(text))


BLOCKS = f"""{HEAD}class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.out = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        h = torch.tanh(self.up(self.norm(x)))
        if hasattr(self, "adapter"):
            h = h + h @ self.adapter
        if getattr(self, "gamma", None) is not None:
            h = h * self.gamma
        return x + torch.sigmoid(self.out(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block(), Block())

    def forward(self, x):
        return torch.tanh(self.blocks(x) * 1.5)


def get_inputs():
    return [torch.randn(16, 32)]
"""


def _transposed(part: Any) -> None:
    part.out.weight.data = part.out.weight.data.t()


@pytest.mark.parametrize("first", [True, False], ids=["called before", "not called"])
@pytest.mark.parametrize(
    "change",
    [
        _transposed,
        lambda part: part.register_parameter("adapter", torch.nn.Parameter(torch.eye(32))),
        lambda part: part.register_buffer("gamma", torch.linspace(0, 2, 32)),
        lambda part: setattr(part, "gamma", torch.linspace(0, 2, 32)),
    ],
    ids=["a weight transposed", "an adapter", "a buffer", "a tensor"],
)
def test_what_a_part_comes_to_have_is_seen(
    change: Callable[[Any], object], first: bool, bench: Callable[..., Bench]
) -> None:
    """Where the parts are too many to be said by name."""
    made = write(bench(BLOCKS))
    (x,) = made.one.inputs
    if first:
        with made.by_kernels(), torch.no_grad():
            close(made.one.model(x), made.new(x))
    for model in (made.one.model, made.new):
        change(model.blocks[1])
    with made.by_kernels(False), torch.no_grad():
        close(made.one.model(x), made.new(x))


INTEGERS = f"""{HEAD}class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x / 255 - 0.5).cumsum(0)


def get_inputs():
    return [torch.randint(0, 255, (32, 64))]
"""


def test_another_default_dtype_is_seen(bench: Callable[..., Bench]) -> None:
    made = write(bench(INTEGERS))
    with made.by_kernels():
        close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with made.by_kernels(False):
            close(made.one.model(*made.one.inputs), made.new(*made.one.inputs))
    finally:
        torch.set_default_dtype(before)


ADJACENT = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)

    def forward(self, adj, x):
        return F.relu(adj @ torch.tanh(self.lin(x))) + 1


def get_inputs():
    return [torch.rand(24, 24), torch.randn(24, 16)]
"""


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_a_sparse_input_is_left_to_the_own_forward(bench: Callable[..., Bench]) -> None:
    made = write(bench(ADJACENT))
    adj, x = made.one.inputs
    with made.by_kernels(), torch.no_grad():
        close(made.one.model(adj, x), made.new(adj, x))
    for sparse in (adj.to_sparse_csr(), adj.to_sparse()):
        with made.by_kernels(False), torch.no_grad():
            close(made.one.model(sparse, x), made.new(sparse, x))
