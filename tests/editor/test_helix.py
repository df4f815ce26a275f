"""A real Helix on a terminal of its own, with the block of docs/editors.md: the proposal of a run is accepted in it.

`current.sh helix` fetches it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest
from project import MODULE, ROOT, Project, block, make_project

CURRENT = ROOT / ".cache" / "helix" / "hx"
HELIX = str(CURRENT) if CURRENT.exists() else shutil.which("hx")
PATIENCE_S = 60.0
CLASS_LINE = MODULE.split("\n").index("class Model(nn.Module):") + 1

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.editor]


class Screen(pyte.Screen):
    """What a terminal shows; it answers no questions about itself."""

    def report_device_status(self, *args: Any, **kwargs: Any) -> None: ...

    def report_device_attributes(self, *args: Any, **kwargs: Any) -> None: ...


class Terminal:
    """A program on a terminal.

    Parameters
    ----------
    command
        The program with its arguments.
    """

    def __init__(self, command: list[str], project: Project) -> None:
        self._screen = Screen(120, 40)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self._screen.lines, self._screen.columns, 0, 0))
        environment = {**project.environment, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(
            command,
            cwd=project.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def until(self, part: str, shown: bool = True) -> None:
        """Wait until something is on the screen, or until it is no more."""
        deadline = time.monotonic() + PATIENCE_S
        while (part in self.text) is not shown:
            assert time.monotonic() < deadline, f"{'never seen' if shown else 'never gone'}: {part!r}\n{self.text}"
            if select.select([self._ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # of a program that has ended
                    self._stream.feed(os.read(self._ours, 1 << 16))

    def close(self) -> None:
        """End the program, whatever state it is in."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._ours)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    quick = ["--device", "cpu", "--model", "playbook", "--budget", "1", "--set", "compile_baseline=false"]
    command = ["stark-lsp", "optimize", str(project.module), *quick]
    made = subprocess.run(command, env=project.environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return project


@pytest.fixture
def helix(project: Project) -> Iterator[Terminal]:
    """Helix with the module open, the cursor on the class."""
    if HELIX is None:
        pytest.skip("no Helix: tests/editor/current.sh helix fetches one")
    folder = Path(project.environment["HOME"], ".config", "helix")
    folder.mkdir(parents=True)
    # Of the servers in the list, those that are not there are only told of.
    (folder / "languages.toml").write_text(block("helix"))
    terminal = Terminal([HELIX, f"{project.module}:{CLASS_LINE}"], project)
    yield terminal
    terminal.close()


def test_a_helix_user_accepts_a_proposal(project: Project, helix: Terminal) -> None:
    helix.until("as fast as eager")
    helix.until("Review")
    helix.press("\x1b")
    helix.until("Review", shown=False)  # keys right behind an escape would be read as one with Alt
    helix.press(" a")
    helix.until("Accept the STARK proposal for Model")
    helix.until("Search for a better one")
    helix.press("\r")
    helix.until("was accepted")
    helix.press(":w\r")
    deadline = time.monotonic() + PATIENCE_S
    while "class ModelNew(nn.Module)" not in project.module.read_text():
        assert time.monotonic() < deadline, helix.text
        helix.until("")
        time.sleep(0.1)
