"""What a file itself gives arguments becomes part of a draft."""

from __future__ import annotations

import ast

import pytest

from stark_lsp.discovery.drafting.drafts import Record
from stark_lsp.discovery.drafting.examples import constructed, usual
from stark_lsp.discovery.drafting.stubs import make_stub

HEAD = "import torch\nimport torch.nn as nn\n"


def init(text: str, name: str = "Block") -> dict[str, str]:
    return {argument.name: argument.value.text for argument in make_stub(HEAD + text, name).draft.init}


def cls(parameters: str) -> str:
    return (
        f"class Block(nn.Module):\n  def __init__(self, {parameters}):\n    super().__init__()\n"
        "  def forward(self, x): return x\n"
    )


def test_values_under_a_name_come_from_calls_and_defaults_the_most_frequent_first() -> None:
    tree = ast.parse("f(a=1, b=x)\ng(a=2)\ndef h(p, a=2, *, c=(7, 7), d=None): pass\n")
    assert usual(tree) == {"a": ("2", "1"), "c": ("(7, 7)",)}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Block(3, heads=2)", {"dim": "3", "heads": "2"}),
        ("Block(width, heads=2)", {}),
        ("Block(3)", {}),
    ],
)
def test_what_a_class_is_made_with_counts_if_all_of_it_is_plain(call: str, expected: dict[str, str]) -> None:
    found = constructed(ast.parse(f"net = {call}"), "Block", ["dim", "heads"])
    assert {name: value.text for name, value in found.items()} == expected


def test_a_draft_takes_what_the_file_makes_the_class_with() -> None:
    assert init(cls("dim, heads") + "net = Block(96, 3)\n") == {"dim": "96", "heads": "3"}


def test_a_draft_takes_values_of_the_same_name_but_no_widths() -> None:
    text = cls("dim, bn_size") + "def make(dim=7, bn_size=4): return dim\n"
    assert init(text) == {"dim": "512", "bn_size": "4"}


def test_a_value_of_another_kind_than_the_annotation_is_not_taken() -> None:
    text = cls("heads: int, window: list") + "def make(heads=(3, 6), window=(7, 7)): return heads\n"
    assert init(text) == {"heads": "8", "window": "(7, 7)"}


def test_of_several_imported_configurations_the_one_called_like_the_class_is_taken_first() -> None:
    text = "from .configuration import BlipConfig, BlipBlockConfig, OtherConfig\n" + cls("config").replace(
        "class Block", "class BlipBlockLayer"
    )
    value = make_stub(HEAD + text, "BlipBlockLayer").draft.init[0].value
    assert isinstance(value, Record)
    assert (value.maker, value.others) == ("BlipBlockConfig", ("BlipConfig", "OtherConfig", "SimpleNamespace"))
