"""docs/agents.md says what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from agent_cases import FIRST, FIRST_PLAN, PROBLEM, ROOT, SECOND, context, reference

from stark_lsp.agents.answers import MAX_SOURCE, TOOLS
from stark_lsp.agents.frame import Frame
from stark_lsp.agents.lenses import read_lenses
from stark_lsp.agents.observations import LOG, MESSAGES, PAST_SOURCE, SELECTED_SOURCE, Attempt, Result
from stark_lsp.agents.prompts import PromptLibrary, built_in_dir
from stark_lsp.core.agent_adjust import ADJUSTABLE
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.status import Grounding, ModelRole
from stark_lsp.search.systems import system_names

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_settings_are_those_that_can_be_set() -> None:
    found = {}
    for row in re.findall(r"^\| (`.*?) \| (.*?) \|", section("Settings of each role"), re.MULTILINE):
        for name in re.findall(r"`([\w.]+)`", row[0]):
            found[name] = {"empty": "", "`null`": None}.get(row[1], row[1].strip("`"))
    assert found.keys() == {setting.name for setting in ADJUSTABLE}
    for setting in ADJUSTABLE:
        assert found[setting.name] == (setting.default if setting.default is None else str(setting.default))


def test_the_names_a_template_has_are_those_it_is_given() -> None:
    listed = section("Your own words")
    words = set(re.findall(r"`\.?(\w+)", listed))
    frame = Frame(PROBLEM, reference(), AgentSettings(), PromptLibrary())
    given = context(FIRST, (ROOT, FIRST, SECOND))
    values = {
        **frame._constant(ModelRole.CODE, given),
        **frame._changing(ModelRole.CODE, given, FIRST_PLAN, None, alone=False),
    }
    inner = {key for name in ("example", "reference", "where", "plan") for key in values[name]}
    data = {field.name for kind in (Attempt, Result) for field in fields(kind)}
    assert set(values) | inner | data <= words


def test_every_built_in_template_is_in_the_table() -> None:
    told = section("What they are told") + section("Lenses")
    for path in built_in_dir().glob("*.md"):
        assert f"{path.name}`" in told or path.name == "frame.md", path.name
    assert {path.stem for path in (built_in_dir() / "roles").glob("*.md")} == {role.value for role in ModelRole}


def test_figures_and_names_are_those_of_the_code() -> None:
    for number in (SELECTED_SOURCE, PAST_SOURCE, LOG, MAX_SOURCE):
        assert f"{number:,}" in PAGE
    assert f"{MESSAGES} messages" in PAGE
    assert all(f"`{tool.name}`" in PAGE for tool in TOOLS.values())
    assert all(f"| `{choice.value}` |" in section("Grounding") for choice in Grounding)
    assert all(f"| `{name}` |" in section("Systems") for name in system_names())
    assert len(read_lenses(PromptLibrary().text("lenses.md"))) == 10
