"""Which inputs belong to which class."""

from __future__ import annotations

from pathlib import Path

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.classes import find_modules
from stark_lsp.discovery.problems import class_at, make_problem

HEAD = "import torch.nn as nn\n"
INPUTS = "def get_inputs():\n    return []\ndef get_init_inputs():\n    return []\n"


def owners(text: str) -> dict[str, tuple[str | None, str | None]]:
    return {
        found.qualname: (found.inputs.inputs_function, found.inputs.init_function)
        for found in find_modules(HEAD + text)
        if found.inputs.source is InputSource.FUNCTIONS
    }


def test_get_inputs_belongs_to_model() -> None:
    text = "class Model(nn.Module): ...\nclass Other(nn.Module): ...\n" + INPUTS
    assert owners(text) == {"Model": ("get_inputs", "get_init_inputs")}


def test_without_model_it_belongs_to_the_only_class() -> None:
    assert owners("class Net(nn.Module): ...\n" + INPUTS) == {"Net": ("get_inputs", "get_init_inputs")}


def test_else_to_the_only_class_no_other_uses() -> None:
    text = (
        "class Block(nn.Module): ...\nclass Deep(Block): ...\ndef make():\n    return Deep()\n"
        "class Net(nn.Module):\n    def __init__(self):\n        self.block = make()  # Other\n"
    )
    assert owners(text + INPUTS) == {"Net": ("get_inputs", "get_init_inputs")}
    assert owners(text + "class Two(nn.Module): ...\n" + INPUTS) == {}


def test_a_class_may_have_functions_of_its_own() -> None:
    text = (
        "class Model(nn.Module): ...\nclass Outer:\n    class Block(nn.Module): ...\n"
        + INPUTS
        + "def get_inputs_for_Model(): ...\ndef get_inputs_for_Outer_Block(): ...\n"
        "def get_init_inputs_for_Block(): ...\n"
    )
    assert owners(text) == {
        "Model": ("get_inputs_for_Model", "get_init_inputs"),
        "Outer.Block": ("get_inputs_for_Outer_Block", "get_init_inputs_for_Block"),
    }


def test_get_inputs_may_be_imported_or_assigned() -> None:
    assert owners("from common import get_inputs\nclass Net(nn.Module): ...\n") == {"Net": ("get_inputs", None)}
    assert owners("get_inputs = lambda: []\nclass Net(nn.Module): ...\n") == {"Net": ("get_inputs", None)}


def project(tmp_path: Path, toml: str, name: str = "pyproject.toml", text: str = "class Net(nn.Module): ...\n") -> Path:
    (tmp_path / name).write_text(toml, encoding="utf-8")
    (tmp_path / "src").mkdir(exist_ok=True)
    file = tmp_path / "src" / "net.py"
    file.write_text(HEAD + text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "table", "wanted"),
    [
        ("pyproject.toml", "[[tool.stark.input]]", "src/net.py::Net"),
        ("pyproject.toml", "[[tool.stark.input]]", "Net"),
        ("stark.toml", "[[stark.input]]", "src/net.py::Net"),
    ],
)
def test_a_table_names_the_class(tmp_path: Path, name: str, table: str, wanted: str) -> None:
    file = project(tmp_path, f'{table}\nclass = "{wanted}"\ninit_args = [4]\nargs = [{{shape = [2, 4]}}]\n', name)
    problem = make_problem(str(file), file.read_text(encoding="utf-8"), None)
    assert problem.inputs.source is InputSource.TABLE
    assert problem.inputs.table["args"] == [{"shape": [2, 4]}]
    assert problem.inputs.table_path == str(tmp_path / name)


def test_a_table_of_another_file_or_class_does_not_count(tmp_path: Path) -> None:
    toml = '[[tool.stark.input]]\nclass = "other.py::Net"\nargs = [{shape = [1]}]\n'
    file = project(tmp_path, toml)
    (found,) = find_modules(file.read_text(encoding="utf-8"), str(file))
    assert found.inputs.source is InputSource.NONE


def test_functions_win_over_tables(tmp_path: Path) -> None:
    toml = '[[tool.stark.input]]\nclass = "Net"\nargs = [{shape = [1]}]\n'
    file = project(tmp_path, toml, text="class Net(nn.Module): ...\n" + INPUTS)
    (found,) = find_modules(file.read_text(encoding="utf-8"), str(file))
    assert found.inputs.source is InputSource.FUNCTIONS
    assert found.inputs.table == {}


def test_a_table_without_inputs_says_how_the_class_of_functions_is_used(tmp_path: Path) -> None:
    table = '[[tool.stark.input]]\nclass = "Net"\nautocast = "bfloat16"\ndtype = "float32"\n'
    file = project(tmp_path, table, text="class Net(nn.Module): ...\n" + INPUTS)
    inputs = make_problem(str(file), file.read_text(encoding="utf-8"), "Net").inputs
    assert (inputs.source, inputs.inputs_function) == (InputSource.FUNCTIONS, "get_inputs")
    assert inputs.table == {"class": "Net", "autocast": "bfloat16", "dtype": "float32"}
    (tmp_path / "pyproject.toml").write_text(table.replace("bfloat16", "float8"))
    with pytest.raises(BadInput, match="unknown autocast 'float8'"):
        make_problem(str(file), file.read_text(encoding="utf-8"), "Net")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('class = "Net"', "neither args nor kwargs"),
        ('class = "Net"\nargs = [{shape = [1, -2]}]', "no shape at args[0]"),
        ('class = "Net"\nargs = [{shape = [1], kind = "gauss"}]', "unknown kind 'gauss'"),
        (
            'class = "Net"\nargs = [{shape = [1], kind = "randn", high = 3}]',
            "low or high at args[0], which kind 'randn'",
        ),
        ('class = "Net"\nargs = [{shape = [1], kind = "randint", low = 3}]', "no high at args[0]"),
        ('class = "Net"\nargs = [{shape = [1], dtype = "uint8", low = 3}]', "no high at args[0]"),
        ('class = "Net"\nargs = [{shape = [1], dtype = "float"}]', "unknown dtype 'float'"),
        ('class = "Net"\nargs = [{shape = [1], size = 2}]', "unknown key 'size'"),
        ('class = "Net"\nargs = 3', "'args' of the wrong type"),
        ('class = "Net"\nargs = [{shape = [1]}]\nautocast = "float32"', "unknown autocast 'float32'"),
        ('class = "Net"\nkwargs = {x = {kind = "value"}}', "no value at kwargs.x"),
        ('class = "Net"\nextra = 1\nargs = []', "unknown key 'extra'"),
        ("class = ", "not valid TOML"),
    ],
)
def test_a_bad_table_is_explained_with_its_file(tmp_path: Path, toml: str, said: str) -> None:
    file = project(tmp_path, "[[tool.stark.input]]\n" + toml + "\n")
    with pytest.raises(BadInput) as raised:
        make_problem(str(file), file.read_text(encoding="utf-8"), "Net")
    assert said in str(raised.value)
    assert str(tmp_path / "pyproject.toml") in str(raised.value)
    assert raised.value.cure


@pytest.mark.parametrize(
    ("text", "qualname", "said", "line"),
    [
        ("class Net(nn.Module): ...\n", "Missing", "Modules in this file: Net", None),
        ("class A(nn.Module): ...\nclass B(nn.Module): ...\n", None, "several module classes: A, B", None),
        ("class Net(nn.Module): ...\n", "Net", "get_inputs()", 2),
        ("class A(nn.Module): ...\nclass B(nn.Module): ...\n", "B", "get_inputs_for_B()", 3),
        ("class Net(nn.Module):\n    x = = 1\n", "Net", "not valid Python", 3),
        ("x = 1\n", None, "no class of this file", None),
        ("def f():\n    class Net(nn.Module): ...\n", "f.<locals>.Net", "inside a function", 3),
        ("class N(nn.Module): ...\nclass N(nn.Module): ...\n" + INPUTS, "N", "more than once, on lines 2 and 3", 2),
        ("class N: ...\n", "N", "the class N does not derive from torch.nn.Module", 2),
        ("class N(object): ...\n", "N", "the class N does not derive from torch.nn.Module", 2),
        ("from far import B\nclass N(B): ...\n", "N", "If it is one, say so: class N(B, nn.Module).", 3),
        ("from far import B\nclass N(B): ...\n", None, "nothing in the project's files shows that the class N is", 3),
        ("class A:\n  class N(nn.Module): ...\nclass B:\n  class N(nn.Module): ...\n", "N", "any of A.N, B.N", None),
    ],
)
def test_what_cannot_be_optimized_is_explained(text: str, qualname: str | None, said: str, line: int | None) -> None:
    with pytest.raises(BadInput) as raised:
        make_problem("/project/net.py", HEAD + text, qualname)
    assert said in str(raised.value)
    assert raised.value.line == line
    assert raised.value.cure


def test_a_line_of_a_class_that_nothing_shows_to_be_a_module_stands_for_no_other() -> None:
    text = HEAD + "from far import B\nclass A(nn.Module): ...\nclass N(B): ...\nclass Plain: ...\n"
    assert class_at("/project/net.py", text, 2) == class_at("/project/net.py", text, 4) == "A"
    with pytest.raises(BadInput, match="that the class N is"):
        class_at("/project/net.py", text, 3)


def test_a_problem_can_be_named_by_the_last_part_or_not_at_all() -> None:
    text = HEAD + "class Outer:\n    class Net(nn.Module): ...\n" + INPUTS
    for name in (None, "Net", "Outer.Net"):
        problem = make_problem("/project/net.py", text, name)
        assert problem.qualname == "Outer.Net"
        assert problem.class_span.start == 2


@pytest.mark.parametrize("new", ["NetNew", "NetNew2", "ModelNew", "ModelNew3"])
def test_an_accepted_class_takes_no_inputs_away(new: str) -> None:
    """After Accept beside a class that is not called `Model`, the original had "no inputs yet"."""
    block = "class Block(nn.Module): ...\n"
    net = "class Net(nn.Module):\n    def __init__(self):\n        self.block = Block()\n"
    accepted = f"class {new}(nn.Module):\n    def f(self):\n        return Net, Block\n"
    assert owners(net.replace("Block()", "1") + accepted + INPUTS) == {"Net": ("get_inputs", "get_init_inputs")}
    assert owners(block + net + accepted + INPUTS) == {"Net": ("get_inputs", "get_init_inputs")}
    # Alone it is a class like any other, and so is one whose name only looks like it.
    assert owners(f"class {new}(nn.Module): ...\n" + INPUTS) == {new: ("get_inputs", "get_init_inputs")}
    assert owners(block + "class BrandNew(nn.Module): ...\n" + INPUTS) == {}
