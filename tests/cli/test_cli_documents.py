"""An edit changes what it says and nothing else: encoding, line ends, mode and links stay."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.cli.terminal import documents
from stark_lsp.core.editing import LINE_END, Replacement
from stark_lsp.core.errors import BadInput, Fault

LINES = st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=8), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def insertion(line: int, text: str) -> Replacement:
    return Replacement(line, 0, line, 0, text)


def document(raw: bytes, encoding: str = "utf-8") -> documents.Document:
    return documents.Document(Path("m.py"), raw, encoding, LINE_END.sub("\n", raw.decode(encoding)))


@given(LINES, ENDS, st.data())
def test_an_insertion_leaves_every_other_byte_alone(lines: list[str], end: str, data: st.DataObject) -> None:
    raw = end.join(lines).encode()
    at = data.draw(st.integers(0, len(lines) - 1))
    edited = document(raw).edited([insertion(at, "new\nlines\n")])
    expected = end if len(lines) > 1 else "\n"
    inserted = f"new{expected}lines{expected}".encode()
    begin = len((end.join(lines[:at]) + (end if at else "")).encode())
    assert edited == raw[:begin] + inserted + raw[begin:]


@given(LINES, st.lists(ENDS, min_size=8, max_size=8))
def test_mixed_line_ends_stay_mixed(lines: list[str], ends: list[str]) -> None:
    raw = "".join(line + end for line, end in zip(lines, ends, strict=False)).encode()
    assert document(raw).edited([]) == raw


def test_a_byte_order_mark_and_windows_line_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    read = documents.read(path)
    assert read.text == "a = 1\nb = 2\n"
    assert read.edited([insertion(1, "c = 3\n")]) == b"\xef\xbb\xbfa = 1\r\nc = 3\r\nb = 2\r\n"


def test_a_declared_encoding_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nname = 'Jürgen'\n".encode("latin-1"))
    read = documents.read(path)
    assert "Jürgen" in read.text
    assert read.edited([insertion(2, "x = 'é'\n")]).endswith("x = 'é'\n".encode("latin-1"))
    with pytest.raises(BadInput, match="encoding"):
        read.edited([insertion(2, "x = '漢'\n")])


def test_writing_keeps_the_mode_and_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real.py"
    real.write_text("a = 1\n")
    real.chmod(0o751)
    link = tmp_path / "link.py"
    link.symlink_to(real)
    read = documents.read(link)
    documents.replace(read, b"a = 2\n")
    assert link.is_symlink()
    assert real.read_text() == "a = 2\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o751
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_a_file_that_changed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("a = 1\n")
    read = documents.read(path)
    path.write_text("a = 1  # mine\n")
    with pytest.raises(BadInput, match="changed"):
        documents.replace(read, b"a = 2\n")
    assert path.read_text() == "a = 1  # mine\n"


def test_a_file_that_is_gone_is_not_brought_back(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("a = 1\n")
    read = documents.read(path)
    path.unlink()
    with pytest.raises(BadInput, match="changed"):
        documents.replace(read, b"a = 2\n")
    assert not path.exists()


def test_a_new_file_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("a = 1\n")
    other = tmp_path / "other.py"
    other.write_text("mine\n")
    with pytest.raises(BadInput, match="exists"):
        documents.create(other, "theirs\n", like=documents.read(path))
    assert other.read_text() == "mine\n"


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.mkdir()
    with pytest.raises(Fault, match="cannot be written"):
        documents.write(path, b"{}")
    assert os.listdir(tmp_path) == ["out.json"]
