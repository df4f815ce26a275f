"""Inputs are tried in a real worker, mended, and said to fail where they do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import DeviceChoice, Mode
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.drafting.stubs import make_stub
from stark_lsp.evaluation.trial import Outcome, find_inputs
from stark_lsp.judge.inputs.trial import SEEDS, Trial

TEN = (Path(__file__).parent.parent / "data" / "ten_classes.py").read_text()
HARD = """import os
from typing import List, Optional, Tuple

import torch
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


class Tokens(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layer = nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, x, H, W):
        b, n, c = x.shape
        return self.layer(x.transpose(1, 2).reshape(b, c, H, W)).flatten(2)


class Pooled(nn.Module):
    def forward(self, x, thw: Tuple[int, int, int]):
        first, rest = x[:, :1], x[:, 1:]
        b, n, c = rest.shape
        return first, rest.transpose(1, 2).reshape((b, c) + thw)


class Rotated(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.layer = nn.Linear(dim, dim)

    def forward(self, hidden_states, position_embeddings=None):
        b, n, c = hidden_states.shape
        q = self.layer(hidden_states).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        cos, sin = position_embeddings
        return q * cos.unsqueeze(1) + q * sin.unsqueeze(1)


class Windows(nn.Module):
    def __init__(self, window_size: List[int], shift_size: List[int]):
        super().__init__()
        if len(window_size) != 3 or len(shift_size) != 3:
            raise ValueError("windows and shifts have three sizes")
        self.shift_size = shift_size

    def forward(self, x):
        return x.roll(self.shift_size, (1, 2, 3))


class Volume(nn.Module):
    def __init__(self, dim, norm_layer, kernel: List[int], stride: List[int]):
        super().__init__()
        self.layer, self.norm = nn.Conv3d(dim, 8, kernel, stride), norm_layer(8)

    def forward(self, x):
        b, c, t, h, w = x.shape
        return self.norm(self.layer(x))


class Staged(nn.Module):
    def __init__(self, depth, drop_path_rates: List[float]):
        super().__init__()
        assert depth >= 9
        self.drops = nn.Sequential(*(nn.Dropout(drop_path_rates[i]) for i in range(depth)))

    def forward(self, x):
        return self.drops(x)


class Normed(nn.Module):
    def __init__(self, dim, norm_layer=None):
        super().__init__()
        self.layer = nn.Linear(dim, dim)
        self.norm = norm_layer(dim)

    def forward(self, x):
        b, n, c = x.shape
        return self.norm(self.layer(x))


class Summed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(768, 96)

    def forward(self, hidden_states, input_tensor):
        b, n, c = input_tensor.shape
        return self.layer(hidden_states + input_tensor)


class Counts:
    def __init__(self, n_routed_experts=None):
        self.n_routed_experts = n_routed_experts


class Routed(nn.Module):
    def __init__(self, config: Counts):
        super().__init__()
        self.num_experts = config.n_routed_experts
        self.weight = nn.Parameter(torch.ones(self.num_experts, 16))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class Ending(nn.Module):
    def __init__(self, width):
        super().__init__()
        if width > 200:
            os._exit(3)
        self.layer = nn.Linear(width, 8)

    def forward(self, x):
        return self.layer(x)


class Gate(nn.Module):
    def __init__(self, *, size, width):
        super().__init__()
        self.layer, self.width = nn.Conv2d(size + width, width, 3, padding=1), width

    def forward(self, h, x):
        return torch.tanh(self.layer(torch.cat([h, x], dim=1)))


class LastHead(nn.Module):
    def __init__(self, *, in_channels, width):
        super().__init__()
        self.layer = nn.Conv2d(in_channels, width, 3)

    def forward(self, x):
        return self.layer(x)


class Updated(nn.Module):
    def __init__(self, *, gate, last_head):
        super().__init__()
        self.gate, self.last_head, self.width = gate, last_head, gate.width

    def forward(self, state, flow):
        return self.last_head(self.gate(state, torch.cat([flow, flow[:, :8]], dim=1)))


class WindowCfg:
    def __init__(self, window_size=None):
        self.window_size = window_size


class Windowed(nn.Module):
    def __init__(self, dim: int, cfg: WindowCfg = WindowCfg()):
        super().__init__()
        self.width = cfg.window_size
        self.layer = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.ones(self.area(self.width), dim))

    def area(self, side):
        return side * side

    def forward(self, x):
        b, n, c = x.shape
        return self.layer(x) + self.table


class Inner(nn.Module):
    def forward(self, x, cache, memory, mask):
        first, second = memory
        return x * first + x * second


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x, cache=None, mask=None, memory=None):
        b, n, c = x.shape
        return self.inner(x, cache, memory, mask)


class Asked(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layer = nn.Linear(dim, 2 * dim)

    def forward(self, x, query: Optional[torch.Tensor] = None):
        b, n, c = x.shape
        if query is not None:
            return self.layer(x).reshape(b, n, 2, c) * query.unsqueeze(2)
        return self.layer(x).reshape(b, n, 3, c)


class Packed(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.lstm = nn.LSTM(d, d, batch_first=True)

    def forward(self, x, lens):
        packed = nn.utils.rnn.pack_padded_sequence(x, lens, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


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


@pytest.mark.slow
async def test_ten_ordinary_classes_run(tmp_path: Path) -> None:
    names = [found.qualname for found in find_modules(TEN)]
    assert len(names) == 10
    outcomes = await tried(tmp_path / "ten.py", TEN, *names)
    assert {name: outcome.failure.said for name, outcome in outcomes.items() if outcome.failure is not None} == {}


# In every run of the tests one does in a server, see tests/e2e/test_e2e_inputs.py, and one does not.
@pytest.mark.slow
async def test_an_ordinary_class_runs_in_sizes_worth_optimizing_for(tmp_path: Path) -> None:
    outcomes = await tried(tmp_path / "ten.py", TEN, "CausalSelfAttention")
    assert outcomes["CausalSelfAttention"].failure is None
    shape = outcomes["CausalSelfAttention"].draft.tensors()[0].shape
    assert shape == (8, 128, 128), "what runs is written in sizes worth optimizing for"


async def test_what_a_message_says_is_mended(tmp_path: Path) -> None:
    odd = (await tried(tmp_path / "hard.py", HARD, "Odd"))["Odd"]
    assert odd.failure is None
    assert '"relu"' in odd.draft.init[1].value.text
    assert odd.draft.tensors()[0].shape[2] == 21
    assert any(argument.name == "scale" for argument in odd.draft.call)


@pytest.mark.slow
async def test_what_cannot_be_mended_is_told(tmp_path: Path) -> None:
    never = (await tried(tmp_path / "hard.py", HARD, "Never"))["Never"]
    assert never.failure is not None
    assert never.failure.said == "RuntimeError: the moon is not full"


@pytest.mark.slow
async def test_layers_dimensions_and_sizes_that_go_together_are_found(tmp_path: Path) -> None:
    names = ["Handed", "Turned", "Around", "Made", "Agreeing", "Strided", "Configured", "Early"]
    outcomes = await tried(tmp_path / "hard.py", HARD, *names)
    assert {name: outcome.failure.said for name, outcome in outcomes.items() if outcome.failure is not None} == {}
    assert outcomes["Around"].draft.init[0].value.text == "nn.Identity()"
    assert [argument.value.text for argument in outcomes["Agreeing"].draft.init] == ["256", "64"]


@pytest.mark.slow
async def test_grids_rotations_lists_and_norms_that_go_with_the_rest_are_found(tmp_path: Path) -> None:
    names = ["Tokens", "Pooled", "Rotated", "Windows", "Volume", "Staged", "Normed", "Summed", "Routed"]
    outcomes = await tried(tmp_path / "hard.py", HARD, *names)
    assert {name: outcome.failure.said for name, outcome in outcomes.items() if outcome.failure is not None} == {}
    assert outcomes["Tokens"].draft.tensors()[0].shape[1] == 40
    assert outcomes["Pooled"].draft.tensors()[0].shape[1] == 41
    assert outcomes["Normed"].draft.init[1].value.text == "nn.LayerNorm"


@pytest.mark.slow
async def test_blocks_inside_configurations_and_arguments_that_may_be_left_out_are_found(tmp_path: Path) -> None:
    names = ["Gate", "Updated", "Windowed", "Remembering", "Asked"]
    outcomes = await tried(tmp_path / "hard.py", HARD, *names)
    assert {name: outcome.failure.said for name, outcome in outcomes.items() if outcome.failure is not None} == {}
    assert [argument.value.text[:9] for argument in outcomes["Updated"].draft.init] == ["Gate(size", "LastHead("]
    assert outcomes["Windowed"].draft.init[1].value.text == "WindowCfg(window_size=8)"
    assert [argument.name for argument in outcomes["Remembering"].draft.call] == ["x", "memory"]
    assert [argument.name for argument in outcomes["Asked"].draft.call] == ["x", "query"]


async def test_lengths_are_whole_numbers_that_fit(tmp_path: Path) -> None:
    packed = (await tried(tmp_path / "hard.py", HARD, "Packed"))["Packed"]
    assert packed.failure is None
    assert [one.value.text for one in packed.draft.call] == ["torch.randn(8, 128, 16)", "torch.randint(1, 129, (8,))"]


def test_inputs_that_run_by_luck_do_not_run(tmp_path: Path) -> None:
    text = "import torch\nclass Lucky(torch.nn.Module):\n  def forward(self, x):\n    assert x > 0\n    return x\n"
    text += "class Once(Lucky):\n  n = 0\n  def forward(self, x):\n    self.n += 1\n    return x / (self.n < 2)\n"
    inputs = "def get_inputs():\n    return [torch.randn(1)]\n"
    lucky = Trial(str(tmp_path / "m.py"), text, "Lucky", "cpu").attempt("", inputs, "eval")
    assert (lucky["ok"], lucky.get("stage")) == (False, "forward")
    assert Trial(str(tmp_path / "m.py"), text, "Once", "cpu").attempt("", inputs, "eval") == {"ok": True}
    torch.manual_seed(SEEDS[0])
    assert torch.randn(1) > 0, "the first alone would have run"


@pytest.mark.slow
@pytest.mark.ci
async def test_a_try_that_ends_the_worker_is_one_failure_among_others(tmp_path: Path) -> None:
    outcome = (await tried(tmp_path / "hard.py", HARD, "Ending"))["Ending"]
    assert outcome.failure is None
    assert int(outcome.draft.init[0].value.text) <= 200


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
