"""Configurations and modules travel to a candidate as arguments, and tables lay tensors out as they say."""

from __future__ import annotations

import dataclasses
import functools
import json
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.inputs import making
from stark_lsp.judge.transport import values


class Config:
    def __init__(self) -> None:
        self.width = 8
        self.inner = SimpleNamespace(act="gelu", sizes=(1, 2))


def there_and_back(tree: Any, known: Any = None) -> Any:
    return values.decode(json.loads(json.dumps(values.encode(tree, []))), [], lambda name: known)


def test_a_configuration_arrives_with_all_its_attributes() -> None:
    made = there_and_back(Config())
    assert (made.width, made.inner.act, made.inner.sizes) == (8, "gelu", (1, 2))
    assert isinstance(there_and_back(Config(), Config), Config)


@dataclasses.dataclass
class Fields:
    width: int

    def __post_init__(self) -> None:
        self._attention, self._cache = "eager", iter([])


def test_a_dataclass_arrives_with_what_it_keeps_besides_its_fields() -> None:
    made = there_and_back(Fields(3), Fields)
    assert (made.width, made._attention) == (3, "eager")
    assert there_and_back(Fields(3)).width == 3


def hooked() -> torch.nn.Module:
    layer = torch.nn.Linear(2, 2)
    layer.register_forward_hook(print)
    return layer


def test_a_module_arrives_with_its_weights_and_as_one_of_its_own() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)).eval()
    layer[0].weight.requires_grad_(False)
    tensors: list[torch.Tensor] = []
    skeleton = json.loads(json.dumps(values.encode(layer, tensors)))
    made = values.decode(skeleton, [tensor.detach().clone() for tensor in tensors])
    x = torch.randn(5, 3)
    assert torch.equal(made(x), layer(x))
    assert list(made.state_dict()) == list(layer.state_dict())
    made[0].weight.data.zero_()
    assert layer[0].weight.any()


def test_partial_calls_and_torchs_classes_arrive_where_the_file_has_others_of_that_name() -> None:
    made = there_and_back(functools.partial(torch.nn.LayerNorm, eps=0.5), known=Config)
    assert made(3).eps == 0.5
    assert isinstance(made(3), torch.nn.LayerNorm)


@pytest.mark.parametrize(
    "value", [object(), iter([]), SimpleNamespace(f=iter([])), functools.partial(iter, iter([])), hooked()]
)
def test_what_is_more_than_attributes_is_refused(value: object) -> None:
    with pytest.raises(values.NotPlain):
        values.encode(value, [])


def test_a_table_lays_a_tensor_out_by_its_strides() -> None:
    table = {"args": [{"shape": [2, 3, 4], "strides": [12, 1, 3]}]}
    maker = making.InputMaker(SimpleNamespace(), {"source": "table", "table": table}, "m.py")  # type: ignore[arg-type]
    (made,), _ = maker.inputs(1)
    assert made.stride() == (12, 1, 3)
