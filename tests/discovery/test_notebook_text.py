"""Notebooks as Python text: every line where it is in its cell, and nothing of it run that a class does not need."""

from __future__ import annotations

import ast
import json

import pytest

from stark_lsp.discovery.notebooks import height, joined, needed_alone, text_of


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("x = 1\n%timeit x\n!ls", "x = 1\n#timeit x\n#ls"),
        ("%%bash\nls *.py\n\necho", "#%bash\n#s *.py\n\n#cho"),
        ("if x:\n    !ls", "if x:\n    pass  # !ls"),
        ("files = !ls *.py", "files = None  # !ls *.py"),
        ('text = """\n%d\n"""', 'text = """\n%d\n"""'),
        ("torch.nn?\nx = 5 % 3", "#orch.nn?\nx = 5 % 3"),
        ("", ""),
    ],
)
def test_lines_for_ipython_are_taken_out_line_for_line(cell: str, python: str) -> None:
    assert joined([cell]) == f"{python}\n# %%\n"
    assert height(cell) == joined([cell]).count("\n")


def test_only_what_a_class_and_its_inputs_need_is_kept_where_it_is() -> None:
    cells = [
        # A form feed and a separator of Unicode end no line.
        "import torch\n\x0c\nWIDTH = 4  # \u2028",
        "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x * WIDTH",
        "model = Model()\nfor _ in range(10):\n    model(torch.ones(3))",
        "def get_inputs():\n    return [torch.ones(WIDTH)]",
    ]
    text = joined(cells)
    kept = needed_alone(text, "Model", ["get_inputs"])
    assert kept.count("\n") == text.count("\n")
    assert [type(node).__name__ for node in ast.parse(kept).body] == ["Import", "Assign", "ClassDef", "FunctionDef"]
    lines = kept.split("\n")
    assert all(line in ("", text.split("\n")[number]) for number, line in enumerate(lines))


def test_a_file_is_read_as_its_code_cells() -> None:
    cells = [{"cell_type": "markdown", "source": ["a"]}, {"cell_type": "code", "source": ["x = 1\n", "y = 2"]}]
    assert text_of(json.dumps({"cells": cells})) == "x = 1\ny = 2\n# %%\n"
    assert text_of("no notebook") is None
    assert text_of("[]") is None
