"""What the static check refuses, and what it must leave alone."""

import pytest

from stark_lsp.worker.integrity import check

FORWARD = "    def forward(self, x):\n        return x\n"


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn as nn\nclass ModelNew(nn.Module):\n" + FORWARD,
        "from torch.nn import Module\nclass Base(Module):\n" + FORWARD + "class ModelNew(Base):\n    pass\n",
        "import torch.nn as nn\nif True:\n    class ModelNew(nn.Module):\n    " + FORWARD.replace("\n", "\n    "),
        "import torch.nn as nn\nclass ModelNew(nn.Linear):\n    '''pass, exec, torch.cuda.Event'''\n",
        "import torch.nn as nn\ndef f(self, x):\n    return x\nclass ModelNew(nn.Module):\n    forward = f\n",
    ],
)
def test_honest_sources_pass(source: str) -> None:
    assert check(source, "ModelNew") is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch\n", "no class ModelNew"),
        ("from elsewhere import ModelNew\n", "no class ModelNew"),
        ("def make():\n    class ModelNew:\n        pass\n", "no class ModelNew"),
        ("import torch.nn as nn\nclass ModelNew(nn.Module):\n    pass\n", "no forward"),
    ],
)
def test_sources_without_the_class_or_its_forward_are_refused(source: str, words: str) -> None:
    refusal = check(source, "ModelNew")
    assert refusal is not None
    assert words in refusal.reason


def test_a_source_that_does_not_parse_is_left_to_loading() -> None:
    assert check("def (", "ModelNew") is None
