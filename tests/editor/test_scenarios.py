"""What may happen besides the flow, in each real editor: a scenario is written once, and played by `drivers.py`.

Most begin with an offer that a run in the terminal left open in the store, so that they take seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from drivers import Editor, Emacs, Neovim
from project import EMACS as EMACS_PATH
from project import FEW, MODULE, NEOVIM, Project, block, make_project, with_settings
from test_emacs import _lisp, _need_eglot
from test_neovim import CURRENT, INSTALLED, _lua

Start = Callable[[], Editor]
COMPILER = re.compile(r"(.*-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|nvcc|icpx?|icc)(-[\d.]+)?")
LONG = {**FEW, "attempts": 30}

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.editor]


def _neovim(program: str | None, folder: Path, settings: dict[str, object]) -> tuple[str, str, Path]:
    if program is None or not Path(program).exists():
        pytest.skip("no such Neovim: apt install neovim, and tests/editor/current.sh neovim for a current one")
    mine = ", ".join(f"{name} = {_lua(value)}" for name, value in settings.items())
    return program, NEOVIM + with_settings(block("neovim"), 'attempts = 30, device = "auto"', mine), folder / "init.lua"


def _emacs(folder: Path, settings: dict[str, object]) -> tuple[str, str, Path]:
    mine = " ".join(f":{name} {_lisp(value)}" for name, value in settings.items())
    return (
        _need_eglot(),
        EMACS_PATH + with_settings(block("emacs"), ':attempts 30 :device "auto"', mine),
        folder / "init.el",
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture(params=["neovim", "neovim-current", "emacs"])
def start(request: pytest.FixtureRequest, tmp_path: Path, project: Project) -> Iterator[Start]:
    """Start the editor with the module open; may be called again after it was left."""
    kind: type[Editor] = Emacs if request.param == "emacs" else Neovim
    if kind is Emacs:
        program, configuration, init = _emacs(tmp_path, LONG)
    else:
        program, configuration, init = _neovim(INSTALLED if request.param == "neovim" else str(CURRENT), tmp_path, LONG)
    init.write_text(configuration)
    started: list[Editor] = []

    def begin() -> Editor:
        started.append(kind(program, init, project))
        return started[-1]

    yield begin
    for editor in started:
        editor.close()


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a finished run on the module whose offer is open; the file it was made for is gone."""
    project = make_project(tmp_path_factory.mktemp("earlier"))
    quick = ["--device", "cpu", "--model", "playbook", "--budget", "1", "--set", "compile_baseline=false"]
    command = ["stark-lsp", "optimize", str(project.module), *quick]
    made = subprocess.run(command, env=project.environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    project.module.unlink()
    return Path(project.environment["STARK_STATE_DIR"])


@pytest.fixture
def offered(start: Start, earlier: Path, project: Project) -> Start:
    """The same with the offer in the store."""
    shutil.copytree(earlier, project.environment["STARK_STATE_DIR"])
    return start


def _is_open(editor: Editor) -> None:
    editor.sees("Accept")
    editor.marked(r"\w")


def _accepts(editor: Editor) -> None:
    editor.choose("Accept")
    editor.told("was accepted")
    assert "class ModelNew(nn.Module)" in editor.text


# --- with an open offer ------------------------------------------------------------------------------------


def test_rejecting_takes_a_reason_and_changes_nothing(offered: Start, project: Project) -> None:
    editor = offered()
    _is_open(editor)
    editor.command("reject", "too hard to read")
    editor.told("Noted: too hard to read")
    editor.sees("Optimize with STARK")
    editor.sees(r"(?s)\A(?!.*Accept).+")
    editor.marked("^$")
    assert editor.text == project.module.read_text() == MODULE


def test_a_class_edited_meanwhile_is_not_overwritten(offered: Start, project: Project) -> None:
    editor = offered()
    _is_open(editor)
    editor.replace("return 0.5", "return 0.25 + 0.5")
    editor.command("accept")
    editor.told("Nothing was changed")
    edited = MODULE.replace("return 0.5", "return 0.25 + 0.5")
    assert editor.text == edited
    editor.save()
    assert project.module.read_text() == edited

    # As it was: the proposal fits again.
    editor.replace("return 0.25 + 0.5", "return 0.5")
    _accepts(editor)


def test_the_offer_goes_with_a_renamed_file(offered: Start, project: Project) -> None:
    editor = offered()
    _is_open(editor)
    blocks = project.module.with_name("blocks.py")
    editor.rename(blocks)
    _is_open(editor)
    _accepts(editor)
    editor.save()
    assert "class ModelNew(nn.Module)" in blocks.read_text()
    assert not project.module.exists()


def test_the_offer_is_back_when_the_editor_is_started_again(offered: Start, project: Project) -> None:
    editor = offered()
    _is_open(editor)
    editor.replace('"""A module', '"""The module')
    editor.save()
    editor.quit()

    editor = offered()
    _is_open(editor)
    editor.told("as fast as eager")
    _accepts(editor)
    editor.save()
    assert project.module.read_text().startswith('"""The module')


def test_a_killed_server_is_told_of_and_the_offer_comes_back(offered: Start, project: Project) -> None:
    editor = offered()
    _is_open(editor)
    time.sleep(3.5)  # eglot starts no server again that was gone within three seconds
    before = editor.server()
    before.kill()
    editor.told(editor.lost)
    editor.start_again()
    _is_open(editor)
    assert editor.server().pid != before.pid
    _accepts(editor)


# --- with a run going on -----------------------------------------------------------------------------------


def test_a_run_shows_its_progress_and_can_be_cancelled(start: Start) -> None:
    editor = start()
    editor.sees("Optimize with STARK")
    editor.choose("Optimize with STARK")
    if editor.progress:
        editor.progressed("optimizing Model")
    editor.marked(r"\w", 300)
    server = editor.server()
    editor.command("cancel")
    editor.told("was cancelled", 10)
    assert psutil.wait_procs(server.children(recursive=True), timeout=5)[1] == []
    assert editor.text == MODULE

    editor.choose("Optimize with STARK")
    editor.told("goes on with the earlier run")


def test_a_run_goes_on_when_the_editor_is_started_again(start: Start) -> None:
    editor = start()
    editor.sees("Optimize with STARK")
    editor.choose("Optimize with STARK")
    editor.marked(r"\w", 300)
    server = editor.server()
    editor.quit()
    server.wait(20)

    editor = start()
    editor.told(r"Go on\?" if editor.buttons else "Go on with it by the code action")
    editor.choose("Optimize with STARK")
    editor.told(r"goes on with the earlier run .*kept")


# --- with something missing --------------------------------------------------------------------------------


def _refused(editor: Editor, pattern: str) -> None:
    editor.sees("Optimize with STARK")
    editor.choose("Optimize with STARK")
    editor.told(pattern)
    editor.marked(pattern)
    time.sleep(1)
    assert len(re.findall("STARK cannot optimize", editor.messages())) == 1, editor.messages()


def test_without_torch_one_message_has_the_cure(start: Start, project: Project) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project.folder / ".venv"], check=True)
    _refused(start(), r"torch is not installed(.|\n)*nstall")


def test_without_a_compiler_one_message_has_the_cure(start: Start, project: Project, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in project.environment["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            link = programs / program.name
            if not COMPILER.fullmatch(program.name) and not link.is_symlink() and program.name != "stark-lsp":
                link.symlink_to(program)
    (programs / "stark-lsp").symlink_to(Path(sys.executable).parent / "stark-lsp")
    project.environment["PATH"] = str(programs)
    _refused(start(), r"compiler(.|\n)*nstall")
