"""What an accept brings is formatted as the project does it, and nothing else of the file is touched."""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import WriteMode
from stark_lsp.discovery.problems import make_problem
from stark_lsp.discovery.syntax import parse, split_lines
from stark_lsp.proposals.accepted import find_accepted
from stark_lsp.proposals.edit import ProposalEdit, build_edit
from stark_lsp.runs.formatting import SECONDS, configured, find_formatter, formatted

COMMENT = "# Optimized by STARK: 2.00x the speed of eager PyTorch.\n# Run r, node 3."
DOCUMENT = """import torch
import torch.nn as nn

UGLY = { 'mine' :1 }  # stays


class Outer(nn.Module):
    class Block(nn.Module):
        def forward( self,x ):
            return x*2


def get_inputs_for_Block(): return [ torch.ones(2) ]
"""
CANDIDATE = '''import torch
import torch.nn as nn

SOURCE = r"""
int main( ) { }
"""


def launch(x, *, scale = 2,
      other = {'a':1, 'b':2}):
    "Two lines,   \\n    indented."
    return x*scale + 0*len(SOURCE)  # twice


class ModelNew(nn.Module):
    def forward(self,x):
        return launch(x, scale=2, other={'a': 'a long text that goes on for a while', 'b': 'and another such text'})
'''
INTERPRETER = sys.executable


def edit_of(text: str, path: Path, mode: WriteMode) -> ProposalEdit:
    problem = make_problem(str(path), text, "Outer.Block")
    return build_edit(problem, text, Candidate(CANDIDATE), COMMENT, mode)


def project(folder: Path, tool: str) -> Path:
    (folder / "pyproject.toml").write_text(f"[tool.{tool}]\nline-length = 60\n")
    (folder / "pkg").mkdir()
    return folder / "pkg" / "net.py"


@pytest.mark.parametrize("text", [DOCUMENT, DOCUMENT.replace("\n", "\r\n"), DOCUMENT.rstrip("\n")])
@pytest.mark.parametrize("mode", list(WriteMode))
def test_new_code_is_formatted_and_the_users_is_not(tmp_path: Path, mode: WriteMode, text: str) -> None:
    path = project(tmp_path, "ruff")
    edit = edit_of(text, path, mode)
    tidy = formatted(edit, text, str(path), INTERPRETER)
    assert [(e.start_line, e.end_line) for e in tidy.edits] == [(e.start_line, e.end_line) for e in edit.edits]
    new = tidy.new_file.text if tidy.new_file is not None else tidy.preview
    assert "def launch(x, *, scale=2" in new
    assert "other={'a'" not in new
    assert "int main( ) { }" in new
    assert tidy.preview.count("\r\n") in (0, tidy.preview.count("\n"))
    assert "UGLY = { 'mine' :1 }  # stays" in tidy.preview
    assert "def get_inputs_for_Block(): return [ torch.ones(2) ]" in tidy.preview
    if mode is not WriteMode.MODULE:
        # Formatting is no edit by hand: the next accept may replace it.
        assert all(found.intact for found in find_accepted(parse(tidy.preview), split_lines(tidy.preview)))


def test_nothing_happens_without_a_configuration_or_without_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.py"
    edit = edit_of(DOCUMENT, path, WriteMode.BESIDE)
    (tmp_path / ".git").mkdir()
    assert formatted(edit, DOCUMENT, str(path), INTERPRETER) is edit
    (tmp_path / "ruff.toml").write_text("line-length = 60\n")
    monkeypatch.setenv("PATH", "")
    assert formatted(edit, DOCUMENT, str(path), None) is edit


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'x = 1'", "means something else"),
        ("echo broken >&2; exit 3", "broken"),
        ("exec sleep 60", "timed out"),
        ("printf '\\377'", "decode"),
    ],
)
def test_a_formatter_that_fails_leaves_the_code_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, script: str, told: str
) -> None:
    monkeypatch.setattr("stark_lsp.runs.formatting.SECONDS", min(SECONDS, 0.5))
    path = project(tmp_path, "black")
    tool = tmp_path / "bin" / "black"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    edit = edit_of(DOCUMENT, path, WriteMode.BESIDE)
    tidy = formatted(edit, DOCUMENT, str(path), str(tool.parent / "python"))
    assert tidy.preview == edit.preview
    assert told in caplog.text


def test_no_formatter_beside_an_interpreter_of_the_working_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, "ruff")
    (tmp_path / "tools").mkdir()
    shutil.copy(shutil.which("true") or "", tmp_path / "tools" / "ruff")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert find_formatter(str(path), "tools/python") is None
    assert find_formatter(str(path), str(tmp_path / "tools" / "python")) is not None


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"pyproject.toml": "[tool.ruff]\n[tool.black]\n"}, "black"),
        ({"pyproject.toml": "[tool.ruff.format]\n[tool.black]\n"}, "ruff"),
        ({"pyproject.toml": "[tool.ruff]\n"}, "ruff"),
        ({"pyproject.toml": "[project]\n"}, None),
        ({"pyproject.toml": "no toml ["}, None),
        ({".ruff.toml": ""}, "ruff"),
    ],
)
def test_the_nearest_configuration_says_which_formatter_it_is(
    tmp_path: Path, files: dict[str, str], name: str | None
) -> None:
    (tmp_path / ".git").mkdir()
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert configured(str(tmp_path / "src" / "net.py")) == name


@pytest.mark.skipif(shutil.which("black") is None, reason="black is not installed")
def test_black_formats_as_well(tmp_path: Path) -> None:
    path = project(tmp_path, "black")
    tidy = formatted(edit_of(DOCUMENT, path, WriteMode.BESIDE), DOCUMENT, str(path), None)
    assert "def launch(x, *, scale=2" in tidy.preview
