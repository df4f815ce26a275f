"""Module classes are found from the text alone, however they are written."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import tarfile
import typing
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.discovery.classes import ModuleClass, classes_of, find_all, find_modules
from stark_lsp.discovery.index import DocumentIndex
from stark_lsp.discovery.pieces import cut, read, read_whole


def names(text: str) -> list[str]:
    return [found.qualname for found in find_modules(dedent(text))]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nclass A(torch.nn.Module): ...",
        "import torch.nn\nclass A(torch.nn.Module): ...",
        "import torch as t\nclass A(t.nn.Module): ...",
        "import torch.nn as nn\nclass A(nn.Module): ...",
        "from torch import nn\nclass A(nn.Module): ...",
        "from torch import nn as N\nclass A(N.Module): ...",
        "from torch.nn import Module as M\nclass A(M): ...",
        "from torch.nn import *\nclass A(Module): ...",
        "from torch.nn.modules.module import Module\nclass A(Module): ...",
        "import torch.nn as nn\nBase = nn.Module\nclass A(Base): ...",
        "import torch\nnn = torch.nn\nB: type = nn.Module\nclass A(B): ...",
        "import torch.nn as nn\nfrom typing import Generic\nclass A(Generic[T], nn.Module): ...",
        "import torch.nn as nn\nclass Mix: ...\nclass A(Mix, nn.Module): ...",
        "import torch.nn as nn\nclass A(nn.Linear): ...",
        "import torch.nn as nn\nclass A(nn.Sequential): ...",
        "import torch.nn as nn\nclass A(with_metaclass(Meta, nn.Module)): ...",
        "try:\n    from torch import nn\nexcept ImportError:\n    nn = None\nclass A(nn.Module): ...",
        "if True:\n    import torch.nn as nn\n    class A(nn.Module): ...",
        "from lightning import LightningModule\nclass A(LightningModule): ...",
        "import pytorch_lightning as pl\nclass A(pl.LightningModule): ...",
        "from transformers import PreTrainedModel\nclass A(PreTrainedModel): ...",
        "import torch\nfrom .base import Base\nclass A(Base):\n    def forward(self, x): ...",
    ],
)
def test_a_module_is_found_through(text: str) -> None:
    assert names(text) == ["A"]


@pytest.mark.parametrize(
    "text",
    [
        "class A: ...",
        "import torch.nn as nn\nclass A(nn.Parameter): ...",
        "from flax import linen as nn\nclass A(nn.Module): ...",
        "from ast import Module\nclass A(Module): ...",
        "import torch\nclass A(torch.autograd.Function):\n    def forward(ctx, x): ...",
        "from .base import Base\nclass A(Base):\n    def forward(self, x): ...",
        "import torch\nfrom .base import Base\nclass A(Base): ...",
        "import torch\nfrom enum import Enum\nclass A(Enum):\n    def forward(self): ...",
    ],
)
def test_other_classes_are_not(text: str) -> None:
    assert names(text) == []


def test_bases_in_the_same_file_count_transitively() -> None:
    assert names("import torch.nn as nn\nclass A(nn.Module): ...\nclass B(A): ...\nclass C(B): ...") == ["A", "B", "C"]


PROJECT = {
    "pyproject.toml": "",
    "src/pkg/__init__.py": "from .layers import Exported",
    "src/pkg/layers/__init__.py": "from .base import Base as Exported",
    "src/pkg/layers/base.py": """
        from abc import ABC
        from torch import nn
        from ..model import Round
        class Base(nn.Module, ABC):
            def forward(self, x): ...
        class Plain: ...
        """,
    "src/pkg/model.py": "from .layers.base import Round, Base\nclass Block(Base): ...",
    "utils.py": "from torch import nn\n__all__ = ['nn']",
    "jaxed.py": "from flax import linen as nn",
    "long.py": "from torch import nn\nclass Long(nn.Module): ...\n" + "#" * 200_000,
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from .layers.base import Base\nclass A(Base): ...", True),
        ("from pkg.layers.base import Base\nclass A(Base): ...", True),
        ("from pkg.layers import base as b\nclass A(b.Base): ...", True),
        ("from .layers import base\nclass A(base.Base[int]): ...", True),
        ("from . import Exported\nclass A(Exported): ...", True),
        ("import pkg\nclass A(pkg.Exported): ...", True),
        ("from .layers.base import *\nclass A(Base): ...", True),
        ("from . import *\nclass A(Exported): ...", True),
        ("from pkg import model\nclass A(model.Block): ...", True),
        ("from utils import *\nclass A(nn.Module): ...", True),
        ("from .layers.base import Plain\nclass A(Plain): ...", False),
        ("from .layers.base import Absent\nclass A(Absent): ...", False),
        ("from .layers.base import Round\nclass A(Round): ...", False),
        ("from nowhere import Base\nclass A(Base): ...", False),
        ("from .... import Base\nclass A(Base): ...", False),
        ("from jaxed import nn\nclass A(nn.Dense): ...", False),
        ("from long import Long\nclass A(Long): ...", False),
    ],
)
def test_a_base_is_looked_for_in_the_projects_files(text: str, found: bool, tmp_path: Path) -> None:
    for name, content in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(dedent(content))
    path = str(tmp_path / "src/pkg/net.py")
    assert [one.qualname for one in find_modules(text, path)] == ["A"] * found
    assert [one.qualname for one in DocumentIndex(path).update(text)] == ["A"] * found


def test_a_base_that_changed_is_read_again(tmp_path: Path) -> None:
    base, text = tmp_path / "base.py", "from base import Base\nclass A(Base): ..."
    base.write_text("class Base: ...")
    assert find_modules(text, str(tmp_path / "net.py")) == ()
    base.write_text("from torch import nn\nclass Base(nn.Module): ...")
    assert len(find_modules(text, str(tmp_path / "net.py"))) == 1


def test_nested_and_conditional_classes_have_their_qualnames() -> None:
    text = """
    import torch.nn as nn
    class Outer(nn.Module):
        class Inner(nn.Module):
            class Deep(nn.Module): ...
        class Sibling(Inner): ...
    class Uses(Outer.Inner): ...
    class Plain:
        class Block(nn.Module): ...
    if True:
        class One(nn.Module): ...
    else:
        class Two(nn.Module): ...
    try:
        pass
    except ImportError:
        class Three(nn.Module): ...
    with open("x") as f:
        class Four(nn.Module): ...
    """
    assert names(text) == [
        "Outer", "Outer.Inner", "Outer.Inner.Deep", "Outer.Sibling", "Uses", "Plain.Block", "One", "Two", "Three",
        "Four",
    ]  # fmt: skip


def test_classes_inside_functions_are_found_but_not_offered() -> None:
    text = "import torch.nn as nn\ndef make():\n    class A(nn.Module): ...\n    return A\n"
    assert find_modules(text) == ()
    (found,) = find_all(text)
    assert found.qualname == "make.<locals>.A"
    assert not found.reachable


def test_positions_are_those_of_the_text() -> None:
    text = "import torch.nn as nn\n\n@dec\n@dec(\n  1)\nclass  Ä(nn.Module):\n    pass\n\n# after\n"
    (found,) = find_modules(text)
    assert (found.span.start, found.span.end) == (2, 6)
    assert (found.name_line, found.name_start, found.name_end) == (5, 7, 8)
    crlf = find_modules(text.replace("\n", "\r\n"))
    assert crlf == (found,)
    assert find_modules("\ufeff" + text) == (found,)


@pytest.mark.parametrize(
    "text", ["class A(:\n", "def f(\n", "x = '\n", "\0class A: ...", "class A:\n", "if:\n  class A: ..."]
)
def test_a_text_that_is_not_python_raises_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        find_modules(text)


PARTS = [
    "class A{n}(nn.Module):\n    def __init__(self, a=1):\n        super().__init__()\n\n    def forward(self, x):\n"
    "        return x\n",
    "@dec\nclass B{n}(A0):\n    '''Doc\nclass Fake(nn.Module):\n    '''\n    def f(self): return 1\n    x = 1\n",
    "def f{n}(\n    a,\n    b=(1,\n2),\n):\n    s = '''\nclass Fake(nn.Module): ...\n'''\n    return s\n",
    "K{n} = '''\ndef g():\n    pass\n    '''\n",
    "async def h{n}():\n    class Local(nn.Module):\n        x = 1\n    # def z():\n    return [\n1,\n]\n",
    "if True:\n    class C{n}(nn.Module):\n        def forward(self, x): return x\nelse:\n    def other(): pass\n",
    "x{n} = [  # class (\n    'def q():',\n]\n",
    "def one_line{n}(): return 1\n\n\n",
    "class D{n}(nn.Module):\n\tdef forward(self,\n\t\tx):\n"
    "\t\tif x:\n\t\t\treturn 1\n\t\t# end\n\n\tclass E(nn.Linear): ...\n",
    "def get_inputs():\n    return [A0()]\n",
    "s{n} = \"it's\" + f'{x}' \\\n  'def'\n",
]


def whole(text: str) -> tuple[ModuleClass, ...]:
    """The classes of a text that is parsed in one go, function bodies and all."""
    return classes_of([read_whole(text)], None)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_pieces_give_what_a_full_parse_does(parts: list[str], newline: str) -> None:
    text = "import torch.nn as nn\nclass A0(nn.Module): ...\n"
    text += "".join(part.replace("{n}", str(number)) for number, part in enumerate(parts, 1))
    text = text.replace("\n", newline)
    assert find_all(text) == whole(text)
    assert not any(read(piece).broken for piece in cut(text))


@pytest.mark.parametrize("module", [ast, typing, dataclasses, argparse, tarfile])
def test_pieces_agree_on_real_source_files(module: ModuleType) -> None:
    text = Path(str(module.__file__)).read_text().replace("object", "Module")
    text += "\nimport torch.nn as nn\nclass A(nn.Module): ...\n"
    assert find_all(text) == whole(text)
    pieces = [read(piece) for piece in cut(text)]
    assert "".join(piece.text for piece in pieces) == text
    assert not any(piece.broken for piece in pieces)
    assert len(pieces) > 20


def test_an_error_inside_a_function_does_not_hide_its_class() -> None:
    text = "import torch.nn as nn\nclass A(nn.Module):\n    def forward(self, x):\n        return x +\n"
    assert [found.qualname for found in find_modules(text)] == ["A"]


def test_what_no_import_finds_says_why() -> None:
    text = """from typing import TYPE_CHECKING
import typing
import torch.nn as nn
if TYPE_CHECKING:
    class Typed(nn.Module): ...
    class Both(nn.Module): ...
else:
    class Both(nn.Module): ...
if typing.TYPE_CHECKING:
    class Other(nn.Module): ...
class Twice(nn.Module): ...
class Twice(nn.Module): ...
class Outer:
    class Twice(nn.Module): ...
"""
    assert [(found.qualname, found.name_line, found.objection) for found in find_modules(text)] == [
        ("Typed", 4, "exists for type checkers only"),
        ("Both", 5, "exists for type checkers only"),
        ("Both", 7, ""),
        ("Other", 9, "exists for type checkers only"),
        ("Twice", 10, "is defined more than once, on lines 11 and 12"),
        ("Twice", 11, "is defined more than once, on lines 11 and 12"),
        ("Outer.Twice", 13, ""),
    ]
