"""What is set of the agents by name: which names there are, what is allowed, and what reaches the settings."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.core.agent_adjust import ADJUSTABLE, adjusted, nullable, parsed, problem, schema
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.status import ModelRole
from stark_lsp.core.wire import from_wire, to_wire

NAMES = [setting.name for setting in ADJUSTABLE]


def test_every_field_of_every_role_can_be_set_and_its_default_is_allowed() -> None:
    roles = {f"{role.value}.{field.name}" for role in ModelRole for field in fields(RoleSettings)}
    elsewhere = {role.value for role in ModelRole} | {"dialect", "grounding", "profile", "playbook", "notes"}
    assert set(NAMES) == roles | {field.name for field in fields(AgentSettings)} - elsewhere
    for setting in ADJUSTABLE:
        assert problem(setting.name, setting.default) == ""
        assert setting.description.endswith(".")
    defaults = {setting.name: setting.default for setting in ADJUSTABLE}
    assert adjusted(AgentSettings(), defaults) == AgentSettings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("plan.temperature", "1", 1.0),
        ("plan.temperature", "none", None),
        ("debug.effort", "high", "high"),
        ("debug.effort", "", None),
        ("code.model", "org/model:7b", "org/model:7b"),
        ("code.model", "", ""),
        ("reflexion.max_tokens", "20000", 20000),
        ("system_message", "system-v1", "system-v1"),
        ("edits", "off", False),
        ("edits", "True", True),
    ],
)
def test_a_text_becomes_a_value_of_the_fields_type(name: str, text: str, value: object) -> None:
    given_value = parsed(name, text)
    assert problem(name, given_value) == ""
    changed = adjusted(AgentSettings(), {name: given_value})
    role, _, field = name.rpartition(".")
    found = getattr(changed.of(ModelRole(role)), field) if role else getattr(changed, name)
    assert repr(found) == repr(value)
    assert from_wire(to_wire(changed), AgentSettings) == changed


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("plan.temperatur", "1", "Did you mean plan.temperature"),
        ("xyz", "1", "There are plan.model,"),
        ("plan.temperature", "1.5", "must be a number from 0 to 1, not 1.5."),
        ("plan.max_tokens", "none", "must be a whole number from 1000 to 500000, not none."),
        ("plan.effort", "Very High", "must be one of minimal, low, medium, high, xhigh and max, not Very High."),
        ("plan.effort", "hihg", "must be one of minimal, low, medium, high, xhigh and max, not hihg."),
        ("code.model", "a b", "must be a name of a model"),
        ("system_message", "../secret", "must be the name of a template"),
        ("edits", "perhaps", "must be true or false, not perhaps."),
        ("grounding", "off", "grounding is a setting of its own"),
        ("dialect", "raw", "the dialect is a setting of its own"),
    ],
)
def test_what_cannot_be_set_is_named_with_what_is_allowed(name: str, text: str, told: str) -> None:
    assert told in problem(name, parsed(name, text))


def test_only_what_a_model_may_decide_can_be_left_to_it() -> None:
    assert {name for name in NAMES if nullable(name)} == {
        f"{role.value}.{field}" for role in ModelRole for field in ("temperature", "effort")
    }
    assert schema()["plan.temperature"]["type"] == ["number", "null"]
    assert schema()["plan.model"]["type"] == "string"


@given(st.sampled_from(NAMES), st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]))
def test_a_value_without_a_problem_reaches_the_settings_and_their_wire_form(name: str, value: object) -> None:
    if problem(name, value) == "":
        changed = adjusted(AgentSettings(), {name: value})
        assert from_wire(to_wire(changed), AgentSettings) == changed


@given(st.sampled_from([*NAMES, "unknown"]), st.text(max_size=20))
def test_no_text_breaks_the_parser(name: str, text: str) -> None:
    problem(name, parsed(name, text))
