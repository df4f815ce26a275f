"""Runs and attempts as a view shows them: labels, marks, and what can be done."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from server_views import REFERENCE, failed, node, plan, problem, verified

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Spend, Usage
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, Decision, RunState, VerdictStatus
from stark_lsp.core.steering import Course
from stark_lsp.core.verdict import Interval, Profile
from stark_lsp.server.features.tree_items import leader, of_run, of_tree
from stark_lsp.server.runs.views import UnderWay

RUN = Run(
    "r1",
    problem(),
    0,
    "anthropic:claude-x",
    Budget(),
    RunState.FINISHED,
    "2.00x as fast as eager.",
    "2026-01-01T00:00:00+00:00",
    reference=REFERENCE,
    best=2,
)
ROOT = Node(0, None, AgentRole.ROOT, Candidate("class Model: ..."))
SOURCE = ["source", "original", "parent", "verdict", "plan", "prompts"]


def tree(*nodes: Node, run: Run = RUN, course: Course | None = None, **planned: UnderWay) -> list[dict[str, object]]:
    named = {int(name[1:]): one for name, one in planned.items()}
    return of_tree(run, {0: ROOT, **{node.id: node for node in nodes}}, course or Course(), named)


def test_the_view_alone_tells_which_attempt_won_why_how_sure_against_what_and_what_it_cost() -> None:
    # What the issue asks of it, in the tooltips of the run and of its proposal.
    compared = replace(verified(2.0), speedup_vs_compile=Interval(1.4, 1.3, 1.5))
    items = tree(node(1, 0, plan("Fuse"), verified(1.5)), node(2, 1, plan("Unroll", advice="It *waits*."), compared))
    (won,) = [item for item in items if item["leader"]]
    assert won["label"] == "2 1.00 ms, 2.00x"
    assert won["description"] == "proposal · Unroll · code agent"
    told = str(won["tooltip"]).splitlines()
    assert told[0] == "Attempt 2, after attempt 1, by the code agent"
    assert "against eager 2.00x (1.90–2.10)" in told
    assert "against torch.compile 1.40x (1.30–1.50)" in told
    assert "It *waits*." in told
    run = of_run(RUN, compared, Spend(3, Usage(1000, 0, 0, 200), 0.42))
    assert run["label"] == "Model"
    assert str(run["description"]).startswith("2.00x · finished · ")
    assert "2.00x as fast as eager." in str(run["tooltip"])
    assert "Some CPU" in str(run["tooltip"])
    assert "Answered by claude-x: 3 calls of a model: 1,000 tokens read, 200 written, $0.42" in str(run["tooltip"])


def test_before_there_is_a_proposal_the_best_so_far_leads() -> None:
    nodes = {
        each.id: each for each in (ROOT, node(1, 0, plan("a"), verified(1.2)), node(2, 0, plan("b"), verified(1.4)))
    }
    running = replace(RUN, state=RunState.RUNNING, best=None)
    assert leader(running, nodes) == 2
    assert leader(running, {0: ROOT, 3: node(3, 0, plan("c"), failed(VerdictStatus.CRASHED, ""))}) is None


def test_what_is_planned_stands_in_the_tree_before_it_has_a_candidate() -> None:
    running = replace(RUN, state=RunState.RUNNING, best=None)
    first, second = tree(node(1, 0, plan("Fuse"), None), run=running, n2=UnderWay(1, plan("Next")))
    assert (first["label"], first["status"]) == ("1 being judged", None)
    assert (second["parent"], second["label"], second["description"]) == (1, "2 being written", "Next")
    assert second["can"] == []
    assert first["can"] == [*[name for name in SOURCE if name != "verdict"], "pin", "prune", "hint"]


def test_what_can_be_done_follows_what_the_run_was_told_and_where_it_stands() -> None:
    good = node(1, 0, plan("a"), replace(verified(1.2), profile=Profile(device_us=3.0)))
    (finished,) = tree(good)
    assert finished["can"] == ["source", "original", "parent", "verdict", "profile", "plan", "prompts", "accept"]
    stopped = replace(RUN, state=RunState.CANCELLED, best=None)
    (told,) = tree(good, run=stopped, course=Course(pinned=1))
    assert told["pinned"] is True
    assert told["can"][-4:] == ["accept", "unpin", "prune", "hint"]  # type: ignore[index]
    (up,) = tree(good, run=stopped, course=Course(pruned=frozenset({1})))
    assert up["can"][-3:] == ["accept", "restore", "hint"]  # type: ignore[index]
    (nobody,) = tree(good, run=replace(RUN, state=RunState.RUNNING, model="playbook"))
    assert nobody["can"] == ["source", "original", "parent", "verdict", "profile", "plan", "pin", "prune"]
    empty = Node(1, 0, AgentRole.CODE, Candidate(""), plan("a"), failed(VerdictStatus.NO_CANDIDATE, "It declined."))
    (declined,) = tree(empty)
    assert declined["can"] == ["verdict", "plan", "prompts"]


@pytest.mark.parametrize(
    ("run", "here", "paused", "state", "can"),
    [
        (replace(RUN, state=RunState.RUNNING), True, False, "running", ["cancel", "pause", "hint"]),
        (replace(RUN, state=RunState.RUNNING), False, True, "paused", ["resume", "hint"]),
        (replace(RUN, state=RunState.RUNNING, model="playbook"), True, True, "paused", ["cancel", "resume"]),
        (replace(RUN, decision=Decision.REJECTED), False, True, "finished", []),
    ],
)
def test_a_run_can_be_told_something_only_while_it_goes_on(
    run: Run, here: bool, paused: bool, state: str, can: list[str]
) -> None:
    item = of_run(run, None, Spend(), here=here, paused=paused)
    assert (item["state"], item["can"]) == (state, [*can, "original", "report"])
    assert ("rejected" in item["description"]) is (run.decision is Decision.REJECTED)


def test_hostile_titles_stay_on_their_line_and_bring_no_control_characters() -> None:
    hostile = "\x1b[2J\nline two\u202e" + "x" * 500
    (item,) = tree(node(1, 0, plan(hostile, advice=hostile), failed(VerdictStatus.CRASHED, hostile)))
    texts = [str(item[name]) for name in ("label", "description", "tooltip")]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e]", "".join(texts))
    assert "\n" not in texts[0] + texts[1]
    assert max(map(len, texts)) < 1000


def test_the_documentation_and_the_menus_name_all_that_can_be_done() -> None:
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs" / "clients.md").read_text(encoding="utf-8")
    documented = {
        name for line in text.splitlines() if line.startswith("| `can` |") for name in re.findall(r"`(\w+)`", line)
    } - {"can"}
    running = replace(RUN, state=RunState.RUNNING, best=None)
    good = node(1, 0, plan("a"), replace(verified(1.2), profile=Profile(device_us=3.0)))
    items = [
        *tree(good),
        *tree(good, run=running),
        *tree(good, run=running, course=Course(pinned=1)),
        *tree(good, run=running, course=Course(pruned=frozenset({1}))),
        of_run(running, None, Spend(), here=True),
        of_run(running, None, Spend(), here=True, paused=True),
    ]
    assert {name for item in items for name in item["can"]} == documented  # type: ignore[attr-defined]
