"""The record of one call: operations, lines, names, assumptions, and what is refused."""

from __future__ import annotations

import builtins
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from stark_lsp.judge.analysis import NotTraceable, analyze

HEAD = "import math\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], ModuleType]:
    def make(text: str) -> ModuleType:
        path = tmp_path / "recorded.py"
        path.write_text(HEAD + text)
        spec = importlib.util.spec_from_file_location(f"recorded_{abs(hash(str(tmp_path)))}", path)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return make


def record(file: Callable[[str], ModuleType], body: str, *inputs: Any, init: str = "pass") -> dict[str, Any]:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    names = ", ".join("xyz"[: len(inputs)])
    module = file(
        f"class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, {names}):\n{lines}\n"
    )
    data = analyze(module.M().eval(), inputs, {})
    return json.loads(json.dumps(data, allow_nan=False))  # type: ignore[no-any-return]


def calls(data: dict[str, Any]) -> list[str]:
    return [node["target"] for node in data["nodes"] if node["op"] == "call"]


def test_operations_carry_lines_names_shapes_and_times(file: Callable[[str], ModuleType]) -> None:
    data = record(file, "y = torch.tanh(x)\nz = y * 2\nreturn z", torch.randn(4, 8))
    tanh, mul = [node for node in data["nodes"] if node["op"] == "call"]
    assert (tanh["target"], mul["target"]) == ("torch.tanh", "Tensor.mul")
    assert [frame["line"] for frame in tanh["frames"]] == [13]
    assert [frame["line"] for frame in mul["frames"]] == [14]
    assert tanh["names"] == {"0": "y"}
    assert tanh["outputs"][0]["shape"] == [4, 8]
    assert tanh["bytes"] == 2 * 4 * 8 * 4
    assert tanh["time_ms"] > 0
    assert data["bandwidth_gbs"] > 0


def test_sizes_stay_symbolic_and_comparisons_become_assumptions(file: Callable[[str], ModuleType]) -> None:
    body = "b, t = x.shape\nif t > 4:\n    return x.view(b * 2, t // 2)\nreturn x"
    data = record(file, body, torch.randn(4, 8))
    (view,) = [node for node in data["nodes"] if node["target"] == "Tensor.view"]
    assert view["args"][1]["value" if "value" in view["args"][1] else "scalar"] == 8
    assert view["args"][1]["expr"][0] == "*"
    assert [(g["expr"][0], g["relation"], g["value"]) for g in data["guards"]] == [(">", "is", True)]


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("for _ in range(x.size(1)):\n    x = x * 2\nreturn x", 3),
        ("return x * float(x.size(1))", 3),
        ("return x * {3: 2.0}[x.size(1)]", 3),
        ("return x * [1, 2, 3, 4][int(x.size(1))]", 3),
        ("return x * len(x)", 5),
        ("return x * math.isqrt(x.size(1))", 3),
        ("return x * math.log(x.size(1), 2)", 3),
        ("return x * math.pow(x.size(1) * 1.0, 0.5)", 3),
        ("return x * x.size(1).bit_length()", 3),
        ("return x * 2 if (x.size(1) * 1.0).is_integer() else x", 3),
        ("return x * ~x.size(1)", 3),
        ("return x * (1 << x.size(1))", 3),
        ("return x * float(divmod(9, x.size(1))[0])", 3),
        ("return x * (x.size(0) ^ x.size(1))", 3),
    ],
)
def test_a_size_used_as_a_plain_number_is_an_assumption(
    file: Callable[[str], ModuleType], body: str, size: int
) -> None:
    data = record(file, body, torch.randn(5, 3))
    assert any(g["relation"] == "==" and g["value"] == size for g in data["guards"]) or any(
        g["relation"] == "is" and g["value"] for g in data["guards"]
    )


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:\n    return x\nreturn -x",
        "return x * x.max().item()",
        "return x * float(x[0, 0])",
        "return x * x.sum(1).tolist()[0]",
        "return x if torch.equal(x, x + 1) else -x",
    ],
)
def test_control_flow_on_data_is_refused_at_its_line(file: Callable[[str], ModuleType], body: str) -> None:
    with pytest.raises(NotTraceable) as caught:
        record(file, body, torch.randn(4, 8))
    assert caught.value.path is not None
    assert caught.value.path.endswith("recorded.py")
    assert caught.value.line == 13
    assert "tensor" in caught.value.message


def test_keeping_something_on_the_module_is_refused(file: Callable[[str], ModuleType]) -> None:
    with pytest.raises(NotTraceable, match=r"self\.last") as caught:
        record(file, "y = x * 2\nself.last = y\nreturn y", torch.randn(4, 4))
    assert caught.value.line == 14


def test_switching_autocast_inside_is_refused(file: Callable[[str], ModuleType]) -> None:
    with pytest.raises(NotTraceable, match="autocast"):
        record(file, "with torch.autocast('cpu', dtype=torch.bfloat16):\n    return x @ x", torch.randn(4, 4))


WEIGHT = "self.weight = nn.Parameter(torch.ones(8))"


@pytest.mark.parametrize("left_out", ["x.abs().max()", "self.weight.abs().max()", "(x * 2).relu().sum()"])
def test_leaving_gradients_out_of_what_is_learned_is_refused(file: Callable[[str], ModuleType], left_out: str) -> None:
    body = f"with torch.no_grad():\n    scale = {left_out}\nreturn x * self.weight / scale"
    with pytest.raises(NotTraceable, match="leaves gradients out"):
        record(file, body, torch.randn(8, 8), init=WEIGHT)


def test_what_no_gradient_leads_to_may_be_computed_without(file: Callable[[str], ModuleType]) -> None:
    body = (
        "kept = x.detach() * 2\nwith torch.no_grad():\n    p = torch.arange(8) * 0.5 + kept\nreturn x * self.weight + p"
    )
    data = record(file, body, torch.randn(8, 8), init=WEIGHT)
    assert "Tensor.detach" in [node["target"] for node in data["nodes"]]


def test_in_place_operations_are_ordinary_only_where_nobody_else_sees_them(file: Callable[[str], ModuleType]) -> None:
    data = record(file, "y = x * 2\ny += 1\nv = y[:1]\ny.relu_()\nreturn y + v", torch.randn(4, 4))
    flags = {n["target"]: n["safe_in_place"] for n in data["nodes"] if n["op"] == "call" and n["mutates"]}
    assert flags == {"Tensor.add_": True, "Tensor.relu_": False}


def test_changing_an_input_is_noticed(file: Callable[[str], ModuleType]) -> None:
    data = record(file, "x.mul_(2)\nreturn x + 1", torch.randn(4, 4))
    (node,) = [n for n in data["nodes"] if n["target"] == "Tensor.mul_"]
    assert node["mutates"]
    assert not node["safe_in_place"]


def test_numbers_of_the_module_are_remembered(file: Callable[[str], ModuleType]) -> None:
    data = record(file, "return x * self.k if self.on else x", torch.randn(2, 2), init="self.k = 1.5; self.on = True")
    assert data["attributes"] == {"self.k": 1.5, "self.on": True}
    (mul,) = [n for n in data["nodes"] if n["target"] == "Tensor.mul"]
    assert mul["args"][1] == {"scalar": 1.5, "expr": ["self", "self.k"]}


def test_settings_of_classes_and_in_dicts_are_remembered_as_far_as_they_are_read(
    file: Callable[[str], ModuleType],
) -> None:
    module = file(
        "class M(nn.Module):\n    k, unread, rows = 1.5, 3, {'a': 2}\n\n    def __init__(self):\n"
        "        super().__init__()\n        self.opts = {'alpha': 0.5, 'on': True, 'in': {1: 2.0}, 'unread': 1}\n"
        "        self._private, self.bias = 3, nn.Identity()\n        self.register_parameter('weight', None)\n\n"
        "    @property\n    def twice(self):\n        return 2.0\n\n    def more(self, x):\n        return x + 1\n\n"
        "    def forward(self, x):\n        y = x * self.opts['alpha'] * self.opts['in'][1] + self.twice\n"
        "        y = y if self.opts['on'] and self.weight is None else x\n"
        "        return self.more(y) * self.k + self.opts.get('beta', 1.0) + self._private + self.rows['a']\n"
    )
    data = analyze(module.M(), (torch.randn(2, 2),), {})
    assert data["attributes"] == {
        "self.opts['alpha']": 0.5, "self.opts['in'][1]": 2.0, "self.opts['on']": True, "self.k": 1.5,
        "self.opts.get('beta')": None, "self._private": 3, "self.rows['a']": 2, "self.weight": None,
        **{f"type({held}).__name__": "dict" for held in ("self.opts", "self.opts['in']", "self.rows")},
        **{f"type(self).{one} == __class__.{one}": True for one in ("more", "twice")},
    }  # fmt: skip
    first = next(node for node in data["nodes"] if node["target"] == "Tensor.mul")
    assert first["args"][1] == {"scalar": 0.5, "expr": ["self", "self.opts['alpha']"]}


def test_a_dict_of_the_module_is_passed_on_as_the_code_sees_it(file: Callable[[str], ModuleType]) -> None:
    module = file(
        "def f(x, a, b):\n    return x * a + b\n\n\nclass M(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.opts, self.sums = {'a': 2.0, 'b': 1.0}, {'c': 3.0}\n"
        "        self.kept = {'d': 1}\n\n    def forward(self, x):\n"
        "        return f(x, **self.opts) + sum(self.sums.values()), self.kept\n"
    )
    data = analyze(module.M(), (torch.randn(2, 2),), {})
    assert data["attributes"] == {
        "self.opts['a']": 2.0,
        "self.opts['b']": 1.0,
        "self.sums['c']": 3.0,
        "self.kept['d']": 1,
        **{f"type({held}).__name__": "dict" for held in ("self.opts", "self.sums", "self.kept")},
        "repr(list(self.opts))": "['a', 'b']",
        "repr(list(self.sums))": "['c']",
        "repr(list(self.kept))": "['d']",
    }
    assert data["output"]["tuple"][1]["dict"][0][0] == "d"


def test_constants_of_the_file_are_remembered_as_far_as_forward_reaches_them(file: Callable[[str], ModuleType]) -> None:
    module = file(
        "A, B, C, D, E, gain, UNREAD, INIT = 1, 2.0, True, 'text', (1, 2), 3, 4, 5\nLONG = 'x' * 1000\n\n\n"
        "def through(x):\n    return [helper(x) for _ in range(A)][0] if LONG else x\n\n\n"
        "@torch.no_grad()\ndef size():\n    return B\n\n\ndef helper(x):\n    return x * size()\n\n\n"
        "def unused():\n    return UNREAD\n\n\n"
        "class Part(nn.Module):\n    @property\n    def on(self):\n        return C\n\n    @staticmethod\n"
        "    def of():\n        return D\n\n    def other(self):\n        return UNREAD\n\n"
        "    def forward(self, x):\n        return x if self.on and self.of() else -x\n\n\n"
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.part = Part()\n"
        "        self.gain = float(INIT)\n\n    def forward(self, x):\n"
        "        return self.part(through(x)) * self.gain + E[0]\n"
    )
    data = analyze(module.M(), (torch.randn(2, 2),), {})
    assert data["attributes"] == {"self.gain": 5.0, "A": 1, "B": 2.0, "C": True, "D": "text", "E": [1, 2]}


def test_modules_whose_forward_was_followed_are_told_with_their_classes(file: Callable[[str], ModuleType]) -> None:
    module = file(
        "def act():\n    class Act(nn.Module):\n        def forward(self, x):\n            return x.tanh()\n"
        "    return Act()\n\n\n"
        "class Half(nn.Module):\n    def forward(self, x):\n        return x / 2\n    def more(self, x):\n"
        "        return x + 1\n\n\n"
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers, self.part = nn.Sequential(act(), nn.GELU()), Half()\n        self.other = Half()\n\n"
        "    def forward(self, x):\n        return self.other.more(self.part(self.layers(x)))\n"
    )
    data = analyze(module.M(), (torch.randn(2, 2),), {})
    assert data["modules"] == {
        "self.layers": {"class": "nn.Sequential", "named": False, "length": 2},
        "self.layers[0]": {"class": "Act", "named": False},
        "self.part": {"class": "Half", "named": True},
        "self.other": {"class": "Half", "named": True},
    }


def test_modules_of_torch_are_one_operation_with_their_settings(file: Callable[[str], ModuleType]) -> None:
    init = "self.layers = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps=1e-6))"
    data = record(file, "return self.layers(x)", torch.randn(2, 8), init=init)
    linear, norm = [n["module"] for n in data["nodes"] if n["op"] == "module"]
    assert (linear["path"], norm["path"]) == ("self.layers[0]", "self.layers[1]")
    assert norm["attributes"]["eps"] == 1e-6
    assert norm["tensors"]["bias"]["shape"] == [8]


def test_a_set_is_told_in_an_order_that_other_processes_have(file: Callable[[str], ModuleType]) -> None:
    data = record(file, "return x * len(self.k)", torch.randn(2, 2), init="self.k = frozenset('fedcba')")
    told = {"type(self.k).__name__ == 'frozenset'": True, "repr(sorted(self.k, key=repr))": str(list("abcdef"))}
    assert data["attributes"] == told


def test_infinite_settings_are_told_as_such(file: Callable[[str], ModuleType]) -> None:
    """JSON has no infinity: as a text it would be compared with, and found to be another setting."""
    init = "self.act = nn.Hardtanh(0.0, math.inf); self.j, self.k = math.inf, (0.5, math.inf)"
    data = record(file, "return self.act(x).clamp(*self.k) * self.j", torch.randn(2, 2), init=init)
    (module,) = [n["module"] for n in data["nodes"] if n["op"] == "module"]
    assert module["attributes"]["max_val"] == {"float": "inf"}
    assert data["attributes"] == {"self.j": {"float": "inf"}, "repr(self.k)": "(0.5, inf)"}


def test_everything_is_put_back_afterwards(file: Callable[[str], ModuleType]) -> None:
    before = (torch.nn.Module.__call__, math.sqrt)
    module = file("class M(nn.Module):\n    def forward(self, x):\n        return x * math.sqrt(x.size(0))\n")
    model = module.M()
    analyze(model, (torch.randn(4, 2),), {})
    assert (torch.nn.Module.__call__, math.sqrt) == before
    assert "__getattribute__" not in vars(module.M)
    assert "range" not in vars(module)
    assert builtins.range is range
    assert type(model(torch.randn(4, 2))) is torch.Tensor
    with pytest.raises(NotTraceable):
        analyze(file("class M(nn.Module):\n    def forward(self, x):\n        return x * x.sum().item()\n").M(),
                (torch.randn(4, 2),), {})  # fmt: skip
    assert (torch.nn.Module.__call__, math.sqrt) == before


def test_the_result_of_the_module_is_not_changed_by_recording(file: Callable[[str], ModuleType]) -> None:
    module = file("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                  "        self.norm = nn.BatchNorm1d(4)\n\n    def forward(self, x):\n"
                  "        return self.norm(x)\n")  # fmt: skip
    model = module.M().train()
    x = torch.randn(8, 4)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    analyze(model, (x,), {})
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


@pytest.mark.parametrize(
    ("before", "returned", "result"),
    [
        (
            "class ModelOutput(OrderedDict):\n"
            "    def __post_init__(self):\n"
            "        self['hidden'] = self.__dict__['hidden']\n\n\n"
            "@dataclass\nclass Out(ModelOutput):\n    hidden: torch.Tensor = None\n    kept: torch.Tensor = None\n\n\n",
            "Out(hidden=y)",
            {"call": "Out", "fields": [["hidden", {"ref": [1, 0]}], ["kept", None]]},
        ),
        ("", "OrderedDict(hidden=y)", {"dict": [["hidden", {"ref": [1, 0]}]]}),
        ("class Out(dict):\n    pass\n\n\n", "Out(hidden=y)", None),
    ],
    ids=["as transformers'", "a dict", "another dict"],
)
def test_a_result_is_made_again_as_what_it_is(
    file: Callable[[str], ModuleType], before: str, returned: str, result: dict[str, Any] | None
) -> None:
    imports = "from collections import OrderedDict\nfrom dataclasses import dataclass\n\n\n"
    forward = f"    def forward(self, x):\n        y = torch.tanh(x)\n        return {returned}\n"
    module = file(f"{imports}{before}class M(nn.Module):\n{forward}")
    if result is None:
        with pytest.raises(NotTraceable, match="a value of type Out"):
            analyze(module.M(), (torch.randn(4, 8),), {})
        return
    assert analyze(module.M(), (torch.randn(4, 8),), {})["output"] == result
