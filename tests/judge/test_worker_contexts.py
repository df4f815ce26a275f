"""Which context of a GPU a process keeps; the contexts themselves are made in tests/gpu."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from stark_lsp.judge.service.problem_runners import COMPILED, TWIN
from stark_lsp.judge.timing import contexts

LAUNCHES = st.floats(min_value=1.0, max_value=1000.0)


def test_the_first_process_keeps_one_of_the_quicker_kind() -> None:
    seen = [23.4, 22.1, 23.5, 22.1, 23.2]
    assert not any(contexts.right(seen[:made], 0.0) for made in range(1, len(seen) + 1))
    assert contexts.right([*seen, 22.2], 0.0)


def test_the_first_process_looks_at_a_few_even_if_all_are_alike() -> None:
    assert not contexts.right([22.0] * (contexts.TRIED - 1), 0.0)
    assert contexts.right([22.0] * contexts.TRIED, 0.0)


@given(LAUNCHES, st.lists(LAUNCHES, max_size=5), st.floats(min_value=-0.2, max_value=0.2))
def test_every_other_is_like_the_first_whatever_was_seen_before(like: float, before: list[float], off: float) -> None:
    kept = contexts.right([*before, like * (1.0 + off)], like)
    if abs(off) < 0.99 * contexts.ALIKE:
        assert kept
    if abs(off) > 1.01 * contexts.ALIKE:
        assert not kept


@given(st.lists(LAUNCHES, min_size=contexts.TRIED, max_size=contexts.MOST))
def test_the_quickest_of_a_few_is_always_right(seen: list[float]) -> None:
    assert contexts.right([*seen, min(seen)], 0.0)


def test_a_candidate_in_a_slower_context_than_the_original_has_a_note() -> None:
    note = contexts.unlike(23.4, 22.0)
    assert note is not None
    assert "0.09 us slower" in note
    quicker = contexts.unlike(22.0, 23.4)
    assert quicker is not None
    assert "0.09 us quicker in its process" in quicker


def test_every_side_has_words_for_its_process() -> None:
    assert len({contexts.WHERE[name] for name in ("candidate", "eager", TWIN, *COMPILED)}) == len(contexts.WHERE)


@given(LAUNCHES)
def test_contexts_that_are_alike_or_not_known_have_none(launch_us: float) -> None:
    assert contexts.unlike(launch_us, launch_us) is None
    assert contexts.unlike(0.0, launch_us) is None
    assert contexts.unlike(launch_us, 0.0) is None
