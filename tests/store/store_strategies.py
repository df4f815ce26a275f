"""Strategies for whatever may have been asked, answered and said."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from stark_lsp.core.conversation import Answer, Exchange, Loss, Question, Tool, Usage
from stark_lsp.core.run import Budget
from stark_lsp.core.status import ModelRole, StopReason
from stark_lsp.core.steering import Steering, SteeringKind

# A pair of surrogates that stand for one character is that character in JSON; any other text comes back as it was.
anything = st.text(st.characters(exclude_categories=()), max_size=40).filter(
    lambda text: json.loads(json.dumps(text)) == text
)
numbers = st.integers(0, 10**9)
finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | finite | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
objects = st.dictionaries(anything, values, max_size=4)
fractions = st.floats(0, 1e6)
questions = st.builds(
    Question,
    attempt=numbers,
    role=st.sampled_from(ModelRole),
    system=anything,
    shared=anything,
    body=anything,
    tool=st.none() | st.builds(Tool, anything, anything, objects),
    model=anything,
    temperature=st.none() | fractions,
    effort=st.none() | anything,
    max_tokens=numbers,
    ordinal=st.integers(0, 50),
)
usages = st.builds(Usage, numbers, numbers, numbers, numbers)
answers = st.builds(
    Answer,
    stop=st.sampled_from(StopReason),
    text=anything,
    tool_input=st.none() | objects,
    usage=usages,
    model=anything,
    latency_s=st.floats(0, allow_nan=False),
    request_id=anything,
    message=anything,
)
exchanges = st.builds(Exchange, questions, answers, st.none() | fractions, anything)
"""Whatever a model may have been asked and have answered."""
losses = st.builds(
    Loss,
    attempt=numbers,
    role=st.sampled_from(ModelRole),
    ordinal=st.integers(0, 50),
    model=anything,
    usage=usages,
    dollars=st.none() | fractions,
    when=anything,
    why=anything,
)
"""Whatever may have been paid for nothing."""
said = st.builds(
    Steering,
    kind=st.sampled_from(SteeringKind),
    node=st.none() | numbers,
    text=anything,
    budget=st.none() | st.builds(Budget, numbers, st.none() | fractions, st.none() | numbers, st.none() | fractions),
    attempt=numbers,
    when=anything,
)
"""Whatever a user may have said."""
