"""What docs/runs.md tells to type can be typed."""

from __future__ import annotations

import argparse
import re
import shlex
import sqlite3
from pathlib import Path

import pytest
from cli_cases import CHAIN, write
from cli_stored import stored_run

from stark_lsp.cli import runs

DOCS = Path(__file__).resolve().parents[2] / "docs" / "runs.md"
TEXT = DOCS.read_text(encoding="utf-8")
COMMANDS = sorted(
    {
        found.partition("#")[0].strip()
        for found in re.findall(r"^stark-lsp (runs(?: .*)?)$", TEXT, re.M) + re.findall(r"`stark-lsp (runs .*?)`", TEXT)
    }
)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(exit_on_error=False)
    runs.configure(made)
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_understood(command: str) -> None:
    words = shlex.split(command.replace("NODE", "4"))[1:]
    assert callable(parser().parse_args(words).handler)


def test_the_page_has_every_action() -> None:
    (actions,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    told = {word for command in COMMANDS for word in command.split()[1:2]}
    assert set(actions.choices) - told == {"list"}


def test_the_query_of_the_page_runs_on_a_store(tmp_path: Path) -> None:
    stored_run(tmp_path, write(tmp_path, "model.py", CHAIN))
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.S)
    with sqlite3.connect(tmp_path / "runs.sqlite3") as connection:
        everything = query.replace("'-1 month'", "'-100 years'")
        rows = connection.execute(everything).fetchall()
    assert [row[:3] for row in rows] == [("claude-x", "code", 1), ("claude-x", "plan", 3)]
