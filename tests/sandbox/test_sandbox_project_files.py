"""Which files of the user's project a candidate may read: what the original reads while it is loaded, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stark_lsp.judge.processes.confinement import project_files
from stark_lsp.judge.reference import loading


def test_what_the_original_reads_below_its_project_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_READ", set())
    outside = tmp_path / "outside.txt"
    project = tmp_path / "project"
    for file in (outside, *(project / name for name in ("stark.toml", "model.py", "a/table.txt", "a/b.txt", ".env"))):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text", encoding="utf-8")
    (project / "link.txt").symlink_to(outside)
    (project / "same.txt").symlink_to(project / ".env")
    monkeypatch.chdir(project)
    assert loading.working_folder() == ""
    with loading.reading():
        for name in ("a/table.txt", "model.py", ".env", "link.txt", "same.txt", outside):
            Path(name).read_text(encoding="utf-8")
        (project / "written.txt").write_text("text", encoding="utf-8")
    Path("a/b.txt").read_text(encoding="utf-8")
    assert project_files(str(project / "model.py")) == [os.path.realpath(project / "a" / "table.txt")]
    assert loading.working_folder() == os.getcwd()
