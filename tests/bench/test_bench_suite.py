"""Suites: which problems a folder holds, what they are called, and which are asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench_cases import SUITE
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.bench.suite import Entry, discover, draw, select
from stark_lsp.core.errors import BadInput

GOOD = (SUITE / "level1" / "7_gate.py").read_text()


def suite(folder: Path, *names: str, text: str = GOOD) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.name for entry in entries]


def test_problems_are_named_by_level_and_number_and_sorted_by_them(tmp_path: Path) -> None:
    suite(tmp_path, "level2/3_b.py", "level1/10_a.py", "level1/009_a.py", "level1/plain.py", "flat.py", "level1/_no.py")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "1_not_a_level.py").write_text(GOOD)
    assert names(discover(tmp_path)) == ["0/flat", "1/9", "1/10", "1/plain", "2/3"]


def test_two_files_with_one_number_keep_their_whole_names(tmp_path: Path) -> None:
    assert names(discover(suite(tmp_path, "level1/1_a.py", "level1/1_b.py", "level1/2_c.py"))) == [
        "1/2",
        "1/1_a",
        "1/1_b",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("class Model(", "not valid Python"),
        ("import torch\nclass Other(torch.nn.Module):\n    pass\n", "no module class Model"),
        ("import torch\nclass Model(torch.nn.Module):\n    pass\n", "no inputs"),
        ("\0", "not text"),
        ("# " + "x" * (1 << 20) + "\n" + GOOD, "longer than 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_entry_with_the_reason(tmp_path: Path, text: str, told: str) -> None:
    suite(suite(tmp_path, "level1/1_bad.py", text=text), "level1/2_good.py")
    bad, good = discover(tmp_path)
    assert good.error == ""
    assert good.text == GOOD
    assert told in bad.error or (told == "not text" and bad.error)


def test_bytes_that_are_no_text_do_not_stop_discovery(tmp_path: Path) -> None:
    suite(tmp_path, "level1/2_good.py")
    (tmp_path / "level1" / "1_bytes.py").write_bytes(b"\xff\xfe\x00 x")
    assert [bool(entry.error) for entry in discover(tmp_path)] == [True, False]


def test_the_representative_problems_are_those_that_the_suite_lists() -> None:
    assert names(select(discover(SUITE), SUITE, subset="representative")) == ["1/7", "2/3"]
    assert names(select(discover(SUITE), SUITE, subset="representative", levels=[2])) == ["2/3"]


def test_without_such_a_list_problems_of_each_level_are_drawn_from_all_of_its_order(tmp_path: Path) -> None:
    numbers = [f"level1/{number}_a.py" for number in range(1, 101)] + ["level2/1_b.py", "level2/2_b.py"]
    entries = discover(suite(tmp_path, *numbers))
    drawn = select(entries, tmp_path, subset="representative")
    assert len({entry.name for entry in drawn}) == 12
    assert {entry.drawn for entry in drawn} == {"10 of 100 of level 1", "2 of 2 of level 2"}
    tenths = [(int(entry.id) - 1) // 10 for entry in drawn if entry.level == 1]
    assert tenths == list(range(10)), "in the suite's order, and one of each tenth"
    assert names(select(entries, tmp_path, subset="representative", levels=[1])) == names(drawn)[:10]
    assert names(drawn)[:3] == ["1/10", "1/11", "1/28"], "everybody draws the same, in later versions too"


def test_where_there_is_a_list_nothing_is_drawn() -> None:
    assert not any(entry.drawn for entry in select(discover(SUITE), SUITE, subset="representative"))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_a_draw_has_as_many_of_each_level_as_there_are_up_to_ten(sizes: list[int]) -> None:
    entries = [Entry(level, str(n), f"{n}.py") for level, size in enumerate(sizes) for n in range(1, size + 1)]
    drawn = draw(entries)
    for level, size in enumerate(sizes):
        assert len({entry.id for entry in drawn if entry.level == level}) == min(10, size)
    assert names(drawn) == [name for name in names(tuple(entries)) if name in names(drawn)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.txt", "1/7  # the gate\n\nlevel2/03\n"),
        ("list.json", '{"1": [7], "level2": ["3"]}'),
        ("list.json", '["1/7", "2/3"]'),
    ],
)
def test_names_may_come_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert names(select(discover(SUITE), SUITE, subset=str(path))) == ["1/7", "2/3"]


@pytest.mark.parametrize("place", ["dataset.py", "src/dataset.py", "src/suite/dataset.py"])
def test_a_suites_own_code_names_its_representative_problems_and_is_not_run(tmp_path: Path, place: str) -> None:
    suite = tmp_path / "suite"
    shutil.copytree(SUITE, suite, ignore=shutil.ignore_patterns("representative.*"))
    code = tmp_path / place
    code.parent.mkdir(parents=True, exist_ok=True)
    code.write_text(
        'raise SystemExit("run")\n'
        'level1_representative_subset = ["7_Gate.py"]\n'
        "level1_representative_subset_problem_ids = [7]\n"
        "LEVEL2_REPRESENTATIVE_IDS: list[int] = [3, 11]\n"
        "level1_other = [1]\n"
    )
    chosen = select(discover(suite), suite, subset="representative")
    assert names(chosen) == ["1/7", "2/3", "2/11"]
    assert not any(entry.drawn for entry in chosen)
    code.write_text("nothing = [1]\n")
    assert all(entry.drawn for entry in select(discover(suite), suite, subset="representative"))


@pytest.mark.parametrize(
    ("subset", "levels", "told"),
    [
        ("1/8", None, "no problem 1/8"),
        ("7", None, "names no level"),
        ("1/", None, "names no problem"),
        ("x/1", None, "names no problem"),
        ("all", [5], "no level 5"),
        ("1/7", [2], "No problem is left"),
    ],
)
def test_what_is_not_there_is_named(subset: str, levels: list[int] | None, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        select(discover(SUITE), SUITE, subset=subset, levels=levels)


def test_a_bare_number_is_enough_where_one_level_is_asked_for() -> None:
    assert names(select(discover(SUITE), SUITE, subset="3, 11", levels=[2])) == ["2/3", "2/11"]


def test_a_folder_without_problems_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadInput):
            discover(folder)
