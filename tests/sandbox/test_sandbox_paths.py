"""The allow-list: what is let in, and what never is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stark_lsp.judge.sandbox import paths


@pytest.fixture
def fresh() -> Iterator[None]:
    paths._own.cache_clear()
    yield
    paths._own.cache_clear()


def lets_in(places: paths.Places, path: Path | str) -> bool:
    return any(paths.inside(str(path), place) for place in places.real)


def test_links_are_followed_and_made_again(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    (root / "versions/3.11.7/bin").mkdir(parents=True)
    (root / "versions/3.11.7/bin/python3.11").write_text("")
    (root / "versions/3.11").symlink_to("3.11.7")
    (root / "venv/bin").mkdir(parents=True)
    (root / "venv/bin/python3").symlink_to(root / "versions/3.11/bin/python3.11")
    (root / "venv/bin/python").symlink_to("python3")
    found = paths.resolve([str(root / "venv/bin/python")])
    assert found.real == (str(root / "versions/3.11.7/bin/python3.11"),)
    assert dict(found.links) == {
        str(root / "venv/bin/python"): "python3",
        str(root / "venv/bin/python3"): str(root / "versions/3.11/bin/python3.11"),
        str(root / "versions/3.11"): "3.11.7",
    }
    # Inside a folder that is let in as a whole, they are there already.
    whole = paths.resolve([str(root / "venv"), str(root / "versions"), str(root / "venv/bin/python")])
    assert whole == paths.Places((str(root / "venv"), str(root / "versions")), ())


def test_links_in_a_circle_and_links_to_nowhere_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "gone").symlink_to("nowhere")
    assert paths.resolve([str(tmp_path / "a"), str(tmp_path / "gone"), str(tmp_path / "missing")]).real == ()


def test_the_way_up_is_followed_where_the_link_leads(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    (root / "real/deep").mkdir(parents=True)
    (root / "real/file").write_text("")
    (root / "short").symlink_to("real/deep")
    (root / "up").symlink_to("short/../file")
    assert paths.resolve([str(root / "up")]).real == (str(root / "real/file"),)


def test_the_interpreter_its_packages_and_the_worker_are_let_in() -> None:
    places = paths.resolve(paths.read_paths())
    for path in (os.__file__, pytest.__file__, paths.__file__, sys.executable, "/usr/bin/env"):
        assert lets_in(places, os.path.realpath(path)), path


def test_no_home_is_let_in_as_a_whole() -> None:
    places = paths.resolve(paths.read_paths())
    home = os.path.realpath(os.path.expanduser("~"))
    for path in ("/", "/root", "/home", "/run", "/etc", "/tmp", "/var", home, f"{home}/.ssh", f"{home}/.config"):
        assert not lets_in(places, path), path


def test_the_users_project_is_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / ".env").write_text("")
    assert not lets_in(paths.resolve(paths.read_paths()), os.path.realpath(tmp_path / ".env"))
    assert lets_in(paths.resolve(paths.read_paths([str(tmp_path / ".env")])), os.path.realpath(tmp_path / ".env"))


def test_a_compiler_in_the_home_lets_its_own_prefix_in_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    home = Path(os.path.realpath(tmp_path))
    for tool in (home / "gcc-14/bin/g++", home / ".local/bin/ninja", home / "bin/nvcc"):
        tool.parent.mkdir(parents=True)
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    for folder in ("gcc-14/lib/gcc", ".local/share", ".local/lib/clang", ".ssh", "project/bin"):
        (home / folder).mkdir(parents=True)
    # A script called like a compiler, in a folder of the user's own.
    (home / "project/bin/clang").write_text("#!/bin/sh\n")
    (home / "project/bin/clang").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/gcc-14/bin:{home}/.local/bin:{home}/bin:{home}/project/bin")
    places = paths.resolve(paths.read_paths())
    for path in ("gcc-14/lib", "gcc-14/bin/g++", ".local/bin/ninja", "bin/nvcc", "project/bin/clang"):
        assert lets_in(places, home / path), path
    for path in ("", ".ssh", ".local", ".local/share", "project"):
        assert not lets_in(places, home / path), path


def test_a_library_path_that_names_the_home_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    home = Path(os.path.realpath(tmp_path))
    (home / "lib").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{home}:{home}/lib::relative:/")
    places = paths.resolve(paths.read_paths())
    assert lets_in(places, home / "lib")
    assert not lets_in(places, home)
    assert not lets_in(places, "/")


def test_a_project_that_is_its_own_virtual_environment_stays_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    project = Path(os.path.realpath(tmp_path))
    for name in ("bin", "lib", ".git"):
        (project / name).mkdir()
    for name in ("pyvenv.cfg", ".env", "model.py", "pip.conf"):
        (project / name).write_text("")
    monkeypatch.setattr(sys, "prefix", str(project))
    places = paths.resolve(paths.read_paths())
    for name in ("bin", "lib", "pyvenv.cfg"):
        assert lets_in(places, project / name), name
    for name in ("", ".env", ".git", "model.py", "pip.conf"):
        assert not lets_in(places, project / name), name


@pytest.mark.parametrize("named", [True, False])
def test_a_conda_environment_is_let_in_without_its_tokens(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    prefix = Path(os.path.realpath(tmp_path))
    for name in ("bin", "conda-meta", "x86_64-conda-linux-gnu"):
        (prefix / name).mkdir()
    for name in (".condarc", "pip.conf", "bin/ninja"):
        (prefix / name).write_text("")
    (prefix / "bin/ninja").chmod(0o755)
    if named:
        monkeypatch.setenv("CONDA_PREFIX", str(prefix))
    else:
        # Known by a tool that lies in it.
        monkeypatch.setenv("PATH", str(prefix / "bin"))
    places = paths.resolve(paths.read_paths())
    assert lets_in(places, prefix / "x86_64-conda-linux-gnu")
    for name in ("", ".condarc", "pip.conf"):
        assert not lets_in(places, prefix / name), name
