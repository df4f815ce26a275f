"""Which interpreter a file is judged under, and what it is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.evaluation.interpreters import find_interpreter, probe


def make_environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    return python


@pytest.fixture(autouse=True)
def _no_active_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def test_an_explicit_interpreter_wins(tmp_path: Path) -> None:
    make_environment(tmp_path / ".venv")
    assert find_interpreter(sys.executable, str(tmp_path / "model.py")) == sys.executable


def test_an_explicit_environment_folder_stands_for_its_interpreter(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    assert find_interpreter(str(tmp_path / "env"), str(tmp_path / "model.py")) == str(python)


def test_the_nearest_environment_up_the_tree_is_found(tmp_path: Path) -> None:
    python = make_environment(tmp_path / ".venv")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find_interpreter(None, str(tmp_path / "a" / "b" / "model.py")) == str(python)
    nearer = make_environment(tmp_path / "a" / "venv")
    assert find_interpreter(None, str(tmp_path / "a" / "b" / "model.py")) == str(nearer)


def test_the_active_environment_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = make_environment(tmp_path / "active")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    (tmp_path / "project").mkdir()
    assert find_interpreter(None, str(tmp_path / "project" / "model.py")) == str(python)


def test_without_any_it_is_the_one_this_program_runs_under(tmp_path: Path) -> None:
    assert find_interpreter(None, str(tmp_path / "model.py")) == sys.executable


def test_an_explicit_interpreter_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no Python interpreter"):
        find_interpreter(str(tmp_path / "none"), str(tmp_path / "model.py"))


def test_probing_tells_python_and_torch() -> None:
    info = probe(sys.executable)
    assert info.python == ".".join(str(part) for part in sys.version_info[:3])
    assert info.torch or info.problem


def test_probing_what_is_no_python_is_bad_input(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    with pytest.raises(BadInput, match="does not answer"):
        probe(str(python))
    with pytest.raises(BadInput, match="cannot be run"):
        probe(str(tmp_path / "none"))
