"""The doctor says why Triton cannot be used, not only that it cannot."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_cases import stark

from stark_lsp.cli.checks import toolchain
from stark_lsp.cli.checks.health import Health
from stark_lsp.evaluation.interpreters import InterpreterInfo

PYTHON = "/project/.venv/bin/python"
ONE = ("a GPU",)


@pytest.mark.parametrize(
    ("gpus", "version", "problem", "health", "said", "cured"),
    [
        ((), "3.6.0", "", Health.GOOD, "3.6.0", False),
        (ONE, "3.6.0", "", Health.GOOD, "3.6.0, works with the GPU", False),
        ((), None, "", Health.ABSENT, "not installed, and not needed without a GPU", False),
        (ONE, None, "", Health.ABSENT, f"not installed in {PYTHON}", True),
        ((), None, "OSError: x", Health.ABSENT, f"cannot be imported by {PYTHON}: OSError: x", False),
        (ONE, None, "OSError: x", Health.ABSENT, f"cannot be imported by {PYTHON}: OSError: x", True),
        (ONE, "3.6.0", "RuntimeError: 0 active drivers", Health.ABSENT,
         "3.6.0, which cannot use the GPU: RuntimeError: 0 active drivers", True),
    ],
)  # fmt: skip
def test_missing_broken_and_unusable_are_told_apart(
    gpus: tuple[str, ...], version: str | None, problem: str, health: Health, said: str, cured: bool
) -> None:
    info = InterpreterInfo("3.12", "2.11", gpus=gpus, triton=version, triton_problem=problem)
    check = toolchain.triton(info, PYTHON)
    assert (check.name, check.health, check.detail, bool(check.cure)) == ("Triton", health, said, cured)


def test_the_first_line_of_what_failed_is_shown(tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("raise ImportError('libtriton.so: no such file\\x1b[2J\\nmore')")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "__version__ = '2.11.0'\nclass version: cuda = None\nclass cuda: is_available = bool\n"
    )
    state, env = tmp_path / "state", {"PYTHONPATH": str(tmp_path)}
    done = stark("doctor", "--json", "--python", sys.executable, state=state, env=env)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["torch"]["health"] == "good"
    assert checks["Triton"]["health"] == "absent"
    told = checks["Triton"]["detail"]
    assert told.startswith(f"cannot be imported by {sys.executable}: ImportError: libtriton.so: no such file")
    assert "more" not in told
    shown = stark("doctor", "--python", sys.executable, state=state, env=env).stdout
    assert "ImportError: libtriton.so" in " ".join(shown.split())
    assert "\x1b[2J" not in shown
