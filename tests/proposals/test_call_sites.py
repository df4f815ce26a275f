"""Constructions of a class go over to the accepted one: by scope, in its file and where it is imported by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.editing import apply_edits
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.proposals.call_sites import accepted_class, importing_sites, is_test, own_sites
from stark_lsp.proposals.edit import build_edit

COMMENT = "# Optimized by STARK: 2.00x the speed of eager PyTorch.\n# Run r, node 3."
CANDIDATE = (
    "import torch\nimport torch.nn as nn\n\n\ndef launch(x):\n    return x * 2\n\n\n"
    "class ModelNew(nn.Module):\n    def forward(self, x):\n        return launch(x)\n"
)
DOCUMENT = """# \u00e4 comment
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x + x

    def twin(self):
        return Model()


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(Model(), nn.ReLU())
        self.other = "\u00e4", Model()

    def hidden(self, Model):
        return Model()


class Own(nn.Module):
    Model = nn.Linear
    part = Model(1, 1)


class Sub(Model):
    pass


def get_inputs():
    return [torch.ones(2)]


def get_init_inputs():
    Model()
    return []


def test_model():
    assert Model()


everyone = [Model() for Model in (Net,)] + [Model() for _ in range(2)]
name = Model.__name__
"""


def accepted(text: str = DOCUMENT) -> str:
    problem = make_problem("/project/net.py", text, "Model")
    return build_edit(problem, text, Candidate(CANDIDATE), COMMENT, WriteMode.BESIDE).preview


def test_what_constructs_the_class_is_changed_and_nothing_else() -> None:
    text = accepted()
    new = apply_edits(text, own_sites(text, accepted_class(text, "ModelNew")))
    wanted = text.replace("__init__(Model(),", "__init__(ModelNew(),").replace('", Model()', '", ModelNew()')
    wanted = wanted.replace("[Model() for _ in", "[ModelNew() for _ in")
    assert new == wanted
    namespace: dict[str, object] = {"__name__": "edited"}
    exec(compile(new, "net.py", "exec"), namespace)
    assert all(type(one).__name__ == "ModelNew" for one in namespace["everyone"][1:])  # type: ignore[index]


def test_what_asks_for_the_class_is_true_of_the_new_one() -> None:
    """Else weights are initialized otherwise where a model asks so, with no word."""
    asks = (
        "\n\nclass Whole(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.part = Model()\n        self.apply(self.begin)\n\n"
        "    def begin(self, m):\n        self.seen = isinstance(m, Model)\n"
        "        self.pair = issubclass(type(m), (nn.Linear, Model))\n"
    )
    text = accepted(DOCUMENT + asks)
    new = apply_edits(text, own_sites(text, accepted_class(text, "ModelNew")))
    assert "isinstance(m, (Model, ModelNew))" in new
    assert "issubclass(type(m), (nn.Linear, Model, ModelNew))" in new
    again = apply_edits(new, own_sites(new, accepted_class(new, "ModelNew")))
    assert again == new
    compile(new, "net.py", "exec")


def test_what_runs_before_the_new_class_stays() -> None:
    text = accepted().replace("# Optimized", "first = Model()\n\n\n# Optimized")
    new = apply_edits(text, own_sites(text, accepted_class(text, "ModelNew")))
    assert "first = Model()" in new


@pytest.mark.parametrize(
    "more", ["Model = nn.Identity\n", "try:\n    from fast import Model\nexcept ImportError: pass\n"]
)
def test_a_name_with_several_meanings_is_left_to_the_user(more: str) -> None:
    text = accepted() + more
    with pytest.raises(BadInput, match="more than one meaning"):
        own_sites(text, accepted_class(text, "ModelNew"))


def test_only_what_was_accepted_can_take_a_place() -> None:
    with pytest.raises(BadInput, match="no class that STARK brought"):
        accepted_class(accepted(), "Net")
    with pytest.raises(BadInput, match="not valid Python"):
        accepted_class("class (", "Net")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from net import Model\nm = Model()\n", "from net import ModelNew\nm = ModelNew()\n"),
        (
            "from net import (\n    Net,\n    Model,\n)\n\ndef f(x: Model): return Model()\n",
            "from net import (\n    Net,\n    Model, ModelNew,\n)\n\ndef f(x: Model): return ModelNew()\n",
        ),
        ("from net import Model as M\nm = M()\n", "from net import Model as M, ModelNew\nm = ModelNew()\n"),
        (
            "from net import Model\ndef f(x): return isinstance(x, Model)\n",
            "from net import Model, ModelNew\ndef f(x): return isinstance(x, (Model, ModelNew))\n",
        ),
        ("from net import Model\ndef f(x, isinstance, Model): return isinstance(x, Model)\n", None),
        ("from net import Model\ndef f(Model): return Model()\n", None),
        ("from net import Model\nModelNew = 1\nm = Model()\n", None),
        ("from net import Model\nModel = wrap(Model)\nm = Model()\n", None),
        ("from other import Model\nm = Model()\n", None),
        ("from .net import Model\nm = Model()\n", "from .net import ModelNew\nm = ModelNew()\n"),
        ("from ..net import Model\nm = Model()\n", None),
        ("import net\nm = net.Model()\n", None),
        ("from net import Model\ndef test_it(): Model()\n", None),
        ("def broken(:\n", None),
    ],
)
def test_files_that_import_it_by_name_follow(tmp_path: Path, before: str, after: str | None) -> None:
    edits = importing_sites(before, tmp_path / "train.py", tmp_path / "net.py", "Model", "ModelNew")
    assert apply_edits(before, edits) == (after or before)


@pytest.mark.parametrize(
    ("file", "statement", "found"),
    [
        ("train.py", "from pkg.nets import Model", True),
        ("train.py", "from nets import Model", False),
        ("pkg/train.py", "from .nets import Model", True),
        ("pkg/sub/train.py", "from ..nets import Model", True),
        ("pkg/sub/train.py", "from pkg.nets import Model", True),
        ("scripts/train.py", "from pkg.nets import Model", True),
    ],
)
def test_the_module_is_found_by_its_place(tmp_path: Path, file: str, statement: str, found: bool) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    text = f"{statement}\nm = Model()\n"
    edits = importing_sites(text, tmp_path / file, tmp_path / "pkg" / "nets.py", "Model", "ModelNew")
    assert bool(edits) is found


def test_tests_are_told_by_their_name() -> None:
    assert [is_test(Path(name)) for name in ("tests/a.py", "test_a.py", "a_test.py", "conftest.py", "contest.py")] == [
        True, True, True, True, False
    ]  # fmt: skip
