"""The flow in a real Emacs with eglot, in batch mode, with the configuration of docs/editors.md."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from project import EMACS as EMACS_PATH
from project import FEW, MODULE, block, make_project, run_editor, with_settings

EMACS = shutil.which("emacs")
FLOW = Path(__file__).parent / "emacs" / "flow.el"


@cache
def _has_eglot() -> bool:
    # No -Q: Debian's elpa-eglot is found through the site's start-up file.
    if EMACS is None:
        return False
    command = [EMACS, "--batch", "--eval", "(require 'eglot)"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _need_eglot() -> str:
    if EMACS is None or not _has_eglot():
        pytest.skip("Emacs with eglot is not installed (Debian: apt install emacs-nox elpa-eglot)")
    return EMACS


def _lisp(value: object) -> str:
    if isinstance(value, bool):
        return "t" if value else ":json-false"
    if isinstance(value, dict):
        return f"({' '.join(f':{name} {_lisp(entry)}' for name, entry in value.items())})"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _run(tmp_path: Path, configuration: str, **more: str) -> dict[str, Any]:
    emacs = _need_eglot()
    project = make_project(tmp_path)
    project.environment.update(STARK_FLOW_MODULE=str(project.module), **more)
    init = tmp_path / "init.el"
    init.write_text(configuration)
    return run_editor([emacs, "--batch", "-l", str(init), "-l", str(FLOW)], project)


@pytest.mark.slow
@pytest.mark.timing
def test_an_emacs_user_optimizes_reads_the_plan_and_accepts(tmp_path: Path) -> None:
    _need_eglot()
    settings = " ".join(f":{name} {_lisp(value)}" for name, value in FEW.items())
    configuration = EMACS_PATH + with_settings(block("emacs"), ':attempts 30 :device "auto"', settings)

    seen = _run(tmp_path, configuration, STARK_FLOW_MODE="python-mode")

    assert "Optimize with STARK: Model" in seen["actions"]
    assert "as fast as eager" in seen["offer"]
    assert "tanh" in seen["line"] or "pow" in seen["line"]
    assert "Attempts" in seen["hover"]
    assert "Measured on" in seen["hover"]
    assert seen["text"].index("class Model(nn.Module)") < seen["text"].index("class ModelNew(nn.Module)")
    compile(seen["text"], "gelu.py", "exec")
    assert "+class ModelNew(nn.Module)" in seen["review"]
    assert "There is no such file" in seen["judged"]
    assert seen["report"].endswith(".html")
    assert seen["undone"] == MODULE


def test_a_mode_of_its_own_leaves_python_mode_to_another_server(tmp_path: Path) -> None:
    _need_eglot()
    seen = _run(
        tmp_path, EMACS_PATH + "(require 'stark)", STARK_FLOW_MODE="stark-python-mode", STARK_FLOW_LOOK_ONLY="1"
    )
    assert "Optimize with STARK: Model" in seen["actions"]


def test_commands_go_to_this_server_and_to_no_other(tmp_path: Path) -> None:
    emacs = _need_eglot()
    script = tmp_path / "which.el"
    script.write_text(
        EMACS_PATH
        + """
(require 'stark)
(defvar-local here nil)
(cl-defmethod eglot--capabilities ((server symbol))
  `(:executeCommandProvider (:commands ,(if (eq server 'ours) ["stark.optimize" "stark.status"] ["other.do"]))))
(with-current-buffer (get-buffer-create "model.py") (setq here 'ours))
(with-current-buffer (get-buffer-create "a.py") (setq here 'pyright))
(cl-letf (((symbol-function 'eglot-current-server) (lambda () here)))
  (dolist (name '("a.py" "model.py" "*scratch*"))
    (with-current-buffer (get-buffer-create name) (princ (format "%s " (stark--server))))))
"""
    )
    done = subprocess.run([emacs, "--batch", "-l", str(script)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ours", "ours", "ours"], done.stderr
