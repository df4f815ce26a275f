"""What breaks outside the user's code ends with exit code 1, one line and a cure."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path

import pytest
from cli_cases import CHAIN, QUICK, bare_path, stark, write

from stark_lsp.cli.terminal import failures


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "model.py", CHAIN)
    blocked = write(tmp_path, "blocked", "a file where a folder should be") / "state"
    out = tmp_path / "out.json"
    done = stark("optimize", path, *QUICK, "--json", out, state=blocked)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(blocked) in done.stderr
    assert "STARK_STATE_DIR" in done.stderr
    assert json.loads(out.read_text())["error"]["cure"]


def test_the_log_is_kept_where_only_its_owner_may_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    log = failures.Log()
    log("a line")
    assert log.path == tmp_path / "state" / "cli.log"
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "model.py", CHAIN)

    def no_file_may_grow() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = stark("optimize", path, *QUICK, state=tmp_path / "state", preexec_fn=no_file_may_grow)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "state") in done.stderr
    assert "space" in done.stderr


@pytest.mark.slow
def test_without_a_compiler_the_search_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "model.py", CHAIN)
    env = {"PATH": bare_path(tmp_path / "bare", "sh", "env", "true", "uname"), "CXX": ""}
    done = stark("optimize", path, *QUICK, "--budget", "2", state=tmp_path / "state", env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no C++ compiler" in done.stderr
    assert "Install" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unexpected_error_is_one_line_and_its_traceback_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    try:
        raise KeyError("surprise")
    except KeyError as error:
        code = failures.report(error)
    told = capsys.readouterr().err
    assert code == 1
    assert told.count("\n") == 1
    assert "KeyError" in told
    log = tmp_path / "state" / "cli.log"
    assert str(log) in told
    assert "Traceback" in log.read_text()


def test_a_log_that_cannot_be_written_does_not_hide_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STARK_STATE_DIR", str(write(tmp_path, "file", "") / "state"))
    assert failures.report(ValueError("surprise")) == 1
    assert "surprise" in capsys.readouterr().err
