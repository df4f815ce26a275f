"""What the judge sees of a tree from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stark_lsp.judge.processes import watch


def test_the_processes_and_memory_of_a_tree_are_counted() -> None:
    code = """
import os, sys
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        sys.stdin.read()
        os._exit(0)
block = bytearray(64 << 20)
for place in range(0, len(block), 4096):
    block[place] = 1
print('ready', flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        tree = watch.tree(process.pid)
        assert len(tree) == 4
        assert sum(tree.values()) >= 64 << 20
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
    assert watch.tree(process.pid) == {}


def test_files_without_a_name_are_counted(tmp_path: Path) -> None:
    code = """
import os, sys
gone = open('gone', 'wb')
os.unlink('gone')
gone.write(bytes(range(256)) * 8192)
gone.flush()
memory = os.memfd_create('memory')
os.write(memory, bytes(range(256)) * 8192)
again = os.dup(memory)
print('ready', flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        assert 4 << 20 <= watch.hidden_bytes([process.pid]) < 5 << 20
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def test_disk_is_counted_as_it_is_taken(tmp_path: Path) -> None:
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/full").write_bytes(bytes(range(256)) * 4096)
    with (tmp_path / "hollow").open("wb") as file:
        file.truncate(1 << 40)
    os.link(tmp_path / "deep/er/full", tmp_path / "again")
    (tmp_path / "away").symlink_to("/usr")
    (tmp_path / "circle").symlink_to(".")
    assert 1 << 20 <= watch.folder_bytes(str(tmp_path)) < 2 << 20


def test_a_folder_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert watch.folder_bytes(str(tmp_path / "gone")) == 0


def test_a_folder_of_endless_files_is_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_FILES", 20)
    for index in range(30):
        (tmp_path / str(index)).touch()
    assert watch.folder_bytes(str(tmp_path)) == watch.ENDLESS


def test_a_folder_that_is_too_deep_to_be_looked_at_is_a_bomb(tmp_path: Path) -> None:
    line = "import os\nfor _ in range(30):\n    os.mkdir('a' * 200)\n    os.chdir('a' * 200)\nopen('full', 'w').close()"
    subprocess.run([sys.executable, "-c", line], cwd=tmp_path, check=True)
    assert watch.folder_bytes(str(tmp_path)) == watch.ENDLESS


@pytest.mark.skipif(os.getuid() == 0, reason="root may look into every folder")
@pytest.mark.parametrize("mode", [0o300, 0o400])
def test_a_folder_that_nobody_may_look_into_is_a_bomb(tmp_path: Path, mode: int) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "full").write_text("x")
    (tmp_path / "closed").chmod(mode)
    assert watch.folder_bytes(str(tmp_path)) == watch.ENDLESS
    (tmp_path / "closed").chmod(0o700)
