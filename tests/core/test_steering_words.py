"""What the user says to a run: what it adds up to, and what makes no sense."""

from __future__ import annotations

import pytest

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.run import Budget, Node
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.steering import Course, Hint, Steering, SteeringKind, course, objection
from stark_lsp.core.verdict import Verdict

PIN, PRUNE, RESTORE = SteeringKind.PIN, SteeringKind.PRUNE, SteeringKind.RESTORE


def node(number: int, parent: int | None, status: VerdictStatus = VerdictStatus.OK) -> Node:
    return Node(number, parent, AgentRole.CODE, Candidate(""), None, Verdict(status))


NODES = {
    0: node(0, None),
    1: node(1, 0),
    2: node(2, 1, VerdictStatus.COMPILE_ERROR),
    3: node(3, 0, VerdictStatus.NO_CANDIDATE),
}


def test_what_is_said_adds_up() -> None:
    said = [
        Steering(PIN, 1),
        Steering(PRUNE, 2),
        Steering(SteeringKind.HINT, None, "short rows"),
        Steering(SteeringKind.BUDGET, budget=Budget(5)),
        Steering(SteeringKind.PAUSE),
        Steering(PRUNE, 3),
        Steering(RESTORE, 2),
    ]
    assert course(said) == Course(1, frozenset({3}), (Hint("short rows"),), Budget(5), True)
    assert course([Steering(SteeringKind.UNPIN), Steering(SteeringKind.RESUME)], course(said)) == Course(
        None, frozenset({3}), (Hint("short rows"),), Budget(5), False
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Steering(PIN, 0), ""),
        (Steering(PIN, 1), "Attempt 1 was given up."),
        (Steering(PIN, 2), "Attempt 1 was given up, and attempt 2 with it."),
        (Steering(PIN, 3), "Attempt 3 has no candidate to go on from."),
        (Steering(PIN, 9), "There is no attempt 9."),
        (Steering(PRUNE, 2), ""),
        (Steering(RESTORE, 1), ""),
        (Steering(RESTORE, 2), "Attempt 2 was not given up."),
        (Steering(SteeringKind.HINT, 9), "There is no attempt 9."),
        (Steering(SteeringKind.PAUSE), ""),
    ],
)
def test_what_makes_no_sense_has_its_reason(said: Steering, why: str) -> None:
    assert objection(said, NODES, Course(pruned=frozenset({1}))) == why
