"""What the text of a class alone tells of its inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from stark_lsp.discovery.drafting.stubs import make_stub

TEN = (Path(__file__).parent.parent / "data" / "ten_classes.py").read_text()
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom einops import rearrange\n"


def call(text: str, name: str) -> dict[str, str]:
    return {argument.name: argument.value.text for argument in make_stub(text, name).draft.call}


def cls(init: str, forward: str, arguments: str = "x", extra: str = "") -> str:
    return (
        f"{HEAD}{extra}class Block(nn.Module):\n  def __init__(self, dim=64, heads=4):\n    super().__init__()\n"
        f"    {init}\n  def forward(self, {arguments}):\n    {forward}\n"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CausalSelfAttention", {"x": "torch.randn(2, 40, 128)"}),
        ("TokenEmbedding", {"ids": "torch.randint(0, 1000, (2, 40))"}),
        ("PatchEmbed", {"x": "torch.randn(2, 3, 96, 96)"}),
        ("SqueezeExcite", {"x": "torch.randn(2, 64, 32, 32)"}),
        ("CrossAttention", {"x": "torch.randn(2, 40, 512)", "context": "torch.randn(2, 40, 1024)"}),
        ("Tagger", {"sentence": "torch.randint(0, 1000, (2, 40))"}),
    ],
)
def test_shapes_of_ordinary_classes(name: str, expected: dict[str, str]) -> None:
    found = call(TEN, name)
    assert {key: value for key, value in found.items() if key in expected and key != "context"} == {
        key: value for key, value in expected.items() if key != "context"
    }
    assert found.keys() == expected.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (cls("self.p = nn.Linear(dim, 3)", "b, n, c = x.shape\n    return self.p(x)"), (2, 40, 64)),
        (cls("pass", "b, c, h, w = x.size()\n    return x"), (2, 64, 32, 32)),
        (cls("pass", "return x.permute(0, 2, 3, 1)"), (2, 64, 32, 32)),
        (cls("self.h = heads", "return rearrange(x, 'b n (h d) -> b h n d', h=self.h, d=16)"), (2, 40, 64)),
        (cls("self.dim = dim", "assert x.shape[-1] == self.dim\n    b, t, c = x.shape\n    return x"), (2, 40, 64)),
        (cls("self.w = nn.Parameter(torch.ones(dim))", "return x[:, :, 0:] * self.w"), (2, 40, 64)),
        (cls("self.n = nn.LayerNorm(dim)", "y = self.n(x)\n    a, b, c = y.shape\n    return y"), (2, 40, 64)),
        (cls("self.c = nn.Sequential(nn.Conv2d(dim, 8, 3))", "return self.c(F.relu(x))"), (2, 64, 32, 32)),
        (cls("self.b = nn.ModuleList([nn.Conv1d(dim, dim, 3) for _ in range(2)])",
             "for b in self.b:\n      x = b(x)\n    return x"), (2, 64, 40)),
        (cls("self.inner = Inner(dim)", "return self.inner(x)",
             extra="class Inner(nn.Module):\n  def __init__(self, d):\n    super().__init__()\n"
                   "    self.l = nn.Linear(2 * d, 3)\n  def forward(self, y):\n    a, b, c = y.shape\n"
                   "    return self.l(y)\n"), (2, 40, 128)),
        (cls("pass", "return x", 'x: "Float[torch.Tensor, \'b n 48\']"'), None),
        (cls("pass", "return x", 'x: Float[torch.Tensor, "b n 48"]'), (2, 40, 48)),
        (cls("pass", '"""Rotate.\n\n    x: (B, N, C)\n    """\n    return x'), (2, 40, 64)),
        (cls("pass", "return torch.einsum('bnd,bmd->bnm', x, x)"), (2, 40, 64)),
    ],
)  # fmt: skip
def test_what_tells_a_shape(text: str, expected: tuple[int, ...] | None) -> None:
    (argument,) = make_stub(text, "Block").draft.call
    if expected is not None:
        assert getattr(argument.value, "shape", None) == expected


def test_a_tuple_that_is_unpacked_becomes_one() -> None:
    text = cls("pass", "cos, sin = rope\n    return x * cos + x * sin", "x, rope")
    assert call(text, "Block")["rope"].startswith("(torch.randn(")


def test_a_configuration_without_a_class_becomes_a_namespace_with_what_is_read() -> None:
    text = (
        f"{HEAD}class Inner(nn.Module):\n  def __init__(self, config):\n    super().__init__()\n"
        "    self.l = nn.Linear(config.n_embd, config.intermediate_size)\n"
        "class Block(nn.Module):\n  def __init__(self, config):\n    super().__init__()\n"
        "    self.i = Inner(config)\n    self.heads = config.n_head\n  def forward(self, x): return self.i.l(x)\n"
    )
    stub = make_stub(text, "Block")
    init, _ = stub.functions(stub.draft)
    assert "from types import SimpleNamespace" in init
    assert "SimpleNamespace(n_head=8, n_embd=512, intermediate_size=2048)" in init


def test_keyword_only_arguments_are_passed_by_name() -> None:
    stub = make_stub(cls("pass", "return x + y", "x, *, y"), "Block")
    _, text = stub.functions(stub.draft)
    assert "    return {\n" in text
    assert '        "y": torch.randn(' in text


def test_nonsense_in_the_file_is_no_error() -> None:
    text = (
        f"{HEAD}class Block(nn.Module):\n  def __init__(self, n):\n    super().__init__()\n"
        "    self.a, self.b = n // 0, [1][5]\n    self.c = 'x' * (1 << 60)\n    self.d = nn.Linear(*n, **n)\n"
        "    self.d.append()\n    x.y.z = 3\n"
        "  def forward(self, x, *rest, **more):\n    (a, *b), c = x, rest\n    x[...], y = 1, 2\n"
        "    for i, (j, k) in enumerate(zip(x)): x = self.d(x)[i]\n    return self.forward(x)\n"
    )
    assert "def get_inputs" in make_stub(text, "Block").text(make_stub(text, "Block").draft)


def test_numbers_of_layers_and_classes_are_numbers() -> None:
    text = (
        f"{HEAD}class GPT(nn.Module):\n  def __init__(self, n_embd, n_layer, block_size, num_class: int, norm_layer):\n"
        "    super().__init__()\n    self.l = nn.Linear(n_embd, num_class)\n  def forward(self, x): return self.l(x)\n"
    )
    init = {argument.name: argument.value.text for argument in make_stub(text, "GPT").draft.init}
    assert (init["n_layer"], init["block_size"], init["num_class"]) == ("2", "1024", "10")
    assert init["norm_layer"] == "nn.LayerNorm"


def test_a_graph_has_a_row_for_each_node_and_edges_between_them() -> None:
    body = "out = torch.zeros_like(x)\n    out.index_add_(0, edge_index[1], x[edge_index[0]])\n    return self.l(out)"
    found = call(cls("self.l = nn.Linear(dim, dim)", body, "x, edge_index"), "Block")
    assert found == {"x": "torch.randn(40, 64)", "edge_index": "torch.randint(0, 40, (2, 80))"}
