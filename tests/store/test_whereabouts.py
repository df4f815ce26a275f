"""Runs are found again whatever happens to the file of their class: edits, renames, links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from store_cases import tree

from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import Decision, RunState
from stark_lsp.discovery.problems import make_problem
from stark_lsp.store import RunStore

TEXT = """import torch

SCALE = 2.0


class Model(torch.nn.Module):
    def forward(self, x):
        return x * SCALE


def size():
    return 8


def get_inputs():
    return [torch.randn(size())]


def other():
    return 1
"""


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "runs.sqlite3")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "model.py"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def problem(path: Path, text: str = TEXT) -> Problem:
    return make_problem(str(path), text, "Model")


def kept(
    store: RunStore, made: Problem, run_id: str = "r1", state: RunState = RunState.INTERRUPTED, best: int | None = None
) -> Run:
    """Store a run on a problem with attempts."""
    run = Run(run_id, made, 0, "playbook", Budget(5), state, created=f"2026-01-01T00:00:{run_id[1:]:>02}", best=best)
    nodes: tuple[Node, ...] = tree()
    store.create(run, nodes)
    return run


def found(store: RunStore, made: Problem) -> str | None:
    stored = store.latest_resumable(made)
    return stored.run.id if stored is not None else None


@pytest.mark.parametrize(
    ("old", "new", "goes_on"),
    [
        ("import torch\n", "# a line above\nimport torch\n", True),
        ("return 1", "return 2", True),
        ("x * SCALE", "x  *  SCALE  # twice", True),
        ("x * SCALE", "x + SCALE", False),
        ("SCALE = 2.0", "SCALE = 3.0", False),
        ("return 8", "return 9", False),
        ("torch.randn(size())", "torch.zeros(size())", False),
    ],
)
def test_edits_that_do_not_touch_class_or_inputs_cost_no_attempts(
    store: RunStore, file: Path, old: str, new: str, goes_on: bool
) -> None:
    kept(store, problem(file))
    assert found(store, problem(file, TEXT.replace(old, new))) == ("r1" if goes_on else None)


def test_a_run_of_an_earlier_format_goes_on_after_an_edit_elsewhere(store: RunStore, file: Path) -> None:
    kept(store, problem(file))
    with store._database.write() as connection:
        connection.execute("UPDATE runs SET digest = 'abc'")
    assert found(store, problem(file, "# a line above\n" + TEXT)) == "r1"
    assert found(store, problem(file, TEXT.replace("2.0", "3.0"))) is None


def test_a_renamed_file_keeps_its_runs_and_gets_them_back_under_its_old_name(store: RunStore, file: Path) -> None:
    kept(store, problem(file))
    new = file.rename(file.with_name("renamed.py"))
    assert found(store, problem(new)) == "r1"
    assert [(one.id, one.here) for one in store.waiting(str(new), {"Model"})] == [("r1", False)]
    new.rename(file)
    assert found(store, problem(file)) == "r1"
    assert [(one.id, one.here) for one in store.waiting(str(file), {"Model"})] == [("r1", True)]


def test_a_folder_that_was_moved_keeps_its_runs(store: RunStore, file: Path) -> None:
    kept(store, problem(file))
    file.parent.rename(file.parent.with_name("elsewhere"))
    assert found(store, problem(file.parent.with_name("elsewhere") / "model.py")) == "r1"


def test_a_copy_beside_the_file_is_another_one(store: RunStore, file: Path) -> None:
    kept(store, problem(file))
    copy = file.with_name("copy.py")
    copy.write_text(TEXT)
    assert found(store, problem(copy)) is None
    assert store.waiting(str(copy), {"Model"}) == ()
    assert not store.is_on("r1", problem(copy))


def test_a_renamed_file_whose_class_was_edited_has_no_run(store: RunStore, file: Path) -> None:
    kept(store, problem(file))
    new = file.rename(file.with_name("renamed.py"))
    assert found(store, problem(new, TEXT.replace("2.0", "3.0"))) is None


def test_a_file_is_the_same_by_whatever_link_it_is_reached(store: RunStore, file: Path) -> None:
    kept(store, problem(file))
    (file.parent.with_name("linked")).symlink_to(file.parent)
    link = file.with_name("link.py")
    link.symlink_to(file)
    for path in (link, file.parent.with_name("linked") / "model.py"):
        assert found(store, problem(path)) == "r1"
        assert [one.here for one in store.waiting(str(path), {"Model"})] == [True]


def test_what_waits_in_a_document(store: RunStore, file: Path) -> None:
    made = problem(file)
    kept(store, made, "r1", RunState.FINISHED, best=1)
    kept(store, made, "r2", RunState.FINISHED)
    kept(store, made, "r3", RunState.CANCELLED)
    kept(store, made, "r4", RunState.INTERRUPTED)
    kept(store, replace(made, qualname="Other"), "r5", RunState.INTERRUPTED)

    def waiting() -> list[tuple[str, bool, bool, bool]]:
        found = store.waiting(str(file), {"Model"})
        return [(one.id, one.offers, one.interrupted, one.elsewhere) for one in found]

    assert waiting() == [("r4", False, True, False), ("r1", True, False, False)]
    kept(store, made, "r6", RunState.RUNNING)
    assert waiting() == [("r6", False, False, True), ("r1", True, False, False)], "a later run was begun"


def test_a_decision_is_taken_once_and_puts_older_proposals_aside(store: RunStore, file: Path) -> None:
    made = problem(file)
    for number in (1, 2):
        kept(store, made, f"r{number}", RunState.FINISHED, best=1)
    assert store.decide("r2", Decision.ACCEPTED) is Decision.ACCEPTED
    assert store.decide("r2", Decision.REJECTED) is Decision.ACCEPTED
    assert store.load("r2").run.decision is Decision.ACCEPTED
    assert store.load("r1").run.decision is Decision.KEPT
    assert store.waiting(str(file), {"Model"}) == ()
    assert store.decide("r1", Decision.REJECTED) is Decision.REJECTED, "it was only kept, and is named now"


def test_nothing_is_decided_on_a_run_that_goes_on(store: RunStore, file: Path) -> None:
    kept(store, problem(file), "r1", RunState.RUNNING, best=1)
    with pytest.raises(BadInput, match="under way"):
        store.decide("r1", Decision.ACCEPTED)
