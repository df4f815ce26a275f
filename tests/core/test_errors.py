"""Errors say what is wrong, where, and how to mend it."""

from __future__ import annotations

import pytest

from stark_lsp.core.errors import BadInput, Fault, StarkError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (BadInput("There is no class Foo."), "There is no class Foo."),
        (BadInput("It raises.", path="/a/model.py"), "/a/model.py: It raises."),
        (BadInput("It raises.", path="/a/model.py", line=7), "/a/model.py:7: It raises."),
        (Fault("Disk full.", cure="Free some space.", path="/s"), "/s: Disk full. Free some space."),
        (StarkError("Odd.", line=3, details="Traceback …"), "Odd."),
    ],
)
def test_the_text_is_place_message_and_cure(error: StarkError, text: str) -> None:
    assert str(error) == text


def test_bad_input_and_fault_are_told_apart() -> None:
    assert not issubclass(BadInput, Fault)
    assert not issubclass(Fault, BadInput)


def test_what_was_given_can_be_read_back() -> None:
    error = Fault("m", cure="c", path="p", line=1, details="d")
    assert (error.message, error.cure, error.path, error.line, error.details) == ("m", "c", "p", 1, "d")
