"""A slice holds what a class needs, line for line, and nothing else."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.core.problem import SourceSlice
from stark_lsp.discovery.slicing import NoSuchClass, slice_of
from stark_lsp.discovery.syntax import class_names, parse

DOCUMENT = '''\
#!/usr/bin/env python
"""A document."""

from __future__ import annotations

import json
import os, sys
import torch
from torch import nn
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

try:
    import fast
except ImportError:
    fast = None

torch.backends.cudnn.benchmark = True

# how small
EPS = 1e-5
TABLE = {}
TABLE["a"] = EPS
UNUSED = json.dumps(1)


def helper(x: "Tensor"):
    """Help."""
    return inner(x) + EPS


def inner(x):
    return x if fast is None else fast.run(x)


def unrelated():
    return os.getcwd()


def decorate(cls):
    return cls


# the base
class Base(nn.Module):
    pass


@decorate
class Model(Base):
    def forward(self, x: Tensor):
        return helper(x) * TABLE["a"]


def get_inputs():
    return [torch.randn(3), unrelated()]


if __name__ == "__main__":
    helper = None
    print(Model()(*get_inputs()))
'''


def make_slice(text: str, qualname: str) -> SourceSlice:
    """Return the slice of a text for a class."""
    return slice_of(parse(text), text, qualname)


def test_it_holds_what_the_class_refers_to_transitively() -> None:
    text = make_slice(DOCUMENT, "Model").text
    for part in (
        "from __future__ import annotations", "from torch import nn", "if TYPE_CHECKING:", "from typing import", "try:",
        "except ImportError:", "# how small\nEPS", 'TABLE["a"] = EPS', "def helper", "def inner", "def decorate",
        "# the base\nclass Base", "@decorate\nclass Model",
    ):  # fmt: skip
        assert part in text
    for part in ("json", "os, sys", "UNUSED", "unrelated", "get_inputs", "__main__", "A document"):
        assert part not in text


def test_settings_of_what_is_used_are_kept() -> None:
    text = "import torch\ntorch.backends.a = True\ntorch.manual_seed(0)\nprint(1)\nclass A(torch.nn.Module): ...\n"
    assert make_slice(text, "A").text == text.replace("print(1)\n", "")


def test_get_inputs_is_kept_if_the_class_uses_it() -> None:
    text = (
        "import torch\nclass A(torch.nn.Module):\n    def f(self): return get_inputs()\ndef get_inputs(): return []\n"
    )
    assert "def get_inputs" in make_slice(text, "A").text


def test_a_nested_or_conditional_class_keeps_what_is_around_it() -> None:
    text = (
        "import torch\nX = 1\nif X:\n    class Outer:\n        class B(torch.nn.Module): ...\nelse:\n    Outer = None\n"
    )
    assert make_slice(text, "Outer.B").text == text


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(NoSuchClass):
        make_slice(DOCUMENT, "Missing")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_do_not_matter(newline: str, mark: str) -> None:
    assert make_slice(mark + DOCUMENT.replace("\n", newline), "Model") == make_slice(DOCUMENT, "Model")


PARTS = [
    "import os\n", "import sys, json\n", "X{n} = 1; Y{n} = X0\n", "# a comment\nZ{n} = X0\n",
    "def f{n}(a, b=X0):\n    # inside\n    return '''\n  text\n''' + str(a)\n", "\n\n", "class C{n}:\n    y = f0\n\n",
    "try:\n    import fast{n}\nexcept ImportError:\n    fast{n} = os\n", "for i{n} in range(3):\n    L{n} = i{n}\n",
    "\tif_tabs = 1\n".lstrip(), "@f0\ndef g{n}(): ...\n", "é{n} = 'ü\\\n  x'\n",
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=8), st.lists(st.sampled_from(PARTS), max_size=8), st.data())
def test_each_line_of_a_slice_is_its_line_of_the_document(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    parts = [part.replace("{n}", str(number)) for number, part in enumerate([*before, *after])]
    bound = ["X0", "f0", *(f"{kind}{n}" for kind in "fXZgLé" for n in range(len(parts)))]
    used = data.draw(st.lists(st.sampled_from(bound), max_size=4))
    model = (
        "class Model(torch.nn.Module):\n    def forward(self):\n        return " + ", ".join(used or ["None"]) + "\n"
    )
    text = "import torch\n" + "".join([*parts[: len(before)], model, *parts[len(before) :]])
    piece = make_slice(text, "Model")
    ast.parse(piece.text)
    lines, document = piece.text.split("\n")[:-1], text.split("\n")
    assert len(lines) == len(piece.line_map)
    assert [document[number] for number in piece.line_map] == lines
    assert list(piece.line_map) == sorted(set(piece.line_map))
    bound_in_slice = {node.id for node in ast.walk(ast.parse(piece.text)) if isinstance(node, ast.Name)}
    defined = {name for name in used if f"{name} = " in text or f"def {name}(" in text}
    kept = piece.text
    assert all(name in bound_in_slice and (f"{name} = " in kept or f"def {name}(" in kept) for name in defined)


def test_names_of_classes_are_those_at_module_level() -> None:
    text = (
        "class A:\n    class Inner: ...\ntry:\n    class B: ...\nexcept ImportError:\n    class C: ...\n"
        "def f():\n    class Hidden: ...\nif A:\n    class A: ...\n"
    )
    assert class_names(parse(text)) == ["A", "B", "C"]
