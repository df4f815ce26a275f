"""Running editors that a test looks at and acts in, each by its own remote control: Neovim's and Emacs's.

Both start headless with the configuration of docs/editors.md, and have the same methods, so that a scenario is written
once for all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path

import psutil
from project import Project

HERE = Path(__file__).parent
PATIENCE_S = 60.0
"""For what takes a second on a machine with nothing else to do."""


class Editor(ABC):
    """An editor with the project's module open.

    Parameters
    ----------
    program
        Its program.
    init
        Its configuration.
    """

    progress = True
    """Whether it shows progress."""
    buttons = True
    """Whether the server may ask by a message with buttons."""
    lost = ""
    """What it says, as a pattern, when the server was killed."""

    def __init__(self, program: str, init: Path, project: Project) -> None:
        self._program = program
        self._init = init
        self._project = project
        self._socket = Path(tempfile.mkdtemp(prefix="stark-"))
        """A short path: that of a socket has at most about a hundred characters."""
        self._log = self._socket / "output"
        self._environment = {**project.environment, "LANG": "C.UTF-8", "STARK_DRIVE_SOCKET": str(self._socket)}
        self._said_before = ""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=project.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._ready()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _ready(self) -> None:
        """Wait until it takes commands, and see that the module is open."""

    @abstractmethod
    def _ask(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]: ...

    @abstractmethod
    def _answer(self, output: str) -> str: ...

    def _drive(self, name: str, *arguments: str) -> str:
        asked = self._ask(name, *arguments)
        complaint = f"{name}: {asked.stdout}{asked.stderr or ''}"
        assert asked.returncode == 0, complaint
        assert "*ERROR*" not in asked.stdout, complaint
        return self._answer(asked.stdout)

    def _until(self, look: str, pattern: str, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, seen := self._drive(look).removeprefix(self._past(look)))):
            assert time.monotonic() < deadline, (
                f"no {pattern!r} among the {look} after {seconds:g} s:\n{seen}\nmessages:\n{self._drive('messages')}"
            )
            time.sleep(0.1)
        return found.group(0)

    def _past(self, look: str) -> str:
        return self._said_before if look == "messages" else ""

    # --- what the user sees ----------------------------------------------------------------------------

    def sees(self, pattern: str, seconds: float = PATIENCE_S) -> str:
        """Wait for a lens on the class, or a code action where the editor shows no lenses."""
        return self._until("offered", pattern, seconds)

    def marked(self, pattern: str, seconds: float = PATIENCE_S) -> str:
        """Wait for a diagnostic."""
        return self._until("marks", pattern, seconds)

    def told(self, pattern: str, seconds: float = PATIENCE_S) -> str:
        """Wait for a message that was said after `forget`."""
        return self._until("messages", pattern, seconds)

    def progressed(self, pattern: str, seconds: float = PATIENCE_S) -> str:
        """Wait for progress."""
        return self._until("progress", pattern, seconds)

    def messages(self) -> str:
        """Give what was said after `forget`."""
        return self._drive("messages").removeprefix(self._said_before)

    def forget(self) -> None:
        """Heed what was said so far no longer."""
        self._said_before = self._drive("messages")

    @property
    def text(self) -> str:
        """What is in the buffer."""
        return self._drive("text")

    def server(self) -> psutil.Process:
        """Return the process of the language server."""
        for child in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # what has ended meanwhile has no command line
                if any(part.endswith("stark-lsp") for part in child.cmdline()):
                    return child
        raise AssertionError("no server runs")

    # --- what the user does ----------------------------------------------------------------------------

    def choose(self, title: str) -> None:
        """Choose the code action on the class that begins so."""
        self._drive("choose", title)

    def command(self, name: str, text: str = "") -> None:
        """Give a command: `:Stark name text`, or M-x stark-name."""
        self._drive("command", name, text)

    def replace(self, before: str, after: str) -> None:
        """Edit the text, without saving."""
        self._drive("replace", before, after)

    def save(self) -> None:
        """Save the file."""
        self._drive("save")

    def rename(self, path: Path) -> None:
        """Rename the file on the disk, open it under its new name, and close the old buffer."""
        self._drive("rename", str(path))

    def start_again(self) -> None:
        """Do what starts a server that is gone."""
        self._drive("again")

    def quit(self) -> None:
        """Leave the editor as a user does."""
        self._drive("quit")
        self._process.wait(PATIENCE_S)

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        shutil.rmtree(self._socket, ignore_errors=True)

    def _wait_for_socket(self, path: Path) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not path.exists():
            assert self._process.poll() is None, self._log.read_text(errors="replace")
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")
            time.sleep(0.05)


class Neovim(Editor):
    """Neovim of any version."""

    lost = "quit with exit code"

    def _command(self) -> list[str]:
        driver = HERE / "neovim" / "driver.lua"
        options = ["--headless", "--listen", str(self._socket / "nvim"), "-u", str(self._init), "-i", "NONE", "-n"]
        return [self._program, *options, "-c", f"luafile {driver}", str(self._project.module)]

    def _ready(self) -> None:
        self._wait_for_socket(self._socket / "nvim")
        deadline = time.monotonic() + PATIENCE_S
        while "answer" not in (asked := self._ask("messages")).stdout:
            assert time.monotonic() < deadline, asked.stdout + self._log.read_text(errors="replace")
            time.sleep(0.05)

    def _ask(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        given = json.dumps(arguments).replace("'", "''")
        expression = f"v:lua.Drive('{name}', '{given}')"
        command = [self._program, "--server", str(self._socket / "nvim"), "--remote-expr", expression]
        # Neovim 0.7 answers on the standard error.
        out, err = subprocess.PIPE, subprocess.STDOUT
        return subprocess.run(
            command, env=self._environment, stdout=out, stderr=err, text=True, check=False, timeout=90
        )

    def _answer(self, output: str) -> str:
        answer: str = json.loads(output).get("answer") or ""
        return answer


class Emacs(Editor):
    """Emacs with eglot, as a daemon."""

    progress = False  # eglot 1.9; from 1.10 on it does
    buttons = False
    lost = "(?i)reconnecting|server exited"

    def _command(self) -> list[str]:
        self._environment["STARK_DRIVE_ANSWER"] = str(self._socket / "answer")
        driver = HERE / "emacs" / "driver.el"
        # Also as a daemon it has a home: no file of the user's is read.
        return [self._program, "--fg-daemon", "-l", str(self._init), "-l", str(driver)]

    def _ready(self) -> None:
        self._wait_for_socket(self._socket / "server")
        self._drive("open", str(self._project.module))

    def _ask(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        # A JSON string is one of Emacs Lisp too, as far as it is used here.
        expression = f"(drive {' '.join(json.dumps(each, ensure_ascii=False) for each in (name, *arguments))})"
        command = ["emacsclient", "--socket-name", str(self._socket / "server"), "--eval", expression]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=90)

    def _answer(self, output: str) -> str:
        answer: str = json.loads((self._socket / "answer").read_text()).get("answer") or ""
        return answer
