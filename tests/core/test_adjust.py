"""Details of judging that are set by name: which there are, what is allowed, and that isolation is not one."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from stark_lsp.core.adjust import ADJUSTABLE, adjusted, how_to_set, parsed, problem
from stark_lsp.core.settings import PRESETS, EvaluationSettings
from stark_lsp.core.status import Isolation
from stark_lsp.core.wire import from_wire, to_wire


def test_every_field_but_isolation_can_be_set_and_its_presets_are_allowed() -> None:
    assert {setting.name for setting in ADJUSTABLE} == {one.name for one in fields(EvaluationSettings)} - {"isolation"}
    for setting in ADJUSTABLE:
        for preset in PRESETS.values():
            assert problem(setting.name, getattr(preset, setting.name)) == ""
        assert setting.description.endswith(".")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("load_timeout_s", "300", 300.0),
        ("target_error", "0.02", 0.02),
        ("seeds", "7", 7),
        ("special_inputs", "False", False),
        ("sanitizer", "on", True),
    ],
)
def test_a_text_becomes_a_value_of_the_fields_type(name: str, text: str, value: object) -> None:
    given = parsed(name, text)
    assert problem(name, given) == ""
    changed = adjusted(EvaluationSettings(isolation=Isolation.STRICT), {name: given})
    assert repr(getattr(changed, name)) == repr(value)
    assert changed == replace(EvaluationSettings(isolation=Isolation.STRICT), **{name: value})
    assert from_wire(to_wire(changed), EvaluationSettings) == changed


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("load_timout_s", "9", "is not known. Did you mean load_timeout_s?"),
        ("xyz", "9", "is not known. There are load_timeout_s, build_timeout_s,"),
        ("seeds", "0", "must be a whole number from 1 to 100, not 0."),
        ("seeds", "2.5", "must be a whole number from 1 to 100, not 2.5."),
        ("seeds", "many", "must be a whole number from 1 to 100, not many."),
        ("run_timeout_s", "inf", "must be a number from 1 to 86400, not inf."),
        ("run_timeout_s", "nan", "must be a number from 1 to 86400, not nan."),
        ("special_inputs", "maybe", "must be true or false, not maybe."),
        ("isolation", "off", "isolation is a setting of its own"),
    ],
)
def test_what_cannot_be_set_is_named_with_what_is_allowed(name: str, text: str, told: str) -> None:
    assert told in problem(name, parsed(name, text))


def test_a_cure_says_how_to_set_it() -> None:
    assert how_to_set("load_timeout_s", 600) == "--set load_timeout_s=600, or stark.evaluation in an editor"
