"""What is accepted runs where it stands: whatever a file does with its names, and however often it is accepted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.proposals.edit import ProposalEdit, build_edit

torch = pytest.importorskip("torch")

COMMENT = "# Optimized by STARK: 2.00x the speed of eager PyTorch.\n# Run r, node 3."
INSERTING = [WriteMode.BESIDE, WriteMode.REPLACE]
IMPORTS = "import torch\nimport torch.nn as nn\n"
MODEL = "class Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
INPUTS = "\n\ndef get_inputs():\n    return [torch.ones(2)]\n"
CANDIDATE = (
    "import math\nimport os\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
    "SOURCE = 'kernel'\n\n\ndef launch(x):\n"
    "    return F.relu(x * x) / x * math.sqrt(4) + len(os.sep) - len(SOURCE) + 5\n"
    "\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return launch(x)\n"
)


def accept(
    text: str, candidate: str = CANDIDATE, mode: WriteMode = WriteMode.BESIDE, name: str = "Model", began: str = ""
) -> ProposalEdit:
    """The edit of a run that began with `began`."""
    problem = make_problem("/project/net.py", began or text, name)
    return build_edit(problem, text, Candidate(candidate), COMMENT, mode)


def loaded(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "edited"}
    exec(compile(text, "edited.py", "exec", dont_inherit=True), namespace)
    return namespace


def result(text: str, qualname: str) -> list[float]:
    """What a class of a file gives for an input."""
    found: Any = loaded(text)
    for index, name in enumerate(qualname.split(".")):
        found = getattr(found, name) if index else found[name]
    given: list[float] = found()(torch.full((2,), 3.0)).tolist()
    return given


def new_name(mode: WriteMode) -> str:
    return "Model" if mode is WriteMode.REPLACE else "ModelNew"


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("", "if __name__ == '__main__':\n    import os\n    import math\n    import torch.nn.functional as F\n"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\n    import torch.nn.functional as F\n",
            "",
        ),
        ("", "import os\nimport math\nimport torch.nn.functional as F\n"),
        ("import os\nimport math\nimport torch.nn.functional as F\n", "del os, math, F\n"),
        ("import os\nimport math\nimport torch.nn.functional as F\n", "os = math = F = None\n"),
        (
            "import os\nimport math\nimport torch.nn.functional as F\n",
            "def f():\n    global os, F\n    os = F = 0\nf()\n",
        ),
        ("try:\n    raise OSError\n    import os\nexcept OSError as math:\n    pass\n", ""),
        ("def lazy():\n    import os, math\n", "for os in range(3): pass\n"),
        ("import os.path\nimport math as m, torch.nn.functional\n", "with open('/dev/null') as F: pass\n"),
        ("class A:\n    import os\n    from math import sqrt\n", "[math := 1 for _ in 'a']\n"),
        ("import contextlib\nwith contextlib.suppress(ValueError):\n    raise ValueError\n    import os\n", ""),
    ],
)
@pytest.mark.parametrize("mode", INSERTING)
def test_an_import_counts_only_where_it_is_certain_to_be_executed(above: str, below: str, mode: WriteMode) -> None:
    document = IMPORTS + above + "\n\n" + MODEL + INPUTS + below
    preview = accept(document, mode=mode).preview
    assert result(preview, new_name(mode)) == [6.0, 6.0]
    kept = iter(preview.splitlines())
    assert all(line in kept for line in (above + (MODEL if mode is WriteMode.BESIDE else "") + below).splitlines())


def test_an_import_that_is_certain_does_not_come_twice() -> None:
    above = "import math\nimport os\ntry:\n    import torch.nn.functional as F\nexcept ImportError:\n    raise\n"
    preview = accept(IMPORTS + above + "\n\n" + MODEL + INPUTS).preview
    assert preview.startswith(IMPORTS + above + "\n\n" + MODEL)


def test_a_module_whose_top_name_is_taken_comes_under_another() -> None:
    candidate = CANDIDATE.replace("import os\n", "import os.path\n")
    preview = accept(IMPORTS + "os = 'mine'\n" + MODEL + INPUTS, candidate).preview
    assert "import os as os_stark\n" in preview
    assert "import os.path as os_path\n" in preview
    assert result(preview, "ModelNew") == [6.0, 6.0]


@pytest.mark.parametrize("mode", INSERTING)
def test_built_in_names_that_the_file_uses_otherwise_are_still_the_built_in_ones(mode: WriteMode) -> None:
    document = IMPORTS + "\n\n" + MODEL + INPUTS + "\n\ndef len(x):\n    return 1000\n"
    preview = accept(document, mode=mode).preview
    assert "import builtins\n" in preview
    assert result(preview, new_name(mode)) == [6.0, 6.0]


@pytest.mark.parametrize("mode", INSERTING)
def test_a_star_import_that_the_candidate_lacks_does_not_change_its_names(mode: WriteMode) -> None:
    document = IMPORTS + "from torch import *\n\n\n" + MODEL + INPUTS
    assert result(accept(document, mode=mode).preview, new_name(mode)) == [6.0, 6.0]
    with pytest.raises(Fault, match="imports everything of math"):
        accept(document, CANDIDATE.replace("import math\n", "from math import *\nimport math\n"), mode)


TWINS = """\
import torch
import torch.nn as nn


class Enc(nn.Module):
    class Block(nn.Module):
        def forward(self, x):
            return x * 2


class Dec(nn.Module):
    class Block(nn.Module):
        def forward(self, x):
            return x * 3


def get_inputs_for_Enc_Block():
    return [torch.ones(2)]


def get_inputs_for_Dec_Block():
    return [torch.ones(2)]
"""


def twin(times: int, base: str = "nn.Module", more: str = "") -> str:
    return (
        f"{TWINS}\n\nKERNEL = 'times {times}'\n\n\ndef launch(x):\n"
        f"    return x * len(KERNEL) - x * {7 - times}{more}\n\n\n"
        f"class ModelNew({base}):\n    def forward(self, x):\n        return launch(x)\n"
    )


@pytest.mark.parametrize("derived", [False, True], ids=["inside", "behind"])
def test_classes_of_one_short_name_do_not_touch_each_others_kernels(derived: bool) -> None:
    text, names = TWINS, {}
    for again in range(3):
        for qualname, times in (("Enc.Block", 2), ("Dec.Block", 3)):
            candidate = twin(times, qualname if derived else "nn.Module", " + 0" * again)
            text = accept(text, candidate, name=qualname, began=TWINS).preview
        short = re.findall(r"# Kernels of ([\w.]+),", text)
        assert len(short) == 2
        names = dict(zip(("Enc.Block", "Dec.Block"), sorted(short, reverse=not derived), strict=True))
        assert result(text, names["Enc.Block"]) == [6.0, 6.0]
        assert result(text, names["Dec.Block"]) == [9.0, 9.0]
        assert text.count("BlockNew") == len(re.findall(r"BlockNew", text))
    assert set(names.values()) == ({"BlockNew", "BlockNew2"} if derived else {"Enc.BlockNew", "Dec.BlockNew"})


@pytest.mark.parametrize(
    "head", ["if True:\n", "try:\n", "with open('/dev/null'):\n", "for _ in 'a':\n", "if False:\n    pass\nelse:\n"]
)
def test_a_class_in_a_block_keeps_the_name_of_its_replacement(head: str) -> None:
    block = "".join(f"    {line}\n" if line else "\n" for line in MODEL.splitlines())
    tail = "except ImportError:\n    pass\n" if head.startswith("try") else ""
    document = IMPORTS + head + block + tail + INPUTS
    text = document
    for number in range(3):
        better = CANDIDATE.replace("kernel'", f"kerne{number}'")
        text = accept(text, better, began=text).preview + ("\nnet = ModelNew()\n" if not number else "")
        assert "ModelNew2" not in text
        assert text.count("SOURCE = ") == text.count("def launch") == 1
        assert result(text, "ModelNew") == [6.0, 6.0]


@pytest.mark.parametrize(
    "top",
    [
        '"""Doc."""; x = 1\n',
        '"""Doc."""; from __future__ import annotations; import torch\n',
        "from __future__ import division; import torch\n",
        "\n# -*- coding: latin-1 -*-\n",
        "#!/usr/bin/env python\n# coding: latin-1\nx = 1\n",
    ],
)
@pytest.mark.parametrize("mode", INSERTING)
def test_what_must_come_first_stays_first(top: str, mode: WriteMode) -> None:
    document = top + IMPORTS + MODEL + INPUTS
    candidate = "from __future__ import annotations, division\n" + CANDIDATE
    preview = accept(document, candidate, mode).preview
    assert preview.startswith(top)
    assert result(preview, new_name(mode)) == [6.0, 6.0]


EDITS = [
    ("return launch(x)", "return launch(x) + 0"),
    ("return launch(x)", "return launch(x)  # checked"),
    ("    return F.relu", "    assert x.numel()\n    return F.relu"),
    ("SOURCE = 'kernel'", "SOURCE = 'kernel'  # mine"),
    ("# Run r, node 3.\n", "# Run r, node 3.\n# I like it.\n"),
    ("class ModelNew(nn.Module):\n", "class ModelNew(nn.Module):\n    '''My own.'''\n\n"),
]


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_an_accepted_class_that_was_edited_stays(old: str, new: str) -> None:
    document = IMPORTS + MODEL + INPUTS
    first = accept(document).preview
    assert old in first
    edited = first.replace(old, new) + "\n\nnet = ModelNew()\n"
    edit = accept(edited, CANDIDATE.replace("'kernel'", "'better'"), began=document)
    assert edit.notes == ("ModelNew was edited since it was accepted, so it stays as it is.",)
    assert new in edit.preview
    kept = iter(edit.preview.splitlines())
    assert all(line in kept for line in edited.splitlines()), "nothing was taken away"
    assert result(edit.preview, "ModelNew") == result(edit.preview, "ModelNew2") == [6.0, 6.0]
    again = accept(edit.preview, CANDIDATE.replace("'kernel'", "'faster'"), began=document)
    assert "'better'" not in again.preview, "the one that nobody edited makes room"
    assert "class ModelNew3" not in again.preview
    assert new in again.preview


def test_formatting_an_accepted_class_is_no_edit() -> None:
    document = IMPORTS + MODEL + INPUTS
    candidate = CANDIDATE.replace("(nn.Module):\n", '(nn.Module):\n    """Doc.\n\n    More.\n    """\n\n')
    first = accept(document, candidate).preview
    tidy = first.replace("SOURCE = 'kernel'", 'SOURCE = (\n    "kernel"\n)').replace("    More.\n", "      More.  \n")
    tidy = tidy.replace("# Run r,", "#Run r,")
    edit = accept(tidy, candidate.replace("'kernel'", "'better'"), began=document)
    assert edit.notes == ()
    assert edit.preview.count("class ModelNew") == 1


def test_a_class_of_before_there_were_marks_stays() -> None:
    document = IMPORTS + MODEL + INPUTS
    first = re.sub(r"# For Model, as accepted: \w+\.\n", "", accept(document).preview)
    edit = accept(first, CANDIDATE.replace("'kernel'", "'better'"), began=document)
    assert edit.notes == ("ModelNew may have been edited since it was accepted, so it stays as it is.",)
    assert result(edit.preview, "ModelNew") == result(edit.preview, "ModelNew2") == [6.0, 6.0]


def test_a_class_that_was_replaced_inside_another_one_can_be_replaced_again() -> None:
    document = TWINS.replace("    class Block", "    class Other:\n        pass\n\n    class Block", 1)
    for derived in (False, True):
        first = accept(document, twin(2).replace(TWINS, IMPORTS), WriteMode.REPLACE, "Enc.Block").preview
        base = "Enc.Block" if derived else "nn.Module"
        file = accept(first, first + twin(2, base).replace(TWINS, "\n"), WriteMode.MODULE, "Enc.Block").new_file
        assert file is not None
        assert result(file.text, "BlockNew") == [6.0, 6.0]


def test_star_imports_that_the_file_has_do_not_come_again() -> None:
    stars = "from math import *\nfrom torch import *\n"
    preview = accept(stars + IMPORTS + MODEL + INPUTS, stars + CANDIDATE).preview
    assert preview.count("import *") == 2
    assert result(preview, "ModelNew") == [6.0, 6.0]


def test_a_candidate_that_changes_its_class_afterwards_goes_into_a_module() -> None:
    candidate = CANDIDATE + "\n\ndef double(self, x):\n    return x * 2\n\n\nModelNew.forward = double\n"
    for mode in INSERTING:
        with pytest.raises(Fault, match=r"ModelNew\.forward = double"):
            accept(IMPORTS + MODEL + INPUTS, candidate, mode)
    file = accept(IMPORTS + MODEL + INPUTS, candidate, WriteMode.MODULE).new_file
    assert file is not None
    assert result(file.text, "ModelNew") == [6.0, 6.0]


@pytest.mark.parametrize("mode", INSERTING)
def test_names_of_the_class_around_do_not_get_into_the_new_one(mode: WriteMode) -> None:
    document = TWINS.replace("class Enc(nn.Module):\n", "class Enc(nn.Module):\n    M = nn\n").replace(
        "    class Block(nn.Module):", "    nn = None\n\n    class Block(M.Module):", 1
    )
    preview = accept(document, twin(2).replace(TWINS, IMPORTS), mode, "Enc.Block").preview
    assert result(preview, "Enc.Block" if mode is WriteMode.REPLACE else "Enc.BlockNew") == [6.0, 6.0]
