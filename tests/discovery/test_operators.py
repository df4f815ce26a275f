"""Which operators of torch a class is made of, and which project a file belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from stark_lsp.discovery.operators import ALIKE, likeness, operators
from stark_lsp.discovery.workspaces import workspace

BLOCK = """
import torch
from torch import nn
import torch.nn.functional as F
import os

class Block(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.weight = nn.Parameter(torch.randn(8, 8))
        nn.init.xavier_uniform_(self.weight)
        self.path = os.path.join("a", names.strip())
    def forward(self, x):
        x = F.layer_norm(x, (8,)).view(-1, 8) @ self.weight
        return self.norm(torch.relu_(x)).softmax(-1)
"""


def test_operators_are_what_is_called_of_torch_and_on_tensors() -> None:
    assert operators(BLOCK) == {"layernorm", "matmul", "relu", "softmax"}


@pytest.mark.parametrize("source", ["", "x = 1", "def (", "import os\nos.getcwd()"])
def test_a_text_without_torch_has_none_and_is_like_nothing(source: str) -> None:
    assert operators(source) == frozenset()
    assert likeness(operators(source), operators(source)) == 0


def test_classes_are_alike_that_share_most() -> None:
    fewer = operators(BLOCK.replace("torch.relu_(x)", "x"))
    other = operators(BLOCK.replace("layer_norm", "conv2d").replace("LayerNorm", "Conv2d").replace("softmax", "tanh"))
    assert likeness(operators(BLOCK), fewer) == 0.75 > ALIKE
    assert likeness(operators(BLOCK), other) < ALIKE


def test_a_file_belongs_to_the_nearest_project_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "repository" / "package" / "models"
    inner.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    assert workspace(str(inner / "net.py")) == str(tmp_path / "repository")
    (inner.parent / "pyproject.toml").touch()
    assert workspace(str(inner / "net.py")) == str(inner.parent)
    monkeypatch.setenv("HOME", str(tmp_path / "repository"))
    assert workspace(str(tmp_path / "repository" / "notes.py")) == str(tmp_path / "repository")
    lone = tmp_path / "repository" / "lone"
    assert workspace(str(lone / "net.py")) == str(lone), "a repository of the whole home directory is no project"
