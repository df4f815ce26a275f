"""Inputs are tried in a real worker, mended, and said to fail where they do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import DeviceChoice, Mode
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.stubs import make_stub
from stark_lsp.evaluation.trial import Outcome, find_inputs

TEN = (Path(__file__).parent.parent / "data" / "ten_classes.py").read_text()
HARD = """import torch
import torch.nn as nn

ACTS = {"relu": torch.relu}


class Odd(nn.Module):
    def __init__(self, config, act):
        super().__init__()
        self.act = ACTS[act]
        self.layer = nn.Linear(config.odd_width * 3, 5)

    def forward(self, x, scale=None):
        b, g, n, c = x.shape
        assert n == 21
        if scale is None:
            raise ValueError("scale is needed")
        return self.act(self.layer(x)) * scale.sum()


class Handed(nn.Module):
    def __init__(self, wide, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(wide, wide, **kwargs)

    def forward(self, x):
        return self.conv(x)


class Turned(nn.Module):
    def __init__(self, a: int, b: int):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x):
        return torch.swapaxes(x, self.a, self.b)


class Around(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x) + x


class Made(nn.Module):
    def __init__(self, dim, first, act_layer, conv_layer):
        super().__init__()
        self.layers = nn.Sequential(conv_layer(dim, dim, kernel_size=3), first(dim), act_layer())

    def forward(self, x):
        return self.layers(x)


class Agreeing(nn.Module):
    def __init__(self, inplanes, planes):
        super().__init__()
        self.conv = nn.Conv2d(inplanes, planes * 4, 1)

    def forward(self, x):
        return self.conv(x) + x


class Strided(nn.Module):
    def __init__(self, kernel_size, stride=None):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride

    def forward(self, x):
        n, c, h, w = x.shape
        return nn.functional.pad(x, (0, -h % self.stride))


class Configured(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.sliding = config.kinds[layer_idx] == config.layer_types[layer_idx]
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * 64)

    def forward(self, hidden_states):
        return self.v_proj(hidden_states)


class Early(nn.Module):
    def __init__(self, width):
        if width > 100:
            raise ValueError("width is too large")
        super().__init__()

    def forward(self, x):
        return x * 2


class Never(nn.Module):
    def forward(self, x):
        raise RuntimeError("the moon is not full")
"""


async def tried(path: Path, text: str, *names: str) -> dict[str, Outcome]:
    """Try several classes of a document in one worker."""
    path.write_text(text)
    found = {}
    for name in names:
        found[name] = await find_inputs(
            make_stub(text, name),
            str(path),
            interpreter=sys.executable,
            device=DeviceChoice.CPU,
            mode=Mode.EVAL,
            log=lambda line: None,
        )
    return found


async def test_ten_ordinary_classes_run(tmp_path: Path) -> None:
    names = [found.qualname for found in find_modules(TEN)]
    assert len(names) == 10
    outcomes = await tried(tmp_path / "ten.py", TEN, *names)
    assert {name: outcome.failure.said for name, outcome in outcomes.items() if outcome.failure is not None} == {}
    shape = outcomes["CausalSelfAttention"].draft.tensors()[0].shape
    assert shape == (8, 128, 128), "what runs is written in sizes worth optimizing for"


async def test_what_a_message_says_is_mended_and_what_cannot_be_is_told(tmp_path: Path) -> None:
    outcomes = await tried(tmp_path / "hard.py", HARD, "Odd", "Never")
    odd, never = outcomes["Odd"], outcomes["Never"]
    assert odd.failure is None
    assert '"relu"' in odd.draft.init[1].value.text
    assert odd.draft.tensors()[0].shape[2] == 21
    assert any(argument.name == "scale" for argument in odd.draft.call)
    assert never.failure is not None
    assert never.failure.said == "RuntimeError: the moon is not full"


async def test_layers_dimensions_and_sizes_that_go_together_are_found(tmp_path: Path) -> None:
    names = ["Handed", "Turned", "Around", "Made", "Agreeing", "Strided", "Configured", "Early"]
    outcomes = await tried(tmp_path / "hard.py", HARD, *names)
    assert {name: outcome.failure.said for name, outcome in outcomes.items() if outcome.failure is not None} == {}
    assert outcomes["Around"].draft.init[0].value.text == "nn.Identity()"
    assert [argument.value.text for argument in outcomes["Agreeing"].draft.init] == ["256", "64"]


async def test_a_file_that_does_not_load_is_bad_input(tmp_path: Path) -> None:
    text = "import torch\nimport not_there_at_all\nclass Model(torch.nn.Module):\n  def forward(self, x): return x\n"
    with pytest.raises(BadInput, match="not_there_at_all"):
        await find_inputs(
            make_stub(text, "Model"),
            str(tmp_path / "m.py"),
            interpreter=sys.executable,
            device=DeviceChoice.CPU,
            mode=Mode.EVAL,
            log=lambda line: None,
        )
