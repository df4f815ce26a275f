"""A proposal is stale if what the class depends on was changed, and only then."""

from __future__ import annotations

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.proposals.edit import StaleProposal, build_edit

DOCUMENT = '''\
"""Doc."""

import logging
import math
import torch
from torch import nn

log = logging.getLogger(__name__)

EPS = 1e-5
SCALE = 2.0
TABLE = {"a": 1.0}
SHAPE = (2, 3)
FAST = False

if FAST:
    STEP = 1
else:
    STEP = 2


def helper(x, eps=EPS):
    return x + eps


def unused(x):
    return x


class Base(nn.Module):
    def __init__(self):
        super().__init__()


class Model(Base):
    def forward(self, x):
        out = helper(x) * SCALE * STEP + TABLE["a"]
        return out


class Other(nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.randn(SHAPE)]


def main():
    x = torch.randn(3)
    print(Model()(x))


if __name__ == "__main__":
    main()
'''
CANDIDATE = "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"


def build(now: str, document: str = DOCUMENT, name: str = "Model") -> str:
    compile(now.removeprefix("\ufeff"), "now.py", "exec")
    problem = make_problem("/project/net.py", document, name)
    return build_edit(problem, now, Candidate(CANDIDATE), "# Optimized by STARK.", WriteMode.BESIDE).preview


def swapped(text: str, first: str, second: str) -> str:
    assert first in text
    assert second in text
    return text.replace(first, "\0").replace(second, first).replace("\0", second)


BELOW = [
    "Model.forward = Other.forward\n",
    "Model = Other\n",
    "del Model\n",
    "setattr(Model, 'forward', Other.forward)\n",
    "M = Model\nM.forward = Other.forward\n",
    "ALL = [Other, Model]\nALL[1].forward = Other.forward\n",
    "for cls in (Other, Model):\n    cls.forward = Other.forward\n",
    "def patch():\n    Model.forward = Other.forward\npatch()\n",
    "def patch():\n    globals()['SCALE'] = 3\npatch()\n",
    "def patch(cls):\n    cls.forward = Other.forward\npatch(Model)\n",
    "from patches import patch\npatch(Model)\n",
    "from patches import patch\nPATCHED = patch(Model)\n",
    "import patches\npatches.install(Model)\n",
    "def faster(cls):\n    cls.scale = 3\n    return cls\nFast = faster(Model)\n",
    "EPS = 3\n",
    "SCALE *= 2\n",
    "TABLE['a'] = 3\n",
    "TABLE.update(a=3)\n",
    "TABLE.pop('a')\nTABLE = {'a': 3}\n",
    "def change():\n    global SCALE\n    SCALE = 3\nchange()\n",
    "class Changer:\n    def __init__(self):\n        global SCALE\n        SCALE = 3\nchanger = Changer()\n",
    "def helper(x):\n    return x * 7\n",
    "helper.__defaults__ = (3,)\n",
    "type(Model()).forward = Other.forward\n",
    "net = Model()\nnet.__class__.forward = Other.forward\n",
    "exec('SCALE = 3')\n",
    "globals()['SCALE'] = 3\n",
    "import sys\nsys.modules[__name__].SCALE = 3\n",
    "from patches import *\n",
    "if True:\n    SCALE = 3\n",
    "try:\n    SCALE = 3\nfinally:\n    pass\n",
    "with open('/dev/null') as SCALE:\n    pass\n",
    "[SCALE := 3 for _ in 'a']\n",
    "Base.forward = Other.forward\n",
    "torch.set_default_dtype(torch.float64)\n",
    "nn.Module.__call__ = None\n",
    "import math as nn\n",
    "if __name__ == '__main__':\n    SCALE = 3\n",
]


@pytest.mark.parametrize("code", BELOW)
def test_what_is_done_to_the_class_below_it_makes_a_proposal_stale(code: str) -> None:
    with pytest.raises(StaleProposal, match="since the run began") as raised:
        build(f"{DOCUMENT}\n\n{code}")
    assert raised.value.cure
    with pytest.raises(StaleProposal):  # and so does undoing it
        build(DOCUMENT, document=f"{DOCUMENT}\n\n{code}")
    assert "ModelNew" in build(f"{DOCUMENT}\n\n{code}", document=f"{DOCUMENT}\n\n{code}")


@pytest.mark.parametrize(
    "now",
    [
        DOCUMENT.replace("FAST = False", "FAST = True"),
        DOCUMENT.replace("STEP = 2", "STEP = 3"),
        DOCUMENT.replace("if FAST:", "if not FAST:"),
        DOCUMENT.replace("class Base(nn.Module):", "class Base(nn.Module):\n    training = False\n"),
        DOCUMENT.replace("eps=EPS", "eps=EPS * 2"),
        DOCUMENT.replace("EPS = 1e-5\nSCALE = 2.0", "SCALE, EPS = 1e-5, 2.0"),
        DOCUMENT.replace("class Model(Base)", "@torch.no_grad\nclass Model(Base)"),
    ],
)
def test_what_decides_on_something_the_class_uses_makes_a_proposal_stale(now: str) -> None:
    assert now != DOCUMENT
    with pytest.raises(StaleProposal):
        build(now)


def test_the_order_of_what_is_executed_counts() -> None:
    twice = DOCUMENT.replace("SCALE = 2.0\n", "SCALE = 2.0\nSCALE = 3.0\n")
    with pytest.raises(StaleProposal, match="SCALE"):
        build(swapped(twice, "SCALE = 2.0", "SCALE = 3.0"), document=twice)
    late = DOCUMENT.replace("SCALE = 2.0\n", "SCALE = 2.0\nEPS = 3.0\n")
    definition = "def helper(x, eps=EPS):\n    return x + eps\n\n\n"
    early = late.replace(definition, "").replace("EPS = 3.0\n", definition + "EPS = 3.0\n")
    with pytest.raises(StaleProposal, match="order"):
        build(early, document=late)


HONEST = [
    "net = Model()\n",
    "net = Model().eval()\nnet.scale = 3\n",
    "net = torch.compile(Model())\nout = net(torch.ones(2))\n",
    "print(Model, EPS, helper)\n",
    "y = helper(EPS)\nx = out = eps = 3\n",
    "class Sub(Model):\n    def forward(self, x):\n        return super().forward(x) * SCALE\n",
    "class Sub(Model):\n    pass\n\n\nSub.forward = Other.forward\n",
    "MODELS = {'model': Model, 'other': Other}\nDEFAULT = MODELS['model']()\n",
    "__all__ = ['Model', 'Other']\n",
    "def train(net, table=None):\n    global net_count\n    net_count = 1\n    net.scale = 3\n    TABLE_2 = TABLE\n",
    "def train():\n    SCALE = 3\n    helper = None\n    x = torch.ones(2)\n    return SCALE, helper, x\n",
    "import numpy as np\nimport torch.utils.data\nfrom typing import Any\n",
    "from dataclasses import dataclass\n\n@dataclass\nclass Config:\n    scale: float = SCALE\n\n\nconfig = Config()\n",
    "@torch.no_grad()\ndef evaluate():\n    return Model()(torch.ones(2))\n\n\nevaluate()\n",
    "torch.manual_seed(0)\nnet = nn.Linear(2, 3)\nnet.weight.data.fill_(0)\n",
    "MODELS = [Model]\nMODELS.append(Other)\nfor net in MODELS:\n    print(net)\n",
    "log.info('loaded')\nassert helper(1) == 1 + EPS\n",
    "try:\n    import extra\nexcept ImportError:\n    extra = None\n",
    "if __name__ == '__main__':\n    import sys\n    net = Model()\n    register(Model)\n    sys.exit(main())\n",
    "other = Other()\nOther.forward = None\n",
    "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from torch import Tensor\n",
    "def test_model():\n    assert isinstance(Model(), nn.Module)\n\n\ntest_model()\n",
]


@pytest.mark.parametrize("code", HONEST)
@pytest.mark.parametrize("where", ["below", "above"])
def test_honest_edits_elsewhere_do_not_make_it_stale(code: str, where: str) -> None:
    now = f"{DOCUMENT}\n\n{code}" if where == "below" else DOCUMENT.replace("class Other", f"{code}\n\nclass Other", 1)
    assert code in build(now)
    assert "ModelNew" in build(DOCUMENT, document=now)


@pytest.mark.parametrize(
    "now",
    [
        DOCUMENT.replace("\n", "\r\n"),
        "\ufeff" + DOCUMENT.replace("return out", "return  out  # the result"),
        DOCUMENT.replace("    return x\n\n\nclass Base", "    return x * 5\n\n\nclass Base"),
        DOCUMENT.replace("class Other(nn.Module):", "class Other(nn.Module):\n    '''Doc.'''\n"),
        DOCUMENT.replace("def unused(x):\n    return x\n\n\n", ""),
        DOCUMENT.replace("import math\n", ""),
        DOCUMENT.replace("from torch import nn", "import torch.nn as nn"),
        DOCUMENT.replace("SHAPE = (2, 3)", "SHAPE = (4, 3)"),
        DOCUMENT.replace(
            "    print(Model()(x))", "    model = Model()\n    model.scale = 3\n    print(model(x), SCALE)"
        ),
        DOCUMENT.replace("def unused", "def helper_2(x):\n    return helper(x)\n\n\ndef unused"),
        swapped(
            DOCUMENT,
            "def unused(x):\n    return x\n",
            "class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n",
        ),
        swapped(DOCUMENT, "EPS = 1e-5\n", "FAST = False\n"),
    ],
)
def test_neither_form_nor_what_the_class_does_not_use_counts(now: str) -> None:
    assert now != DOCUMENT
    assert "ModelNew" in build(now)


NESTED = """\
import torch.nn as nn


class Enc(nn.Module):
    Norm = nn.Identity

    class Block(nn.Module):
        def forward(self, x):
            return x

    def forward(self, x):
        return x


def get_inputs_for_Enc_Block():
    return []
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def forward(self, x):\n        return x\n\n\n", "    Block.forward = None\n\n\n"),
        ("    Norm = nn.Identity\n", "    nn = nn\n"),
        ("def get", "Enc.Block.forward = None\n\n\ndef get"),
        ("def get", "Block = Enc.Block\nBlock.forward = None\n\n\ndef get"),
        ("class Enc", "@patched\nclass Enc"),
        ("    def forward(self, x):\n        return x\n\n\n", "    Block = patched(Block)\n\n\n"),
    ],
)
def test_what_is_done_to_a_nested_class_makes_its_proposal_stale(old: str, new: str) -> None:
    with pytest.raises(StaleProposal):
        build(NESTED.replace(old, new), NESTED, "Enc.Block")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    def forward(self, x):\n        return x\n\n\n",
            "    def forward(self, x):\n        return self.Block()(x)\n\n\n",
        ),
        ("    Norm = nn.Identity\n", "    Norm = nn.ReLU\n    block = None\n"),
        ("import torch.nn as nn\n", "import torch.nn as nn\n\nif True:\n    from torch import nn\n"),
        ("    def forward(self, x):\n        return x\n\n\n", "    class Other(Block):\n        pass\n\n\n"),
    ],
)
def test_the_class_around_may_change(old: str, new: str) -> None:
    assert "BlockNew" in build(NESTED.replace(old, new), NESTED, "Enc.Block")


def test_an_accepted_proposal_does_not_make_that_of_another_class_stale() -> None:
    document = DOCUMENT.replace(
        "def get_inputs():", "def get_inputs_for_Other():\n    return []\n\n\ndef get_inputs():"
    )
    candidate = CANDIDATE.replace("\n\n\nclass", "\nimport torch\n\ntorch.manual_seed(0)\n\n\nclass")
    problem = make_problem("/project/net.py", document, "Other")
    edit = build_edit(
        problem,
        document,
        Candidate(candidate.replace("return x", "return torch.relu(x)")),
        "# Optimized by STARK.",
        WriteMode.BESIDE,
    )
    assert "torch.manual_seed(0)" in edit.preview
    assert "ModelNew" in build(edit.preview, document)


def test_a_class_in_a_block_depends_on_that_block() -> None:
    text = "import torch.nn as nn\n\ntry:\n    RATE = 2\n    class Model(nn.Module):\n        def forward(self, x):\n"
    text += "            return x * RATE\nexcept ImportError:\n    RATE = 3\n\n\ndef get_inputs():\n    return []\n"
    assert "ModelNew" in build(text.replace("    return []", "    return [1]"), text)
    for old, new in (("RATE = 2", "RATE = 4"), ("RATE = 3", "RATE = 4"), ("ImportError", "OSError")):
        with pytest.raises(StaleProposal):
            build(text.replace(old, new), text)


def test_a_class_that_is_there_twice_is_said_to_be() -> None:
    text = DOCUMENT + "\n\nclass Model(nn.Module):\n    pass\n"
    with pytest.raises(StaleProposal, match="defined more than once"):
        build(text)
