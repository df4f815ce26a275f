"""The way in: help, version, and how little `serve` imports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from cli_cases import stark

from stark_lsp import __version__
from stark_lsp.cli import COMMANDS
from stark_lsp.cli.options import HYPER_PARAMETERS
from stark_lsp.core.settings import SearchSettings

SPY = """
import sys

before = set(sys.modules)


class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "stark_lsp.server":
            new = {m.partition(".")[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)
            ours = sorted(m for m in sys.modules if m.startswith("stark_lsp"))
            print(sorted(new), ours)
            raise SystemExit(0)
        return None


sys.meta_path.insert(0, Spy())
from stark_lsp.cli import main

main(["serve"])
"""


def test_serve_imports_nothing_before_the_server() -> None:
    done = subprocess.run([sys.executable, "-c", SPY], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['stark_lsp'] ['stark_lsp', 'stark_lsp.cli', 'stark_lsp.cli.serve']"


def test_serve_ends_when_its_client_is_gone(tmp_path: Path) -> None:
    done = stark("serve", state=tmp_path)  # standard input is empty
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_version_is_told(tmp_path: Path) -> None:
    done = stark("--version", state=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"stark-lsp {__version__}\n")


def test_without_a_command_the_help_is_shown(tmp_path: Path) -> None:
    done = stark(state=tmp_path)
    assert done.returncode == 0
    for name in COMMANDS:
        assert f"    {name} " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(tmp_path: Path, name: str) -> None:
    done = stark(name, "--help", state=tmp_path)
    assert done.returncode == 0
    assert f"stark-lsp {name}" in done.stdout
    assert "options:" in done.stdout


def test_an_unknown_command_is_refused(tmp_path: Path) -> None:
    done = stark("optimise", state=tmp_path)
    assert done.returncode == 2
    assert "optimize" in done.stderr


def test_every_hyper_parameter_of_the_search_is_an_option(tmp_path: Path) -> None:
    own = {
        "attempts": "budget",
        "seed": "seed",
        "system": "system",
        "in_flight": "parallel",
        "any_length": "any-length",
    }
    assert {f.name for f in fields(SearchSettings)} == {*HYPER_PARAMETERS, *own}
    text = stark("optimize", "--help", state=tmp_path).stdout
    for name in [*HYPER_PARAMETERS, *own.values()]:
        assert f"--{name.replace('_', '-')} " in text
