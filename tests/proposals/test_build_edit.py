"""A candidate comes into the user's file whole, once, and without touching anything else."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.editing import Replacement
from stark_lsp.core.errors import Fault
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.proposals.edit import ProposalEdit, StaleProposal, build_edit

COMMENT = "# Optimized by STARK: 2.00x the speed of eager PyTorch.\n# Run r, node 3."

DOCUMENT = '''\
"""Doc."""

import torch
from torch import nn

EPS = 1e-5


def helper(x):
    return x + EPS


# The user's model.
class Model(nn.Module):
    def __init__(self, d=3):
        super(Model, self).__init__()

    def forward(self, x):
        return helper(x)
        # done


class Sub(Model):
    pass


def get_inputs():
    return [torch.randn(3)]
'''

CANDIDATE = '''\
import ctypes
import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-5

SOURCE = r"""
void f() {
  // kernel
}
"""


# The launcher.
def launch(x):
    return helper(x) + ctypes.sizeof(ctypes.c_int) * len(SOURCE)


def helper(x):
    return x + EPS


class ModelNew(nn.Module):
    """New."""

    def __init__(self, d=3):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return F.relu(launch(x))


def get_inputs():
    return [torch.randn(3)]
'''


def problem_of(text: str, name: str | None = None, path: str = "/project/net.py") -> Problem:
    return make_problem(path, text, name)


def build(
    document: str = DOCUMENT,
    candidate: str = CANDIDATE,
    mode: WriteMode = WriteMode.BESIDE,
    *,
    now: str | None = None,
    name: str | None = None,
    class_name: str = "ModelNew",
) -> ProposalEdit:
    problem = problem_of(document, name)
    edit = build_edit(
        problem, document if now is None else now, Candidate(candidate, class_name=class_name), COMMENT, mode
    )
    assert applied(document if now is None else now, edit.edits) == edit.preview
    compile(edit.preview.removeprefix("\ufeff"), "preview.py", "exec")
    return edit


def applied(text: str, edits: tuple[Replacement, ...]) -> str:
    """An editor's side: edits in code points, from the end to the beginning."""
    lines = text.replace("\r\n", "\n").split("\n")
    width = 2 if "\r\n" in text else 1

    def offset(line: int, column: int) -> int:
        if line >= len(lines):
            return len(text)
        return sum(len(before) + width for before in lines[:line]) + column

    spans = [(offset(e.start_line, e.start_column), offset(e.end_line, e.end_column), e.new_text) for e in edits]
    assert all(a[1] < b[0] for a, b in itertools.pairwise(spans)), "edits must neither overlap nor touch"
    for start, end, new in reversed(spans):
        text = text[:start] + new + text[end:]
    return text


def unmarked(text: str) -> str:
    """The text without the lines that say what was accepted."""
    assert "as accepted: 000000000000" not in text
    return re.sub(r"[ \t]*# For [\w.]+, as accepted: [0-9a-f]{12}\.\r?\n", "", text)


def classes(text: str) -> list[str]:
    return [node.name for node in ast.walk(ast.parse(text.removeprefix("\ufeff"))) if isinstance(node, ast.ClassDef)]


def test_beside_puts_kernels_and_class_behind_the_original() -> None:
    preview = build().preview
    assert classes(preview) == ["Model", "ModelNew", "Sub"]
    assert DOCUMENT[DOCUMENT.index("# The user's") : DOCUMENT.index("\n\nclass Sub")] in preview
    assert preview.index("        # done") < preview.index("# Kernels of ModelNew") < preview.index("# The launcher.")
    assert f"{COMMENT}\nclass ModelNew(nn.Module):" in unmarked(preview)
    assert preview.count("def get_inputs") == preview.count("def helper") == preview.count("EPS = 1e-5") == 1


def test_imports_join_the_documents_and_none_comes_twice() -> None:
    preview = build().preview
    head = preview[: preview.index("EPS = ")]
    assert head == (
        '"""Doc."""\n\nimport ctypes\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n'
    )


def test_a_page_break_before_the_class_is_no_indentation() -> None:
    document = DOCUMENT.replace("class Model(", "\x0cclass Model(")
    assert document != DOCUMENT
    assert "\x0c" not in build(document, mode=WriteMode.BESIDE).preview.replace("\x0cclass Model(", "")
    assert "\x0c" not in build(document, mode=WriteMode.REPLACE).preview


def test_replace_takes_place_and_name() -> None:
    preview = build(mode=WriteMode.REPLACE).preview
    assert classes(preview) == ["Model", "Sub"]
    assert "ModelNew" not in preview
    assert "super(Model, self).__init__()" in preview
    assert "return F.relu(launch(x))" in preview
    assert preview.index("SOURCE = ") < preview.index("# The user's model.") < preview.index("class Model(")


def test_module_writes_a_file_next_to_the_original(tmp_path: Path) -> None:
    problem = problem_of(DOCUMENT, path=str(tmp_path / "net.py"))
    edit = build_edit(problem, DOCUMENT, Candidate(CANDIDATE), COMMENT, WriteMode.MODULE)
    assert edit.edits == ()
    assert edit.preview == DOCUMENT
    assert edit.new_file is not None
    assert edit.new_file.path == str(tmp_path / "net_model_stark.py")
    assert f"{COMMENT}\nclass ModelNew(nn.Module):" in edit.new_file.text
    assert "get_inputs" not in edit.new_file.text
    assert "def helper" in edit.new_file.text
    Path(edit.new_file.path).write_text("the user's own", encoding="utf-8")
    again = build_edit(problem, DOCUMENT, Candidate(CANDIDATE), COMMENT, WriteMode.MODULE)
    assert again.new_file is not None
    assert again.new_file.path == str(tmp_path / "net_model_stark2.py")


def test_names_the_document_uses_otherwise_are_changed_in_what_is_inserted() -> None:
    document = (
        DOCUMENT.replace("EPS = 1e-5", "EPS = 1e-5\nSOURCE = None\nctypes = 'mine'") + "\ndef launch():\n    pass\n"
    )
    preview = build(document).preview
    assert "import ctypes as ctypes_stark" in preview
    assert "def launch_stark(x):" in preview
    assert "ctypes_stark.sizeof(ctypes_stark.c_int) * len(SOURCE_stark)" in preview
    assert "F.relu(launch_stark(x))" in preview
    assert "SOURCE = None\nctypes = 'mine'" in preview
    assert "def launch():\n    pass\n" in preview


def test_a_helper_that_differs_is_inserted_with_all_that_leans_on_it() -> None:
    candidate = CANDIDATE.replace("EPS = 1e-5", "EPS = 1e-3")
    preview = build(candidate=candidate).preview
    assert "EPS_stark = 1e-3" in preview
    assert "def helper_stark(x):\n    return x + EPS_stark" in preview
    assert "return helper_stark(x) + ctypes" in preview
    assert "def helper(x):\n    return x + EPS\n" in preview


def test_local_variables_keywords_and_attributes_keep_their_names() -> None:
    candidate = (
        "import torch.nn as nn\nscale = 3\n"
        "def use(scale, *, launch=None):\n    return [scale for scale in scale.scale], launch\n"
        "def launch(x):\n    global scale\n    scale = 4\n    y = lambda scale: scale\n"
        "    return use(scale=scale, launch=x.launch)\n"
        "class ModelNew(nn.Module):\n    scale = scale\n"
        "    def launch(self):\n        return launch(self.launch) + scale\n"
        "    def forward(self, x) -> 'ModelNew': return f'{scale}' + f'{launch(x)}'\n"
    )
    preview = build(DOCUMENT + "scale = 1\ndef launch(): ...\n", candidate).preview
    assert "def use(scale, *, launch=None):\n    return [scale for scale in scale.scale], launch" in preview
    assert "    global scale_stark\n    scale_stark = 4\n    y = lambda scale: scale\n" in preview
    assert "return use(scale=scale_stark, launch=x.launch)" in preview
    assert "    scale = scale_stark\n" in preview
    assert "    def launch(self):\n        return launch_stark(self.launch) + scale_stark" in preview
    assert "{scale_stark}" in preview
    assert "{launch_stark(x)}" in preview


def test_the_documents_own_alias_of_an_import_is_used() -> None:
    document = DOCUMENT.replace("from torch import nn", "from torch import nn\nimport torch.nn.functional as func")
    preview = build(document).preview
    assert "func.relu(launch(x))" in preview
    assert "as F" not in preview


def test_annotations_are_quoted_where_the_candidate_alone_imports_them_from_the_future() -> None:
    candidate = "from __future__ import annotations\n" + CANDIDATE.replace(
        "def launch(x):", "def launch(x: Later | None, y: dict[str,\n        int] = {}) -> 'Later':\n    z: int = 3"
    )
    preview = build(candidate=candidate).preview
    assert "__future__" not in preview
    assert "def launch(x: 'Later | None', y: 'dict[str, int]' = {}) -> 'Later':\n    z: int = 3\n" in preview
    document = DOCUMENT.replace('"""Doc."""\n', '"""Doc."""\nfrom __future__ import annotations\n')
    preview = build(document, candidate).preview
    assert preview.count("__future__") == 1
    assert "def launch(x: Later | None, y: dict[str,\n        int] = {}) -> 'Later':" in preview


def test_a_guarded_import_is_kept_whole() -> None:
    guard = "try:\n    import triton\nexcept ImportError:\n    triton = None\n"
    candidate = guard + CANDIDATE.replace("len(SOURCE)", "len(SOURCE) + (triton is None)")
    assert guard in build(candidate=candidate).preview
    preview = build(guard + DOCUMENT, candidate).preview
    assert preview.count("import triton") == 1


def test_a_second_proposal_takes_the_place_of_the_first() -> None:
    first = build().preview
    second = build(DOCUMENT, CANDIDATE.replace("// kernel", "// better"), now=first).preview
    assert unmarked(second) == unmarked(first).replace("// kernel", "// better")
    assert second != unmarked(second)


def test_a_second_proposal_leaves_what_else_uses_the_firsts_kernels() -> None:
    first = build().preview + "\nprint(launch(1))\n"
    second = build(DOCUMENT, CANDIDATE.replace("// kernel", "// better"), now=first).preview
    assert second.count("// kernel") == second.count("// better") == 1
    assert "def launch(x)" in second
    assert "def launch_stark(x)" in second


def test_replacing_twice_leaves_one_set_of_kernels() -> None:
    first = build(mode=WriteMode.REPLACE).preview
    second = build(first, CANDIDATE.replace("// kernel", "// better"), WriteMode.REPLACE, name="Model").preview
    assert second.count("def launch(x)") == second.count("# Optimized by STARK") == second.count("SOURCE = ") == 1
    assert "// better" in second


def test_a_class_of_the_new_name_that_is_the_users_stays() -> None:
    document = DOCUMENT + "\n\nclass ModelNew:\n    mine = True\n"
    preview = build(document).preview
    assert "class ModelNew2(nn.Module):" in preview
    assert "super(ModelNew2, self)" in preview
    assert "class ModelNew:\n    mine = True\n" in preview


def test_other_classes_get_their_own_new_name() -> None:
    document = DOCUMENT.replace("Model", "Net").replace("get_inputs", "get_inputs_for_Net")
    preview = build(document, name="Net").preview
    assert "class NetNew(nn.Module):" in preview
    assert "super(NetNew, self)" in preview


WHOLE = """\
import torch.nn as nn


def register(cls):
    return cls


class Base(nn.Module):
    pass


@register
class Model(Base):
    expansion: int = 4

    @classmethod
    def build(cls):
        return cls()

    def _helper(self, x):
        return x

    def forward(self, x):
        return self._helper(x) * 2


def get_inputs():
    return [1]
"""


def test_a_proposal_that_leaves_out_what_others_use_takes_nobodys_place() -> None:
    alone = "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x + x\n"
    with pytest.raises(Fault) as trouble:
        build(WHOLE, alone, WriteMode.REPLACE)
    said = str(trouble.value)
    assert all(word in said for word in ("its base Base", "@register", "build", "expansion", "Write it beside"))
    assert "_helper" not in said
    assert "class ModelNew" in build(WHOLE, alone).preview
    whole = WHOLE.replace("class Model(", "class ModelNew(").replace("self._helper(x) * 2", "x + x")
    assert "return x + x" in build(WHOLE, whole, WriteMode.REPLACE).preview


def test_a_file_of_its_own_says_what_it_has_copies_of() -> None:
    more = "import enum\n\n\nclass Act(enum.Enum):\n    NEG = 1\n\n\nSCALES = {}\nEPS = 1e-5\n"
    document = WHOLE.replace("def register(cls):\n    return cls\n", more).replace("@register\n", "")
    document = document.replace("self._helper(x) * 2", "x * SCALES.get(Act.NEG, 2) + EPS")
    edit = build(document, document.replace("class Model(", "class ModelNew("), WriteMode.MODULE)
    assert edit.notes == (
        "The new file has copies of Act, SCALES, Base: what is changed in net.py, or compared with its classes, is not "
        "seen there.",
    )


REGISTRY = """\
KNOWN = {}


def register(name):
    def keep(cls):
        if name in KNOWN:
            raise KeyError(name)
        KNOWN[name] = cls
        return cls
    return keep"""


@pytest.mark.parametrize("decorator", ["@register('block')", "@register(name='block')"])
def test_a_class_beside_is_not_registered_under_the_name_of_the_original(decorator: str) -> None:
    document = WHOLE.replace("def register(cls):\n    return cls", REGISTRY).replace("@register\n", f"{decorator}\n")
    candidate = document.replace("class Model(", "class ModelNew(").replace("self._helper(x) * 2", "x + x")
    edit = build(document, candidate)
    assert edit.preview.count(decorator) == 1
    assert "class ModelNew(Base):" in edit.preview
    assert edit.notes == (f"{decorator} stands above Model alone: a second class would take its name there.",)
    assert build(document, candidate, WriteMode.REPLACE).preview.count(decorator) == 1


@pytest.mark.parametrize(
    ("header", "left"),
    [
        ('Base, key="block"', "Base"),
        ('Base, key="block", metaclass=type', "Base, metaclass=type"),
        ('Base, dim=3, key="block", alias="ü"', "Base, dim=3"),
        ('\n    Base,  # one, two\n    key="block",\n', "\n    Base,\n"),
    ],
)
def test_a_class_beside_is_not_registered_by_its_header(header: str, left: str) -> None:
    document = WHOLE.replace("@register\n", "").replace("class Model(Base)", f"class Model({header})")
    candidate = document.replace("class Model(", "class ModelNew(").replace("self._helper(x) * 2", "x + x")
    edit = build(document, candidate)
    assert f"class Model({header}):" in edit.preview
    assert f"class ModelNew({left}):" in edit.preview
    assert edit.notes[0] == (
        "key='block' stands in the header of Model alone: a second class would take its name there."
    )
    assert f"class Model({header}):" in build(document, candidate, WriteMode.REPLACE).preview


def test_a_file_of_its_own_does_not_register_its_class_under_the_name_of_the_original() -> None:
    document = WHOLE.replace("def register(cls):\n    return cls", "from zoo import register")
    document = document.replace("@register\n", '@register("block")\n')
    candidate = document.replace("class Model(", "class ModelNew(").replace("self._helper(x) * 2", "x + x")
    edit = build(document, candidate, WriteMode.MODULE)
    assert edit.new_file is not None
    assert "register" not in edit.new_file.text
    assert "@register('block') stands above Model alone: a second class would take its name there." in edit.notes


def test_a_candidate_that_leans_on_the_original_keeps_it_when_replacing() -> None:
    candidate = DOCUMENT + "\n\nclass ModelNew(Model):\n    def forward(self, x):\n        return super().forward(x)\n"
    beside = build(candidate=candidate).preview
    assert beside.count("class Model(") == 1
    assert "class ModelNew(Model):" in beside
    preview = build(candidate=candidate, mode=WriteMode.REPLACE).preview
    assert "class ModelOriginal(nn.Module):" in preview
    assert "super(ModelOriginal, self)" in preview
    assert "class Model(ModelOriginal):" in preview
    assert "class Sub(Model):" in preview


NESTED = """\
import torch.nn as nn


class Outer(nn.Module):
    class Block(nn.Module):
        def forward(self, x):
            return x

    def forward(self, x):
        return self.Block()(x)


def get_inputs():
    return []
"""
NESTED_CANDIDATE = (
    'import torch.nn as nn\n\nSOURCE = """\n  text\n"""\n\n\ndef launch(x):\n    return x, SOURCE\n\n\n'
    "class ModelNew(nn.Module):\n    def __init__(self):\n        super(ModelNew, self).__init__()\n"
    '        self.s = """\nat the margin\n"""\n\n    def forward(self, x):\n        return launch(x)\n'
)


def test_a_nested_class_stays_nested_and_its_kernels_go_to_module_level() -> None:
    document = NESTED.replace("def get_inputs", "def get_inputs_for_Outer_Block")
    edit = build(document, NESTED_CANDIDATE, name="Outer.Block")
    assert "\n# Kernels of Outer.BlockNew, written by STARK.\nSOURCE = " in edit.preview
    assert edit.preview.index("def launch") < edit.preview.index("class Outer")
    assert "    # Run r, node 3.\n    class BlockNew(nn.Module):\n" in unmarked(edit.preview)
    assert "super(Outer.BlockNew, self)" in edit.preview
    assert '\nat the margin\n"""\n' in edit.preview
    assert build(document, NESTED_CANDIDATE, now=edit.preview, name="Outer.Block").preview == edit.preview
    replaced = build(document, NESTED_CANDIDATE, WriteMode.REPLACE, name="Outer.Block").preview
    assert "    class Block(nn.Module):\n        def __init__" in replaced
    assert "super(Outer.Block, self)" in replaced


def test_a_nested_class_that_needs_its_outer_one_goes_behind_it() -> None:
    document = NESTED.replace("def get_inputs", "def get_inputs_for_Outer_Block")
    candidate = document + "\n\nclass ModelNew(Outer.Block):\n    pass\n"
    preview = build(document, candidate, name="Outer.Block").preview
    assert "\nclass BlockNew(Outer.Block):" in preview
    assert preview.count("class Outer(") == 1
    with pytest.raises(Fault):
        build(document, candidate, WriteMode.REPLACE, name="Outer.Block")


def test_a_conditional_class_keeps_its_company() -> None:
    document = "import torch.nn as nn\nif True:\n"
    document += "\tclass Model(nn.Module):\n\t\tdef forward(self, x): return x\nget_inputs = list\n"
    for mode, found in ((WriteMode.BESIDE, ["Model", "ModelNew"]), (WriteMode.REPLACE, ["Model"])):
        preview = build(document, NESTED_CANDIDATE, mode).preview
        assert sorted(classes(preview)) == found
        assert '\tSOURCE = """\n  text\n"""\n' in preview


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return helper(x)\n", "return helper(x) * 2\n", "class Model was edited"),
        ("return x + EPS", "return x - EPS", "helper, which Model uses, was edited"),
        ("EPS = 1e-5", "EPS = 1e-6", "EPS, which Model uses, was edited"),
        ("from torch import nn", "from mine import nn", "nn, which Model uses, was edited"),
        ("class Model(", "class Modell(", "class Model is no longer in the file"),
        ("class Sub(Model)", "class Model(Model)", "defined more than once"),
        ("    return [torch", "    return [[torch", "not valid Python"),
        ("def get_inputs", "EPS = 3\n\ndef get_inputs", "EPS, which Model uses"),
    ],
)
@pytest.mark.parametrize("mode", list(WriteMode))
def test_a_proposal_for_what_is_no_longer_there_is_stale(old: str, new: str, said: str, mode: WriteMode) -> None:
    assert old in DOCUMENT
    with pytest.raises(StaleProposal, match=said) as raised:
        build(now=DOCUMENT.replace(old, new, 1), mode=mode)
    assert raised.value.cure


@pytest.mark.parametrize("mode", [WriteMode.BESIDE, WriteMode.REPLACE])
def test_edits_elsewhere_comments_and_formatting_do_not_make_it_stale(mode: WriteMode) -> None:
    now = (
        DOCUMENT.replace("return x + EPS", "return (x  +  EPS)  # now with a comment")
        .replace("class Sub(Model):\n    pass", "class Sub(Model):\n    x = 1")
        .replace("import torch\n", "import os\nimport torch\n\nprint(os)\n")
        .replace("from torch import nn", "import torch.nn as nn")
    )
    preview = build(now=now, mode=mode).preview
    assert "return (x  +  EPS)  # now with a comment" in preview
    assert "    x = 1" in preview


def test_a_candidate_without_its_class_is_a_fault() -> None:
    with pytest.raises(Fault):
        build(candidate="x = 1\n")
    with pytest.raises(Fault):
        build(candidate="class ModelNew(:\n")


def test_a_constant_the_class_needs_at_once_comes_before_it() -> None:
    document = "import torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x): return x * LATE\n\n"
    document += "\nLATE = 2\nget_inputs = list\n"
    candidate = "import torch.nn as nn\nLATE = 2\nTWICE = LATE * 2\n"
    candidate += "class ModelNew(nn.Module):\n    def forward(self, x): return x * TWICE\n"
    for mode in (WriteMode.BESIDE, WriteMode.REPLACE):
        preview = build(document, candidate, mode).preview
        assert "LATE_stark = 2\nTWICE = LATE_stark * 2\n" in preview
    assert "x * LATE" in build(document, candidate.replace("LATE * 2", "2").replace("TWICE\n", "LATE\n")).preview


def test_the_edited_file_runs() -> None:
    torch = pytest.importorskip("torch")
    for mode in (WriteMode.BESIDE, WriteMode.REPLACE):
        namespace: dict[str, object] = {"__name__": "edited"}
        exec(build(mode=mode).preview, namespace)
        made = namespace["ModelNew" if mode is WriteMode.BESIDE else "Model"]()  # type: ignore[operator]
        assert torch.isfinite(made(torch.zeros(2))).all()


TOPS = [
    "",
    "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n",
    '"""Doc é."""\n',
    "'''A\nB'''; x = 1\n",
    "# licence\n\n",
]
IMPORTS = [
    "import torch\nimport torch.nn as nn\n", "from torch import nn\n",
    "import torch; from torch import nn; z = (\n1)\n",
    "try:\n    import fast\nexcept ImportError:\n    fast = None\nimport torch.nn as nn\n",
    "from __future__ import annotations\nimport torch.nn as nn\n", "import torch.nn as nn\nimport ctypes\n",
]  # fmt: skip
MIDDLES = [
    "",
    "\n\n",
    "# note\n",
    "SOURCE = 1\n",
    "def launch(): pass\n\n",
    "if 1:\n    q = 2\n",
    "s = '''\n  odd\n'''\n",
]
BODIES = [
    "class Model(nn.Module):\n    def forward(self, x):\n        return x\n",
    "@staticmethod\nclass Model(nn.Module):\n\tdef forward(self, x):\n\t\treturn 'ü'\n\t\t# end\n",
    "class Model(nn.Module): ...\n",
    "class Model(nn.Module):\n    '''Doc.\n\nmore'''\n\n\n",
]
ENDS = [
    "",
    "get_inputs = list\n",
    "\n\nclass Sub(Model): pass\n",
    "# last",
    "x = 1",
    "\x0c\ny = 2\n",
    "F = launch = 3\n",
]


@st.composite
def _documents(draw: st.DrawFn) -> str:
    top, imports = draw(st.sampled_from(TOPS)), draw(st.sampled_from(IMPORTS))
    if "__future__" in imports and "x = 1" in top:
        top = ""
    text = top + imports + "".join(draw(st.lists(st.sampled_from(MIDDLES), max_size=3)))
    text += "def get_inputs(): return []\n" + draw(st.sampled_from(BODIES))
    text += "".join(draw(st.lists(st.sampled_from([*ENDS[1:3], *MIDDLES]), max_size=3))) + draw(st.sampled_from(ENDS))
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text


def import_bindings(text: str) -> list[tuple[str, str]]:
    found = []
    for node in ast.parse(text.removeprefix("\ufeff")).body:
        if isinstance(node, ast.Import):
            found += [(alias.name, alias.asname or alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(f"{node.module}.{alias.name}", alias.asname or alias.name) for alias in node.names]
    return found


@settings(max_examples=150, deadline=None)
@given(
    _documents(), st.sampled_from([CANDIDATE, NESTED_CANDIDATE]), st.sampled_from([WriteMode.BESIDE, WriteMode.REPLACE])
)
def test_whatever_the_document_the_rest_of_it_stays_as_it_is(document: str, candidate: str, mode: WriteMode) -> None:
    if mode is WriteMode.REPLACE and "@staticmethod" in document:
        with pytest.raises(Fault, match="leaves out @staticmethod of Model"):
            build(document, candidate, mode)
        return
    edit = build(document, candidate, mode)
    preview = edit.preview
    bindings = import_bindings(preview)
    assert len(bindings) == len(set(bindings))
    assert preview.startswith("\ufeff") == document.startswith("\ufeff")
    if "\r\n" in document:
        assert "\n" not in preview.replace("\r\n", "")
    else:
        assert "\r" not in preview
    assert all(edit.start_line == edit.end_line or mode is WriteMode.REPLACE for edit in edit.edits)
    if mode is WriteMode.BESIDE:
        kept = iter(preview)
        assert all(character in kept for character in document)  # nothing was taken away
        span = problem_of(document).class_span
        lines = document.replace("\r\n", "\n").split("\n")
        original = "\n".join(lines[span.start : span.end + 1])
        assert original in preview.replace("\r\n", "\n")
        assert preview.endswith(document[-3:]) or "ModelNew" in preview[-600:]
        again = build(document, candidate, mode, now=preview)
        assert again.preview == preview
    else:
        assert classes(preview).count("Model") == 1
