"""New imports go where isort would put them, and the user's own lines stay where they are."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.editing import apply_edits
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.imports import arranged, import_edits
from stark_lsp.discovery.layout import replacements
from stark_lsp.discovery.problems import make_problem
from stark_lsp.discovery.syntax import split_lines
from stark_lsp.proposals.edit import build_edit

SAMPLES = sorted((Path(__file__).parents[2] / "samples").glob("*.py"))
NEW = ("import os", "import ctypes", "import torch.nn.functional as F", "from pathlib import Path")


def brought(document: str, imports: tuple[str, ...] = NEW, before: str = "class Model") -> str:
    lines = split_lines(document)
    line = next(number for number, text in enumerate(lines) if text.startswith(before))
    return apply_edits(document, replacements(document, import_edits(ast.parse(document), lines, imports, line)))


def ruff_complains(text: str) -> str:
    """Return what ruff has to say on the order of imports, with its default settings."""
    ruff = shutil.which("ruff", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))))
    if ruff is None:
        pytest.skip("ruff is not installed")
    command = [ruff, "check", "--isolated", "--select", "I", "--stdin-filename", "m.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode else ""


CLASS = "\n\nclass Model:\n    pass\n"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (
            "import math\nimport sys\n\nimport torch\nfrom torch import nn\n",
            "import ctypes\nimport math\nimport os\nimport sys\nfrom pathlib import Path\n\n"
            "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n",
        ),
        (
            "import torch\nimport torch.nn as nn\n",
            "import ctypes\nimport os\nfrom pathlib import Path\n\n"
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n",
        ),
        (
            "# A licence.\n# More of it.\nimport torch\n",
            "# A licence.\n# More of it.\nimport ctypes\nimport os\nfrom pathlib import Path\n\n"
            "import torch\nimport torch.nn.functional as F\n",
        ),
        (
            '"""Doc.\n# not a comment"""\nfrom __future__ import annotations\n# for speed\nimport torch\n\n'
            "from . import a\n",
            '"""Doc.\n# not a comment"""\nfrom __future__ import annotations\n\nimport ctypes\nimport os\n'
            "from pathlib import Path\n\n# for speed\nimport torch\nimport torch.nn.functional as F\n\n"
            "from . import a\n",
        ),
        (
            "import sys\nimport math\n\nimport torch\n",
            "import sys\nimport math\nimport ctypes\nimport os\nfrom pathlib import Path\n\n"
            "import torch\nimport torch.nn.functional as F\n",
        ),
        (
            "import math\n",
            "import ctypes\nimport math\nimport os\nfrom pathlib import Path\n\nimport torch.nn.functional as F\n",
        ),
        (
            "from . import a\n",
            "import ctypes\nimport os\nfrom pathlib import Path\n\nimport torch.nn.functional as F\n\n"
            "from . import a\n",
        ),
        (
            "import torch\nimport math\nx = 1\n",
            "import torch\nimport torch.nn.functional as F\nimport ctypes\nimport math\nimport os\n"
            "from pathlib import Path\nx = 1\n",
        ),
    ],
)
def test_every_import_finds_its_place(head: str, expected: str) -> None:
    result = brought(head + CLASS)
    assert result == expected + CLASS
    if not ruff_complains(head + CLASS):
        assert ruff_complains(result) == ""


def test_a_new_file_has_its_imports_in_sections() -> None:
    assert arranged((*NEW, "from . import near")) == [
        "import ctypes",
        "import os",
        "from pathlib import Path",
        "",
        "import torch.nn.functional as F",
        "",
        "from . import near",
    ]


STATEMENTS = (
    "import math", "import os.path", "from typing import Any", "import torch", "from torch import nn",
    "import numpy as np", "from . import near", "# a remark", "", "x = 1", "import sys; y = (\n2)",
)  # fmt: skip
TOPS = (
    "", "# licence\n", "#!/usr/bin/env python\n# coding: utf-8\n\n", '"""Doc."""\n', '"A\\\n# b"\n', "'x'; z = 1\n",
)  # fmt: skip
OTHERS = (*NEW, "from typing import Callable", "import torch.fx", "from .far import it")


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(TOPS),
    st.booleans(),
    st.lists(st.sampled_from(STATEMENTS), max_size=7),
    st.sets(
        st.sampled_from((*NEW, "from typing import Callable", "import torch.fx", "from .far import it")), min_size=1
    ),
)
def test_the_users_lines_keep_their_order_and_what_heads_the_file_its_place(
    top: str, future: bool, statements: list[str], new: set[str]
) -> None:
    future = future and "z = 1" not in top
    head = top + ("from __future__ import annotations\n" if future else "")
    document = head + "".join(f"{line}\n" for line in statements) + CLASS
    result = brought(document, tuple(sorted(new)))
    compile(result, "m.py", "exec")
    assert result.startswith(head)
    mine, theirs = document.splitlines(), iter(result.splitlines())
    assert all(line in theirs for line in mine), "the user's lines, in their order"
    added = [line for line in result.splitlines() if line]
    for line in (line for line in mine if line):
        added.remove(line)
    assert sorted(added) == sorted(new)
    assert result.index("class Model") > max(result.index(line) for line in new)


@pytest.mark.parametrize("mode", list(WriteMode))
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_an_accepted_proposal_leaves_the_imports_of_a_sample_in_order(path: Path, mode: WriteMode) -> None:
    text = path.read_text(encoding="utf-8")
    problem = make_problem(str(path), text, None)
    head = "import ctypes\nimport glob\nimport os\nimport torch\nimport torch.nn as nn\n"
    head += "import torch.nn.functional as F\n"
    head += "from torch.utils.cpp_extension import load\n"
    body = "class ModelNew(nn.Module):\n    def forward(self, x):\n"
    body += "        return F.relu(load(ctypes, glob, os, torch, x))\n"
    assert ruff_complains(text) == ""
    edit = build_edit(problem, text, Candidate(head + body), "# Optimized by STARK.", mode)
    assert ruff_complains(edit.new_file.text if edit.new_file is not None else edit.preview) == ""
