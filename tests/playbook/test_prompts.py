"""Templates: built in, overridden, edited while running."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stark_lsp.agents.prompts import PromptLibrary, built_in_dir
from stark_lsp.core.errors import BadInput
from stark_lsp.playbook.strategies import STRATEGIES


def test_every_strategy_has_an_advice() -> None:
    names = {path.stem for path in (built_in_dir() / "advice").glob("*.md")}
    assert set(STRATEGIES) | {"tune", "leave"} <= names


def test_an_override_wins_and_edits_are_seen(tmp_path: Path) -> None:
    (tmp_path / "advice").mkdir()
    mine = tmp_path / "advice" / "tune.md"
    mine.write_text("Mine: {{ name }}")
    library = PromptLibrary([tmp_path])
    assert library.render("advice/tune", name="a") == "Mine: a\n"
    mine.write_text("Changed: {{ name }}")
    assert library.render("advice/tune", name="a") == "Changed: a\n"


def test_a_missing_value_a_missing_template_and_a_broken_one_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("{{ nobody }}")
    (tmp_path / "b.md").write_text("one\n{% if %}")
    library = PromptLibrary([tmp_path])
    with pytest.raises(BadInput, match="nobody"):
        library.render("a")
    with pytest.raises(BadInput, match=r"no template c\.md"):
        library.render("c")
    with pytest.raises(BadInput) as caught:
        library.render("b")
    assert caught.value.line == 2


def test_a_template_cannot_reach_into_python(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("{{ ''.__class__.__mro__ }}")
    with pytest.raises(BadInput):
        PromptLibrary([tmp_path]).render("a")


def test_importing_prompts_does_not_import_the_template_engine() -> None:
    import subprocess

    code = "import sys, stark_lsp.agents.prompts; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
