"""Which interpreter a file is judged under, and whose it must be."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.evaluation.lookup import find_interpreter, way_up

STRANGER = 54321
"""A user that nobody is."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def make_environment(folder: Path, says: str = "exit 1") -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    (folder / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    python.write_text(f"#!/bin/sh\n{says}\n")
    python.chmod(0o755)
    return python


def give(folder: Path, owner: int, group: int = -1) -> None:
    """Give a folder away with all that is in it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, group, follow_symlinks=False)


@pytest.fixture(autouse=True)
def _nothing_active(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT", "PYENV_ROOT", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("POETRY_CONFIG_DIR", "POETRY_CACHE_DIR", "POETRY_VIRTUALENVS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shared" / "project"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("")
    return folder


# --- in which order ----------------------------------------------------------------------------------


def test_an_explicit_interpreter_wins(project: Path) -> None:
    make_environment(project / ".venv")
    assert find_interpreter(sys.executable, str(project / "model.py")).path == sys.executable


def test_an_explicit_environment_folder_stands_for_its_interpreter(project: Path) -> None:
    python = make_environment(project / "env")
    assert find_interpreter(str(project / "env"), str(project / "model.py")).path == str(python)


def test_an_explicit_interpreter_that_is_missing_is_named(project: Path) -> None:
    with pytest.raises(BadInput, match="no Python interpreter"):
        find_interpreter(str(project / "none"), str(project / "model.py"))


def test_the_nearest_environment_up_the_tree_is_found_and_named(tmp_path: Path) -> None:
    python = make_environment(tmp_path / ".venv")
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = find_interpreter(None, str(tmp_path / "a" / "b" / "model.py"))
    assert (found.path, found.why) == (str(python), f"the environment {tmp_path / '.venv'}")
    nearer = make_environment(tmp_path / "a" / "venv")
    assert find_interpreter(None, str(tmp_path / "a" / "b" / "model.py")).path == str(nearer)


@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_the_activated_environment_comes_next(
    name: str, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_environment(tmp_path / "active")
    monkeypatch.setenv(name, str(tmp_path / "active"))
    found = find_interpreter(None, str(project / "model.py"))
    assert (found.path, found.why) == (str(python), f"{name} names {tmp_path / 'active'}")


def test_uv_may_keep_the_environment_under_another_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    python = make_environment(project / ".uv-env")
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", ".uv-env")
    assert find_interpreter(None, str(project / "model.py")).path == str(python)


def test_the_environment_that_poetry_made_is_found(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is the one that poetry 2 gave to a project `My_Models.net` in `/tmp/flight-po`."""
    from stark_lsp.evaluation import poetry

    assert poetry._base("My_Models.net", Path("/tmp/flight-po")) == "my-models-net-uvn9BW2x"
    (project / "pyproject.toml").write_text("[tool.poetry]\nname = 'nets'\n")
    monkeypatch.setenv("POETRY_VIRTUALENVS_PATH", str(tmp_path / "kept"))
    base = poetry._base("nets", project)
    make_environment(tmp_path / "kept" / f"{base}-py3.9")
    newer = make_environment(tmp_path / "kept" / f"{base}-py3.12")
    chosen = make_environment(tmp_path / "kept" / f"{base}-py3.10")
    assert find_interpreter(None, str(project / "model.py")).path == str(newer)
    (tmp_path / "kept" / "envs.toml").write_text(f'[{base}]\nminor = "3.10"\npatch = "3.10.4"\n')
    assert find_interpreter(None, str(project / "model.py")).path == str(chosen)


def test_a_python_version_names_what_pyenv_has(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    make_environment(tmp_path / "pyenv" / "versions" / "3.11.9")
    newest = make_environment(tmp_path / "pyenv" / "versions" / "3.11.10")
    named = make_environment(tmp_path / "pyenv" / "versions" / "kernels")
    (project / ".python-version").write_text("# ours\n3.11\n")
    assert find_interpreter(None, str(project / "model.py")).path == str(newest)
    (project / ".python-version").write_text("kernels\n")
    found = find_interpreter(None, str(project / "model.py"))
    assert (found.path, found.why) == (str(named), f"{project / '.python-version'} names kernels")
    (project / ".python-version").write_text("../../elsewhere\n")
    assert find_interpreter(None, str(project / "model.py")).path == sys.executable


def test_without_any_it_is_the_one_this_program_runs_under(project: Path) -> None:
    assert find_interpreter(None, str(project / "model.py")).path == sys.executable


# --- how far up --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["workspace", "repository", "home"])
def test_the_way_up_ends_at_the_nearest_of_three_roots(end: str, tmp_path: Path, project: Path) -> None:
    file = project / "src" / "nets" / "model.py"
    file.parent.mkdir(parents=True)
    if end == "repository":
        (project / ".git").mkdir()
    roots = (str(project),) if end == "workspace" else (str(tmp_path),)
    home = str(project) if end == "home" else "/none"
    assert list(way_up(str(file), roots, home)) == [file.parent, project / "src", project]


def test_without_a_root_it_ends_before_a_folder_of_everybody(tmp_path: Path, project: Path) -> None:
    (tmp_path / "shared").chmod(0o1777)
    assert list(way_up(str(project / "model.py"), (), "/none")) == [project]


# --- whose ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.ci
@as_root
def test_a_strangers_environment_in_a_shared_folder_is_not_run(tmp_path: Path, project: Path) -> None:
    """Over the real command: it ran, with the user's rights, whatever lay in a folder above the file."""
    ran = tmp_path / "ran"
    give_away = make_environment(tmp_path / "shared" / "venv", f"touch {ran}").parent.parent
    give(give_away, STRANGER)
    (tmp_path / "shared").chmod(0o1777)
    for roots in ((), (str(tmp_path / "shared"),)):  # not even if the shared folder itself is open
        found = find_interpreter(None, str(project / "model.py"), roots)
        assert found.path == sys.executable
    assert found.passed_over == (
        f"Passed over {give_away}: {give_away} belongs to user {STRANGER}. "
        "To use it all the same, set stark.interpreter to it.",
    )
    command = [sys.executable, "-m", "stark_lsp", "doctor", "--json"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert sys.executable in done.stdout
    assert not ran.exists()
    assert find_interpreter(str(give_away), str(project / "model.py")).path == str(give_away / "bin" / "python")


PARTS = ["", "bin", "bin/python", "pyvenv.cfg", "lib/python3.11", "lib/python3.11/site-packages"]


@as_root
@pytest.mark.parametrize("part", PARTS)
def test_every_part_that_decides_must_be_the_users(part: str, project: Path) -> None:
    folder = make_environment(project / ".venv").parent.parent
    os.chown(folder / part, STRANGER, -1)
    found = find_interpreter(None, str(project / "model.py"))
    assert found.path == sys.executable
    assert f"belongs to user {STRANGER}" in found.passed_over[0]


@pytest.mark.parametrize("part", PARTS)
def test_no_part_that_decides_may_be_written_by_everybody(part: str, project: Path) -> None:
    folder = make_environment(project / ".venv").parent.parent
    (folder / part).chmod(0o777)
    found = find_interpreter(None, str(project / "model.py"))
    assert found.path == sys.executable
    assert f"everybody may write {(folder / part)}" in found.passed_over[0]


@as_root
def test_a_strangers_link_to_an_environment_of_the_user_is_not_followed(project: Path, tmp_path: Path) -> None:
    make_environment(tmp_path / "env")
    (project / "venv").symlink_to(tmp_path / "env")
    os.chown(project / "venv", STRANGER, -1, follow_symlinks=False)
    assert find_interpreter(None, str(project / "model.py")).path == sys.executable


@as_root
def test_the_users_link_to_a_program_of_the_clusters_staff_is_followed(project: Path, tmp_path: Path) -> None:
    python = make_environment(project / ".venv")
    program = tmp_path / "apps" / "python3.11"
    program.parent.mkdir()
    python.rename(program)
    python.symlink_to(program)
    os.chown(program, STRANGER, STRANGER)
    program.chmod(0o775)
    assert find_interpreter(None, str(project / "model.py")).path == str(python)
    program.chmod(0o777)
    assert find_interpreter(None, str(project / "model.py")).path == sys.executable


@as_root
def test_a_group_of_ones_own_may_write_and_one_of_others_may_not(project: Path) -> None:
    folder = make_environment(project / ".venv").parent.parent
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o775)
    found = find_interpreter(None, str(project / "model.py"))
    assert found.path == str(folder / "bin" / "python"), "umask 002 with the user's own group is an honest set-up"
    shared = next((g for g in grp.getgrall() if g.gr_name not in ("root",) and g.gr_gid != 0), None)
    assert shared is not None
    give(folder, -1, shared.gr_gid)
    found = find_interpreter(None, str(project / "model.py"))
    assert found.path == sys.executable
    assert f"the group {shared.gr_name} may write" in found.passed_over[0]


def test_a_real_environment_is_taken(project: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project / ".venv")], check=True)
    found = find_interpreter(None, str(project / "model.py"))
    assert found.path == str(project / ".venv" / "bin" / "python")
    assert found.passed_over == ()


def test_an_environment_whose_python_is_gone_is_told(project: Path) -> None:
    make_environment(project / ".venv").unlink()
    found = find_interpreter(None, str(project / "model.py"))
    assert found.path == sys.executable
    assert found.passed_over == (f"Passed over {project / '.venv'}: its Python cannot be run.",)


@as_root
def test_behind_sudo_the_environment_is_still_ones_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_environment(project / ".venv").parent.parent
    give(folder, STRANGER)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert find_interpreter(None, str(project / "model.py")).path == str(folder / "bin" / "python")
