"""Inputs are made where they are needed, unless the user's function does not bear that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.inputs import making

FUNCTIONS = {"source": "functions", "inputs_function": "get_inputs"}


def maker(get_inputs: Any) -> making.InputMaker:
    return making.InputMaker(SimpleNamespace(get_inputs=get_inputs), FUNCTIONS, "m.py")  # type: ignore[arg-type]


def test_what_names_no_device_is_made_where_it_is_needed() -> None:
    made = maker(lambda: [torch.randn(3), torch.randn(3, device="cpu"), 2.0])
    (x, y, _), _ = made.inputs(1, "meta")
    assert (x.device.type, y.device.type) == ("meta", "cpu")
    # Nothing of it stays behind.
    assert torch.randn(1).device.type == "cpu"
    table = {"source": "table", "table": {"args": [{"shape": [2, 3], "kind": "rand"}]}}
    (x,), _ = making.InputMaker(SimpleNamespace(), table, "m.py").inputs(1, "meta")  # type: ignore[arg-type]
    assert x.device.type == "meta"


def test_a_function_that_does_not_bear_it_is_called_as_usual_from_then_on() -> None:
    devices = []

    def through_numpy() -> list[Any]:
        x = torch.rand(4)
        devices.append(x.device.type)
        return [torch.from_numpy(x.numpy() * 2)]

    made = maker(through_numpy)
    first, again = made.inputs(7, "meta"), made.inputs(7, "meta")
    assert devices == ["meta", "cpu", "cpu"]
    assert torch.equal(first[0][0], again[0][0])
    torch.manual_seed(7)
    assert torch.equal(first[0][0], torch.rand(4) * 2)


def test_what_raises_anywhere_is_told() -> None:
    def broken() -> list[Any]:
        raise ValueError("no data")

    with pytest.raises(making.Bad, match="no data"):
        maker(broken).inputs(1, "meta")

    with pytest.raises(making.Bad, match=r"get_inputs\(\) returned None"):
        maker(lambda: None).inputs(1)
    assert maker(list).inputs(1) == ((), {})


def test_what_a_table_draws_lies_where_it_says() -> None:
    args = [
        {"shape": [500], "dtype": "int64", "low": 3, "high": 6},
        {"shape": [500], "dtype": "uint8", "high": 2},
        {"shape": [500], "low": -2.0, "high": -1.0},
        {"shape": [500], "dtype": "int32"},
    ]
    table = {"source": "table", "table": {"args": args}}
    (i, u, x, plain), _ = making.InputMaker(SimpleNamespace(), table, "m.py").inputs(1)  # type: ignore[arg-type]
    assert (i.dtype, u.dtype, x.dtype) == (torch.int64, torch.uint8, torch.float32)
    assert (set(i.tolist()), set(u.tolist())) == ({3, 4, 5}, {0, 1})
    assert (x.min() >= -2, x.max() <= -1) == (True, True)
    assert plain.min() < 0, "rounded, as without a range before"
