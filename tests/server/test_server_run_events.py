"""What a run tells, as the editor shows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from server_views import node, plan, verified, view

from stark_lsp.core.conversation import Spend, Usage
from stark_lsp.core.events import Judged, Notice, Outlook, Planned, Progress, Spent
from stark_lsp.core.run import Budget
from stark_lsp.core.steering import Course, Steering, SteeringKind
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.runs.desk import Desk
from stark_lsp.server.runs.pace import Pace
from stark_lsp.server.runs.run_events import RunEvents
from stark_lsp.server.runs.views import RunView
from stark_lsp.server.text.wording import roughly


class Shown:
    """What stands where the progress is shown, and what the lenses and diagnostics were told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.view: RunView = view()
        self.texts: list[str] = []
        self.refreshed = 0
        self.looks = 0
        self.now = 100.0
        """Seconds of the clock."""
        self.view.pace = Pace(lambda: self.now)
        server = StarkServer()
        monkeypatch.setattr(server, "refresh_lenses", self._refresh)
        self.said: list[str] = []
        monkeypatch.setattr(server, "log", lambda message: None)
        monkeypatch.setattr(server, "say", self.said.append)
        progress: Any = SimpleNamespace(report=lambda text, fraction: self.texts.append(text))
        self.events = RunEvents(server, Desk(server), self.view, progress)
        self.view.events = self.events
        run = self.view.run
        self.session: Any = SimpleNamespace(
            id=run.id, run=run, nodes=self.view.nodes, best=None, course=Course(), steer=self._steer
        )
        self.view.session = self.session

    def _refresh(self) -> None:
        self.refreshed += 1

    def _steer(self) -> None:
        self.looks += 1

    def hear(self, event: Any) -> str:
        """Take an event and return what the progress says then."""
        self.events.heard(self.session, event)
        return self.texts[-1]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


def test_the_progress_always_tells_who_answers(shown: Shown) -> None:
    assert shown.hear(Progress("Loading the class")) == "Loading the class · playbook"
    assert shown.hear(Notice("It may cost much.")) == "It may cost much · playbook"


def test_what_a_run_may_cost_is_said_in_a_message_that_stays(shown: Shown) -> None:
    text = "30 attempts with stark on claude-x: about 60 questions, $2 to $9."
    assert shown.hear(Outlook(text)) == f"{text.rstrip('.')} · playbook"
    assert shown.said == [f"STARK: Model: {text}"]
    shown.hear(Progress("Planning"))
    shown.hear(Notice("Paused: nothing new is begun."))
    assert len(shown.said) == 1


def test_attempts_and_spend_stand_in_one_line(shown: Shown) -> None:
    made = plan("Fuse")
    assert shown.hear(Planned(1, 0, made)) == "Attempt 1 of 30 · playbook"
    assert shown.hear(Spent(Spend(2, Usage(9), 0.42))) == "Attempt 1 of 30, $0.42 · playbook"
    done = node(1, 0, made, verified(2.0))
    shown.session.nodes[1] = done
    shown.now += 20
    assert shown.hear(Judged(done, True)) == (
        "Attempt 1 of 30, best 2.00x (1.90 to 2.10) vs eager, about 10 min left, $0.42 · playbook"
    )
    assert shown.view.judged == 1
    shown.now += 60
    assert shown.hear(Progress("Timing the candidate", 2)) == (
        "Attempt 2 of 30, best 2.00x (1.90 to 2.10) vs eager, about 9 min left, $0.42: timing the candidate · playbook"
    )


def test_how_long_it_takes_heeds_the_time_limit_pauses_and_what_an_earlier_sitting_did(shown: Shown) -> None:
    shown.view.judged = 28  # by an earlier sitting: it says nothing of today's pace
    shown.hear(Progress("Going on with run x: 28 attempts are kept", 28))
    shown.now += 500  # the class is loaded and timed
    assert "left" not in shown.hear(Progress("Planning", 29))
    shown.events.told(Steering(SteeringKind.BUDGET, budget=Budget(30, seconds=40)))
    assert shown.texts[-1] == "Attempt 29 of 30, about 40 s left · playbook"
    shown.now += 15
    shown.events.told(Steering(SteeringKind.PAUSE))
    shown.now += 1000
    shown.events.told(Steering(SteeringKind.RESUME))
    assert shown.texts[-1] == "Attempt 29 of 30, about 20 s left · playbook"
    shown.now += 5
    assert "about 20 s left" in shown.hear(Judged(node(29, 0, plan("Fuse"), None), False))
    # Nothing is left to be judged; how long finalists take is not told.
    assert "left" not in shown.hear(Judged(node(30, 0, plan("Fuse"), None), False))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "a few seconds"),
        (9.9, "a few seconds"),
        (44.0, "about 40 s"),
        (89.0, "about 90 s"),
        (90.0, "about 2 min"),
        (5399.0, "about 90 min"),
        (5400.0, "about 2 h"),
        (36_000.0, "about 10 h"),
    ],
)
def test_a_time_that_nobody_knows_exactly_is_told_roughly(seconds: float, words: str) -> None:
    assert roughly(seconds) == words


def test_what_is_told_here_is_shown_at_once_and_the_run_looks_at_once(shown: Shown) -> None:
    shown.hear(Planned(1, 0, plan("Fuse")))
    shown.events.told(Steering(SteeringKind.PAUSE))
    assert (shown.view.paused, shown.refreshed, shown.looks) == (True, 1, 1)
    assert shown.texts[-1] == "Paused. Attempt 1 of 30 · playbook"
    shown.events.told(Steering(SteeringKind.BUDGET, budget=Budget(7)))
    assert shown.texts[-1] == "Paused. Attempt 1 of 7 · playbook"
    # The run has not heard of it yet, for instance as it is still preparing.
    assert shown.hear(Progress("Importing torch")) == "Paused. Attempt 1 of 7: importing torch · playbook"
    shown.session.course = Course(paused=True, budget=Budget(7))
    assert shown.hear(Notice("Paused: nothing new is begun.")) == "Paused: nothing new is begun · playbook"


def test_what_is_told_in_another_terminal_is_shown_too(shown: Shown) -> None:
    shown.session.course = Course(pinned=1, paused=True)
    shown.hear(Progress("Planning"))
    assert (shown.view.paused, shown.view.course.pinned, shown.refreshed) == (True, 1, 1)
    shown.session.course = Course()
    shown.hear(Progress("Planning"))
    assert (shown.view.paused, shown.refreshed) == (False, 2)
