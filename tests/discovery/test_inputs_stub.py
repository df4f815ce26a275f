"""The get_inputs that is offered runs, and its inputs fit the class."""

from __future__ import annotations

from typing import Any

import pytest

from stark_lsp.core.editing import LINE_END
from stark_lsp.core.errors import BadInput
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.drafting.stubs import make_stub

torch = pytest.importorskip("torch")

CLASSES = {
    "Linear": "def __init__(self, hidden_size: int, bias: bool):\n  self.l = nn.Linear(3 * hidden_size, 4, bias=bias)",
    "Conv": "def __init__(self, cin=7):\n  self.c = cin\n  self.l = nn.Conv2d(self.c, 8, 3)",
    "Conv1": "def __init__(self):\n  self.l = nn.Conv1d(in_channels=WIDTH, out_channels=8, kernel_size=3)",
    "Embed": "def __init__(self, vocab_size, d_model):\n  self.l = nn.Embedding(vocab_size, d_model)",
    "Norm": "def __init__(self, dim, eps):\n  self.l = nn.LayerNorm((dim,), eps=eps)",
    "Batch": "def __init__(self, num_features):\n  self.l = nn.BatchNorm2d(num_features)",
    "Group": "def __init__(self):\n  self.l = nn.GroupNorm(4, 16)",
    "Attention": "def __init__(self, embed_dim, num_heads):\n"
    "  self.l = nn.TransformerEncoderLayer(embed_dim, num_heads)",
    "Plain": "def __init__(self):\n  self.l = nn.ReLU()",
    "Config": "def __init__(self, config: Settings):\n  self.l = nn.ReLU()",
}


def inputs_stub(text: str, qualname: str) -> tuple[int, str]:
    """Return where the functions are inserted, and their text."""
    stub = make_stub(text, qualname)
    return stub.line, stub.text(stub.draft)


def insert(text: str, place: int, new: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:place]) + new + "".join(lines[place:])


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("importing", ["import torch\nimport torch.nn as nn\n", "from torch import nn\n"])
def test_the_guess_runs_and_fits(name: str, importing: str) -> None:
    body = CLASSES[name].replace(":\n", ":\n  super().__init__()\n", 1).replace("\n", "\n  ")
    text = (
        f"{importing}WIDTH = 12\nclass Settings:\n  def __init__(self, a=1): ...\nclass {name}(nn.Module):\n  {body}\n"
        "  def forward(self, x, y=None):\n    return self.l(x)\nDONE = 1\n"
    )
    place, new = inputs_stub(text, name)
    namespace: dict[str, Any] = {"__name__": "stub"}
    full = insert(text, place, new)
    exec(compile(full, "stub.py", "exec"), namespace)
    arguments = namespace["get_init_inputs"]() if "get_init_inputs" in namespace else []
    assert namespace[name](*arguments)(*namespace["get_inputs"]()) is not None
    (found,) = find_modules(full)
    assert found.inputs.inputs_function == "get_inputs"


def test_a_class_that_get_inputs_would_not_belong_to_gets_functions_of_its_own() -> None:
    text = "import torch\nclass A(torch.nn.Module): ...\nclass Model(torch.nn.Module): ...\ndef get_inputs(): ...\n"
    place, new = inputs_stub(text, "A")
    assert place == 2
    assert "def get_inputs_for_A():" in new
    owners = {found.qualname: found.inputs.inputs_function for found in find_modules(insert(text, place, new))}
    assert owners == {"A": "get_inputs_for_A", "Model": "get_inputs"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_class_at_the_very_end_gets_its_line_end_first(end: str) -> None:
    text = f"import torch{end}class A(torch.nn.Module): ..."
    place, new = inputs_stub(text, "A")
    assert place == 2
    assert new.startswith(f"{end * 3}def get_inputs():{end}")
    assert set(LINE_END.findall(new)) == {end}
    compile(text + new, "a.py", "exec")


@pytest.mark.parametrize(("text", "said"), [("class A:\n", "not valid Python"), ("x = 1\n", "no class A")])
def test_what_has_no_class_is_explained(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        inputs_stub(text, "A")
