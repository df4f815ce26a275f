"""Which model is asked in which role, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole

NAMES = st.sampled_from(["", "small", "large", "other"])
WRITING = [role for role in ModelRole if role is not ModelRole.DEBUG]


@given(st.sampled_from(list(ModelRole)), st.booleans(), st.integers(0, 99))
def test_nobody_else_is_asked_by_default_and_in_the_paper(role: ModelRole, correction: bool, stagnant: int) -> None:
    for settings in (AgentSettings(), as_in_paper(SearchSettings(), AgentSettings(stagnation_model="large"))[1]):
        assert settings.routed(role, correction=correction, stagnant=stagnant) == settings.of(role)


@given(
    st.sampled_from(list(ModelRole)), st.booleans(), st.integers(0, 9), st.integers(1, 9), NAMES, NAMES, NAMES, NAMES
)
def test_who_is_asked_follows_from_role_and_rule(
    role: ModelRole, correction: bool, stagnant: int, after: int, plan: str, debug: str, correcting: str, strong: str
) -> None:
    settings = AgentSettings(
        plan=RoleSettings(plan, 0.5, "high", 9000),
        debug=RoleSettings(debug),
        correction_model=correcting,
        stagnation_model=strong,
        stagnation_attempts=after,
    )
    asked = settings.routed(role, correction=correction, stagnant=stagnant)
    own = settings.of(role)
    assert (asked.temperature, asked.effort, asked.max_tokens) == (own.temperature, own.effort, own.max_tokens)
    if correction and correcting:
        assert asked.model == correcting
    elif strong and stagnant >= after and role in WRITING:
        assert asked.model == strong
    else:
        assert asked.model == own.model
    assert (asked.model or "run's") in settings.models([role], "run's"), "its price would not have been looked up"
