"""Blocks that are constructed with other blocks of their file, and what is known of tensors that are joined."""

from __future__ import annotations

import pytest

from stark_lsp.discovery.drafting.stubs import make_stub

FILE = """from abc import ABC
from typing import Callable, Dict, List, Optional, Tuple

import torch
from torch import nn


class FlowEncoder(nn.Module):
    def __init__(self, *, in_channels, size=3):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 64, size)

    def forward(self, x):
        return self.conv(x)


class BaseHead(ABC, nn.Module):
    def forward(self, x):
        raise NotImplementedError


class WideHead(nn.Module):
    def __init__(self, flow_encoder):
        super().__init__()
        self.inner = flow_encoder

    def forward(self, x):
        return self.inner(x)


class PlainBlock(nn.Module):
    def __init__(self, width, stride):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x


class Outer(nn.Module):
    def __init__(self, flow_encoder, head: nn.Module, other, scorer=Scale):
        super().__init__()
        self.flow_encoder, self.head = flow_encoder, head
        self.other = other

    def forward(self, flow):
        return self.other(self.enc(flow))


class Stage(nn.Module):
    def __init__(self, block: Callable[..., nn.Module], scorer, act_layer: Callable[..., nn.Module]):
        super().__init__()
        self.layers = nn.Sequential(block(64, 2), scorer(64), act_layer(inplace=True))

    def forward(self, x):
        return self.layers(x)


class Held(nn.Module):
    def __init__(self, flow_encoder, wide_head, missing, norm: Optional[nn.Module]):
        super().__init__()
        self.flow_encoder = flow_encoder
        self.wide_head = wide_head
        self.missing = missing
        self.rest = nn.Sequential(norm)

    def forward(self, flow, sizes: List[int]):
        h, w = sizes
        return self.missing(self.wide_head(self.flow_encoder(flow)))


class Levels(nn.Module):
    def __init__(self, schedule: List[Tuple[int, ...]], factor: int):
        super().__init__()

    def forward(self, maps: Dict[str, torch.Tensor], mask, position_embeddings, patch_height):
        return maps["0"]


class Gate(nn.Module):
    def __init__(self, input_size=64, hidden_size=64):
        super().__init__()
        self.conv = nn.Conv2d(input_size + hidden_size, hidden_size, 3, padding=1)

    def forward(self, h, x):
        return self.conv(torch.cat([h, x], dim=1))
"""


def init(name: str) -> dict[str, str]:
    return {argument.name: argument.value.text for argument in make_stub(FILE, name).draft.init}


def call(name: str) -> dict[str, str]:
    return {argument.name: argument.value.text for argument in make_stub(FILE, name).draft.call}


def test_an_argument_called_like_a_block_of_the_file_is_one_and_so_are_those_inside_it() -> None:
    found = init("Held")
    assert found["flow_encoder"] == "FlowEncoder(in_channels=64)"
    assert found["wide_head"] == "WideHead(flow_encoder=FlowEncoder(in_channels=64))"


def test_a_layer_that_no_block_of_the_file_fits_passes_its_input_on() -> None:
    assert init("Held")["missing"] == "nn.Identity()"
    assert init("Outer")["other"] == "nn.Identity()"


def test_an_argument_that_is_a_module_by_its_annotation_is_no_class() -> None:
    assert init("Held")["norm"] == "nn.Identity()"


@pytest.mark.parametrize(("name", "expected"), [("block", "PlainBlock"), ("scorer", "Scale"), ("act_layer", "nn.ReLU")])
def test_a_class_of_blocks_is_one_of_the_file_that_takes_as_many_arguments(name: str, expected: str) -> None:
    assert init("Stage")[name] == expected


def test_what_a_block_inside_wants_tells_the_input() -> None:
    assert call("Held")["flow"] == "torch.randn(2, 64, 32, 32)"


def test_a_list_of_numbers_stays_one_where_it_is_unpacked() -> None:
    assert call("Held")["sizes"] == "[8, 5]"


def test_tensors_that_are_joined_share_what_is_wanted_of_them_together() -> None:
    assert call("Gate") == {"h": "torch.randn(2, 64, 32, 32)", "x": "torch.randn(2, 64, 32, 32)"}


def test_lists_of_tuples_dicts_of_tensors_and_sides_of_planes() -> None:
    assert init("Levels") == {"schedule": "[(2, 2), (2, 2)]", "factor": "2"}
    found = call("Levels")
    assert found["maps"].startswith('{"0": torch.randn(')
    assert found["mask"] == "torch.ones((2, 40), dtype=torch.bool)"
    assert found["position_embeddings"].startswith("torch.randn(")
    assert found["patch_height"] == "8"
