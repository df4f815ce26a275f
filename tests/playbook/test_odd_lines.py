"""Classes whose text is odd: line ends that `str.splitlines` alone takes for some, places, continued lines."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.discovery.problems import make_problem
from stark_lsp.playbook.emit import assemble
from stark_lsp.playbook.lines import UserLines
from stark_lsp.playbook.source import CannotEdit, find_user_class, renamed_class

TEXT = '''import torch
from torch import nn  # {0}
{1}

{2}class Act(nn.Module):
    """Doc{3}ument."""

    # {4}
    def __init__(self, dim=1024):
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))
{1}
    def extra(self):
        return "{3}"

    def width(self):
        n = self.g.numel()  # {4}
        return n
{1}
    def forward(self, x):
        """Doc{0}ument."""
        y = torch.tanh(x) * self.g
        return y * torch.sigmoid(y) + 1


def get_inputs():
    return [torch.randn(8, 1024)]
'''
odd = st.text("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029é ", max_size=4)
form_feeds = st.text("\x0c", max_size=2)


def _methods(text: str, name: str) -> dict[str, str]:
    node = next(item for item in ast.parse(text).body if isinstance(item, ast.ClassDef) and item.name == name)
    return {part.name: ast.dump(part) for part in node.body if isinstance(part, ast.FunctionDef)}


@given(odd, form_feeds, form_feeds, odd, odd, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_the_other_methods_stay_as_they_are(
    first: str, second: str, third: str, fourth: str, fifth: str, keep_old: bool, end: str
) -> None:
    text = TEXT.format(first, second, third, fourth, fifth).replace("\n", end)
    user = find_user_class(text, "Act")
    new = renamed_class(user, ["def forward(self, x):", "    return x"], ["DEFAULT = 1", ""], keep_old=keep_old)
    made = _methods(assemble(user, ["import math"], "import os\n\n\ndef helper():\n    pass\n", [], new), "ModelNew")
    before = _methods(text, "Act")
    assert made.pop("forward") != before["forward"]
    old = before.pop("forward")
    if keep_old:
        assert made.pop("_forward_pytorch") == old.replace("'forward'", "'_forward_pytorch'", 1)
    assert made == before


@given(odd, form_feeds)
def test_anchors_and_quotes_are_the_lines_that_python_counts(comment: str, blank: str) -> None:
    text = TEXT.format(comment, blank, "", comment, comment)
    problem = make_problem("/project/act.py", text, "Act")
    lines = UserLines(problem)
    assert lines.lines[problem.class_span.start] == "class Act(nn.Module):"
    assert "\n".join([*lines.lines, ""]) == text


def test_a_fallback_of_an_import_is_found() -> None:
    text = (
        "import torch.nn as nn\n\ntry:\n    from apex.normalization import FusedRMSNorm as Norm\n"
        "except ImportError:\n\n"
        "    class Norm(nn.Module):\n        def forward(self, x):\n            return x * 2\n"
    )
    assert find_user_class(text, "Norm").node.lineno == 7


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("class Norm(nn.Module):\n    forward = lambda self, x: x\n", "no plain `def`"),
        ("class Norm(nn.Module):\n    if FAST:\n        def forward(self, x): return x\n", "no plain `def`"),
        ("class Norm(Elsewhere):\n    pass\n", "its base class is in another file"),
        ("class \\\n  Norm(nn.Module):\n    def forward(self, x): return x\n", "does not stand on the line"),
        ("class Norm(nn.Module):\n    def \\\n      forward(self, x): return x\n", "does not stand on the line"),
    ],
)
def test_what_cannot_be_edited_is_told_as_what_it_is(body: str, said: str) -> None:
    def edited() -> None:
        user = find_user_class(f"import torch.nn as nn\n\n\n{body}", "Norm")
        renamed_class(user, ["def forward(self, x):", "    return x"], keep_old=True)

    with pytest.raises(CannotEdit, match=said):
        edited()


def test_a_generic_base_has_the_forward() -> None:
    text = (
        "import torch.nn as nn\n\n\nclass Base(nn.Module, Generic[T]):\n    def forward(self, x):\n        return x\n"
        "\n\nclass Norm(Base[int]):\n    pass\n"
    )
    assert find_user_class(text, "Norm").forward.call == "x"
