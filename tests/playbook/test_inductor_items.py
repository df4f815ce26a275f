"""Inputs in tuples, lists and dicts, and lists of tensors that parts hold, in what torch.compile writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stark_lsp.judge.analysis import NotTraceable
from stark_lsp.judge.correctness import stepping
from stark_lsp.judge.reference import modules

from .conftest import Bench, close
from .playbook_cases import HEAD
from .written import STEP, Written, write

pytestmark = pytest.mark.usefixtures("several_threads")
RARE = [pytest.mark.slow, pytest.mark.ci]
"""Marks of what `make test` leaves to CI, which looks for `mark.ci` in the files themselves."""

ROTARY = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(16, 16)

    def forward(self, x, position_embeddings, *rest, scale=1.0, **more):
        cos, sin = position_embeddings
        q = self.query(x)
        a, b = q.chunk(2, -1)
        return torch.tanh(q * cos + torch.cat((-b, a), -1) * sin) * scale


def get_inputs():
    return [torch.randn(4, 8, 16), (torch.rand(8, 16), torch.rand(8, 16))]
"""
PYRAMID = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, 8, 1) for c in (4, 6))

    def forward(self, features):
        fine, coarse = (one(x).tanh() for one, x in zip(self.lateral, features))
        return [F.interpolate(coarse, size=features[2].shape[-2:]), fine]


def get_inputs():
    return [[torch.randn(2, 4, 8, 8), torch.randn(2, 6, 4, 4), torch.randn(2, 8, 12, 12)]]
"""
STATE = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 8)

    def forward(self, batch):
        (h, c), step = batch["state"], batch["step"]
        h = torch.tanh(self.cell(batch["x"]) + h) * step
        return {{"y": h * c.sigmoid(), "state": (h, c * 2)}}


def get_inputs():
    return [{{"x": torch.randn(4, 8), "state": (torch.randn(4, 8), torch.randn(4, 8)), "step": 3, "mask": None}}]
"""
ANCHORS = f"""{HEAD}class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = [torch.full((3, 4), 0.5), torch.full((3, 4), 1.5)]

    def forward(self, x):
        return [(x[:, None] * cell.to(x.dtype)).tanh() for cell in self.cells]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4))
        self.boxes = Boxes()

    def forward(self, x):
        return torch.cat(self.boxes(x * self.scale), 1)


def get_inputs():
    return [torch.randn(8, 4)]
"""


def stepped(model: torch.nn.Module, inputs: list[Any]) -> tuple[Any, list[torch.Tensor | None]]:
    """Return what a model gives, and the gradients of what it is given and of its parameters."""
    leaves: list[torch.Tensor] = []

    def leaf(x: torch.Tensor) -> torch.Tensor:
        leaves.append(x.detach().requires_grad_())
        return leaves[-1]

    out = model(*modules.map_tensors(inputs, leaf))
    sum((x.square().mean() for x in stepping.in_order(out)), torch.zeros((), device=leaves[0].device)).backward()
    return out, [x.grad for x in (*leaves, *model.parameters())]


def alike(one: Bench, recipe: dict[str, Any] | None = None) -> Written:
    """Write the candidate of a module, and assert that its kernels give the same results and gradients."""
    one.model.train(recipe is not None)
    made = write(one, recipe)
    made.new.train(recipe is not None)
    expected, slopes = stepped(one.model, one.inputs)
    with made.by_kernels(method="_backward" if recipe else "_compiled"):
        found, others = stepped(made.new, one.inputs)
    close(found, expected)
    for slope, other in zip(slopes, others, strict=True):
        torch.testing.assert_close(other, slope)
    return made


@pytest.mark.parametrize(
    ("text", "recipe"),
    [
        pytest.param(ROTARY, STEP, id="tuple-backward"),
        pytest.param(ROTARY, None, id="tuple-forward", marks=RARE),
        pytest.param(PYRAMID, STEP, id="list-backward", marks=RARE),
        pytest.param(PYRAMID, None, id="list-forward", marks=RARE),
        pytest.param(STATE, STEP, id="dict-backward", marks=RARE),
        pytest.param(STATE, None, id="dict-forward", marks=RARE),
    ],
)
def test_each_tensor_within_an_input_is_one_of_the_programs(
    text: str, recipe: dict[str, Any] | None, bench: Callable[..., Bench]
) -> None:
    # Though of a pyramid one input is not read.
    alike(bench(text), recipe)


OTHERS: dict[str, tuple[Callable[..., list[Any]], ...]] = {
    ROTARY: (  # a list, another length, another shape
        lambda x, at: [x, [*at]],
        lambda x, at: [x, at, x],
        lambda x, at: [x, (at[0], at[1][:1])],
    ),
    PYRAMID: (lambda xs: [[*xs, xs[0]]], lambda xs: [[*xs[:2], xs[2][..., :6, :6]]]),  # of one that is not read
    STATE: (
        lambda batch: [{**batch, "step": 2}],
        lambda batch: [{**batch, "mask": batch["x"]}],
        lambda batch: [{**batch, "more": batch["x"]}],
    ),
}


@pytest.mark.parametrize("text", OTHERS, ids=["tuple", "list", "dict"])
def test_other_kinds_and_lengths_are_handed_over(text: str, bench: Callable[..., Bench]) -> None:
    made = write(bench(text))
    for change in OTHERS[text]:
        given = change(*made.one.inputs)
        with torch.no_grad(), made.by_kernels(False):
            close(made.new(*given), made.one.model(*given))
        with torch.no_grad(), made.by_kernels():
            made.new(*made.one.inputs)
    if text is ROTARY:
        with torch.no_grad(), made.by_kernels(False):
            close(made.new(*made.one.inputs, other=1), made.one.model(*made.one.inputs, other=1))
        # A tensor of one number equals that number.
        scale = torch.tensor(1.0, requires_grad=True)
        with made.by_kernels(False):
            made.new(*made.one.inputs, scale=scale).sum().backward()
        assert scale.grad is not None


def test_what_a_call_changes_in_an_input_is_no_constant(bench: Callable[..., Bench]) -> None:
    text = STATE.replace("        return {", "        batch['x'] = h\n        return {")
    with pytest.raises(NotTraceable, match="changes its inputs in place"):
        write(bench(text))
    with pytest.raises(NotTraceable, match=r"it changes self\.boxes\.cells"):
        write(bench(ANCHORS.replace("return [(x[", "self.cells.append(x[:3])\n        return [(x[")))


@pytest.mark.slow
@pytest.mark.ci
def test_tensors_that_are_one_may_be_told_apart_later(bench: Callable[..., Bench]) -> None:
    text = ANCHORS.replace("self.boxes = Boxes()", "self.boxes, self.more = Boxes(), nn.ModuleDict({'3 x': Boxes()})")
    text = text.replace("self.scale =", "self.register_buffer('base', torch.full((3, 4), 0.5))\n        self.scale =")
    text = text.replace("return torch.cat(self.boxes(x * self.scale), 1)", LAST)
    one = bench(text)
    one.model.boxes.cells[0] = one.model.base
    one.model.more["3 x"].cells = one.model.boxes.cells
    made = write(one)
    for change in CHANGES:
        models = [one.model, made.new]
        made.new.load_state_dict(one.model.state_dict())
        for model in models:
            model.boxes.cells = [model.base, torch.full((3, 4), 1.5)]
            model.more["3 x"].cells = model.boxes.cells
        with torch.no_grad(), made.by_kernels():
            close(made.new(*one.inputs), one.model(*one.inputs))
        for model in models:
            change(model)
        with torch.no_grad(), made.by_kernels(False):
            close(made.new(*one.inputs), one.model(*one.inputs))


LAST = "return torch.cat([*self.boxes(x * self.scale), *self.more['3 x'](x), (x[:, None] + self.base).tanh()], 1)"
CHANGES: tuple[Callable[[Any], object], ...] = (
    lambda model: setattr(model.boxes, "cells", [torch.full((3, 4), 0.2), torch.full((3, 4), 0.3)]),
    lambda model: setattr(model.more["3 x"], "cells", [torch.full((3, 4), 0.2), torch.full((3, 4), 0.3)]),
    lambda model: model.boxes.cells.__setitem__(0, torch.full((3, 4), 0.2)),
    lambda model: setattr(model, "base", torch.full((3, 4), 0.2)),
)


@pytest.mark.slow
@pytest.mark.ci
def test_a_cell_returns_its_state_twice_and_what_it_was_given(bench: Callable[..., Bench]) -> None:
    text = STATE.replace(
        'return {"y": h * c.sigmoid(), "state": (h, c * 2)}', 'return {**batch, "y": h, "state": (h, c * 2)}'
    )
    for recipe in (None, STEP):
        made = alike(bench(text), recipe)
        (given,) = made.one.inputs
        found = made.new(given)
        assert list(found) == list(made.one.model(given))
        assert found["x"] is given["x"]


@pytest.mark.slow
@pytest.mark.ci
def test_names_that_end_alike_are_told_apart(bench: Callable[..., Bench]) -> None:
    text = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 8)

    def forward(self, states, all_states, _x1, mode="states[0]"):
        y = self.cell(states[0]) * all_states[0] + _x1
        return torch.tanh(y) if mode == "states[0]" else y.exp()


def get_inputs():
    return [[torch.randn(4, 8)], [torch.randn(4, 8)], torch.randn(4, 8)]
"""
    alike(bench(text))


@pytest.mark.slow
@pytest.mark.ci
def test_lists_of_tensors_that_parts_hold_are_read_anew(bench: Callable[..., Bench]) -> None:
    made = write(bench(ANCHORS))
    for new in (made.one.model, made.new):
        new.boxes.cells[1] = torch.full((3, 4), 0.3)
    with torch.no_grad(), made.by_kernels():
        close(made.new(*made.one.inputs), made.one.model(*made.one.inputs))
    for new in (made.one.model, made.new):
        new.boxes.cells.append(torch.full((3, 4), 0.7))
    with torch.no_grad(), made.by_kernels(False):
        close(made.new(*made.one.inputs), made.one.model(*made.one.inputs))
