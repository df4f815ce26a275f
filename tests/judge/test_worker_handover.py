"""What goes by shared GPU memory, what by files; and what a folder hands over stays the judge's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.processes import copies
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.transport import handover

GIB = 1 << 30
MIB = 1 << 20


def size(asked: int, answered: int, *, children: int = 8, resident: int = 0, total: int = 80 * GIB) -> int:
    return handover.exchange_bytes([asked], [answered], children=children, resident=resident, total=total)


def test_small_tensors_go_by_files() -> None:
    assert size(MIB, MIB) == 0
    assert handover.exchange_bytes([], [], children=1, resident=0, total=GIB) == 0


def test_memory_holds_the_largest_request_or_answer() -> None:
    assert size(700 * MIB, 600 * MIB) >= 700 * MIB
    assert size(100 * MIB, 600 * MIB) >= 600 * MIB


@pytest.mark.parametrize(
    ("children", "resident", "total"), [(8, 0, 24 * GIB), (40, 0, 80 * GIB), (8, 9 * GIB, 80 * GIB)]
)
def test_where_memory_is_short_tensors_go_by_files(children: int, resident: int, total: int) -> None:
    assert size(700 * MIB, 0, children=8) > 0
    assert size(700 * MIB, 0, children=children, resident=resident, total=total) == 0


def test_a_place_in_a_folder_is_empty_so_that_the_judges_own_file_is_never_written_to(tmp_path: Path) -> None:
    own = tmp_path / "case0.raw"
    own.write_text("the judge's")
    folder = Folder(str(tmp_path))
    given = folder.give(str(own), link=True)
    assert os.path.samefile(given, own)
    place = folder.place(str(own))
    assert place == given
    Path(place).write_text("something else")
    assert own.read_text() == "the judge's"


def test_a_tree_is_copied_beside_files_that_are_mapped_not_into_them(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder, text in ((source, "new"), (target, "old")):
        folder.mkdir()
        (folder / "library.so").write_text(text)
    with open(target / "library.so") as mapped:
        assert copies.copy_tree(str(source), str(target), 100) == 3
        assert mapped.read() == "old"
    assert (target / "library.so").read_text() == "new"
