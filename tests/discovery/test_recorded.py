"""Recorded calls as tables, put into TOML files that keep all else."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.discovery.recorded import NoTable, functions, input_table, table_beside, with_table
from stark_lsp.discovery.tables import check_tables, find_tables, names

HEADER = "tool.stark.input"


def tensor(*shape: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": dtype, "device": "cpu", "requires_grad": False, **more}}


def call(*args: dict[str, Any], init: dict[str, Any] | None = None, **kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs, "init": init or {"args": [], "kwargs": {}}}


def table(name: str, *args: dict[str, Any], **kwargs: dict[str, Any]) -> str:
    return input_table(HEADER, name, call(*args, **kwargs), "Recorded from train.py: 8 calls.")


def test_a_table_is_read_back_as_it_was_seen(tmp_path: Path) -> None:
    init = {"args": [{"value": 64}, {"tuple": [{"value": 3}, {"value": 3}]}], "kwargs": {"bias": {"value": False}}}
    seen = call(
        tensor(2, 8, 64, low=-3.0, high=3.0, strides=[512, 1, 8]),
        tensor(2, 8, dtype="int64", low=0, high=99),
        init=init,
        mask=tensor(2, 8, dtype="bool", low=False, high=True),
        scale={"value": 0.5},
    )
    (tmp_path / "pyproject.toml").write_text(input_table(HEADER, "m.py::Outer.Block", seen, "Recorded."))
    (tmp_path / "m.py").touch()
    check_tables(str(tmp_path / "m.py"), "Outer.Block")
    (found,) = find_tables(str(tmp_path / "m.py"))
    assert names(found, str(tmp_path / "m.py"), "Outer.Block")
    assert found.table["init_args"] == [64, [3, 3]]
    assert found.table["init_kwargs"] == {"bias": False}
    assert found.table["args"] == [
        {"shape": [2, 8, 64], "dtype": "float32", "kind": "randn", "strides": [512, 1, 8]},
        {"shape": [2, 8], "dtype": "int64", "kind": "randint", "low": 0, "high": 100},
    ]
    assert found.table["kwargs"] == {
        "mask": {"shape": [2, 8], "dtype": "bool", "kind": "ones"},
        "scale": {"value": 0.5},
    }


@pytest.mark.parametrize(
    "argument",
    [{"other": "a pkg.Graph"}, {"value": None}, {"tuple": [tensor(2)]}, tensor(2, dtype="float8_e4m3fn")],
)
def test_what_a_table_cannot_say_is_written_as_functions(argument: dict[str, Any]) -> None:
    with pytest.raises(NoTable, match="argument 1"):
        table("A", argument)
    text = functions("A", "_for_A", call(argument), "Recorded.")
    assert "def get_inputs_for_A():" in text
    ast.parse(text)


def test_what_code_cannot_say_is_told_at_the_end_of_its_line() -> None:
    graph, nested = {"other": "a pkg.Graph"}, {"list": [{"other": "the class Pool"}, {"value": 3}]}
    seen = call(graph, nested, tensor(2), mask={"value": 1})
    (line,) = (line for line in functions("A", "", seen, "Recorded.").splitlines() if "pkg.Graph" in line)
    assert line.startswith("    return [..., [..., 3], torch.")
    assert line.endswith(
        "]  # each ... in turn: a pkg.Graph, the class Pool; a list cannot say what is passed by name too: mask"
    )
    seen = call(graph=graph, size={"value": 3})
    assert 'return {"graph": ..., "size": 3}  # each ... in turn: a pkg.Graph\n' in functions(
        "A", "", seen, "Recorded."
    )


def test_functions_import_what_stands_elsewhere() -> None:
    fields = {"kind": {"enum": "Kind.A", "module": "zoo.kinds"}, "mode": {"enum": "Mode.B", "module": "model"}}
    config = {"object": "Config", "module": "zoo.configs", "fields": fields}
    local = {"object": "Local", "module": "__main__", "fields": {}}
    seen = {**call(tensor(2), init={"args": [config, local], "kwargs": {}}), "module": "model", "torch": False}
    assert functions("A", "", seen, "Recorded.") == (
        "# Recorded.\n"
        "def get_inputs():\n    import torch\n\n    return [torch.randn((2,), dtype=torch.float32)]\n\n\n"
        "def get_init_inputs():\n    from zoo.configs import Config\n    from zoo.kinds import Kind\n\n"
        "    return [Config(kind=Kind.A, mode=Mode.B), ...]"
        "  # each ... in turn: a Local, which the script defines\n"
    )


@pytest.mark.parametrize(
    ("dtype", "autocast", "inputs", "said"),
    [
        ("float32", "bfloat16", "float32", ['autocast = "bfloat16"']),
        # What comes from another layer under autocast is of its dtype, the weights are not.
        ("float32", "bfloat16", "bfloat16", ['autocast = "bfloat16"']),
        ("bfloat16", "bfloat16", "float32", ['dtype = "bfloat16"', 'autocast = "bfloat16"']),
        ("float32", "", "bfloat16", ['dtype = "float32"']),
        ("float32", "", "float32", []),
    ],
)
def test_how_a_class_is_used_is_said(dtype: str, autocast: str, inputs: str, said: list[str], tmp_path: Path) -> None:
    seen = {**call(tensor(2, 3, dtype=inputs)), "dtype": dtype, "autocast": autocast}
    text = input_table("stark.input", "A", seen, "Recorded.")
    assert [line for line in text.splitlines() if line.startswith(("dtype", "autocast"))] == said
    assert table_beside("stark.input", "A", seen).splitlines()[2:] == said
    (tmp_path / "stark.toml").write_text(text)
    check_tables(str(tmp_path / "m.py"), "A")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_table_is_added_and_later_replaced_and_nothing_else_changes(newline: str) -> None:
    other = '# of mine\n[[tool.stark.input]]\nclass = "Other"\nargs = [\n    {shape = [1]},  # one\n]\n'
    head = '# top\n[tool.black]\nskip = """\n[[tool.stark.input]]\n"""\n\n'
    before = f"{head}{other}\n# the end\n[tool.x]\ny = [\n  [1],\n]\n"
    before = before.replace("\n", newline)
    once = with_table(before, HEADER, "m.py::A", table("m.py::A", tensor(2)), "pyproject.toml")
    assert once.startswith(before)
    twice = with_table(once, HEADER, "m.py::A", table("m.py::A", tensor(5, 5)), "pyproject.toml")
    assert twice.startswith(before)
    assert twice.count("m.py::A") == 1
    assert "shape = [5, 5]" in twice
    again = with_table(twice, HEADER, "Other", table("Other", tensor(7)), "pyproject.toml")
    assert "# one" not in again
    assert "# the end" + newline + "[tool.x]" in again
    assert "# top" in again
    assert ("\r\n" in again) == (newline == "\r\n")


def test_a_table_of_a_new_file_is_all_of_it() -> None:
    text = table("A", tensor(2)).replace("tool.stark", "stark")
    assert with_table("", "stark.input", "A", text, "stark.toml") == text


@pytest.mark.parametrize(
    "text",
    ['[tool.stark]\ninput = [{class = "A", args = [{shape = [1]}]}]\n', '[tool.stark.input]\nclass = "A"\n'],
)
def test_a_table_that_is_written_otherwise_is_left_alone(text: str) -> None:
    with pytest.raises(BadInput, match="cannot be put in by text"):
        with_table(text, HEADER, "A", table("A", tensor(2)), "pyproject.toml")


def test_a_damaged_file_is_left_alone() -> None:
    with pytest.raises(BadInput, match="not valid TOML"):
        with_table("[tool", HEADER, "A", table("A", tensor(2)), "pyproject.toml")
