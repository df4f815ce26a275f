"""The ledger: rows survive kills, torn lines do not matter, and two benchmarks never mix."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import failed, row
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.bench.ledger import NAME, Ledger, read
from stark_lsp.bench.rows import Outcome
from stark_lsp.core.errors import BadInput, Fault

FIRST, SECOND = row("1/1", gains={"eager": (2.0, 1.9, 2.1)}), failed("1/2", Outcome.DEGENERATE)


def test_rows_come_back_as_they_were_whatever_a_model_wrote(tmp_path: Path) -> None:
    odd = replace(FIRST, message="\ud800 \x1b[2J \u202e", notes=("a\nb",))
    with Ledger(tmp_path / "new" / "folder") as ledger:
        ledger.append(odd)
        ledger.append(SECOND)
        assert ledger.rows() == (odd, SECOND)
    assert read(tmp_path / "new" / "folder" / NAME) == (odd, SECOND)


@given(st.integers(1, 400))
def test_a_line_that_was_cut_off_anywhere_costs_that_row_only(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    with Ledger(folder) as ledger:
        ledger.append(FIRST)
        ledger.append(SECOND)
    data = (folder / NAME).read_bytes()
    (folder / NAME).write_bytes(data[:-cut])
    assert read(folder / NAME) == (FIRST,)
    with Ledger(folder) as ledger:
        assert ledger.rows() == (FIRST,)
        ledger.append(SECOND)
    assert (folder / NAME).read_bytes() == data


def test_of_a_cell_the_last_row_counts(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(replace(FIRST, outcome=Outcome.FAULT))
        ledger.append(SECOND)
        ledger.append(FIRST)
        assert ledger.rows() == (FIRST, SECOND)


def test_a_second_benchmark_on_the_folder_is_refused_while_the_first_goes_on(tmp_path: Path) -> None:
    with Ledger(tmp_path), pytest.raises(BadInput, match="Another benchmark"):
        Ledger(tmp_path)
    with Ledger(tmp_path) as ledger:
        assert ledger.rows() == ()


def test_rows_of_a_later_version_are_refused_and_damage_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with Ledger(tmp_path) as ledger:
        ledger.append(FIRST)
    good = path.read_text()
    path.write_text(good + json.dumps({**json.loads(good), "schema": 99}) + "\n")
    with pytest.raises(BadInput, match="form 99") as caught:
        read(path)
    assert caught.value.line == 2
    for line in ("{}", "no JSON", "[1]"):
        path.write_text(good + line + "\n")
        with pytest.raises(Fault, match="cannot be read") as broken:
            read(path)
        assert broken.value.line == 2
    with pytest.raises(BadInput, match="no results"):
        read(tmp_path / "nowhere" / NAME)
