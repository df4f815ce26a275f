"""The estimate before a benchmark: of all runs that are left, with the limits that hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import SUITE, cell

from stark_lsp.bench import campaign
from stark_lsp.bench.cells import Cell
from stark_lsp.bench.ledger import Ledger
from stark_lsp.bench.outlook import Outlook, outlook
from stark_lsp.bench.rows import Outcome, of_failure
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget

TEXT = (SUITE / "level1" / "7_gate.py").read_text()


def asked(problem: str = "1/7", model: str = "anthropic", budget: Budget | None = None, **more: object) -> Cell:
    one = replace(cell(problem, text=TEXT), model=model, budget=budget or Budget(30))
    return replace(one, **more)  # type: ignore[arg-type]


def of(*cells: Cell) -> Outlook:
    found = outlook(cells)
    assert found is not None
    return found


def test_all_runs_are_added_up() -> None:
    one, three = of(asked()), of(asked("1/1"), asked("1/2"), asked("1/3"))
    assert one.dollars is not None
    assert three.dollars == pytest.approx([3 * end for end in one.dollars])
    assert three.calls == tuple(3 * end for end in one.calls)
    assert one.calls == (45, 60)
    assert "An estimate for 3 runs on language models: about 135 to 180 questions" in three.text
    assert "Each stops before $10.00, so all of them cannot cost more than $30.00." in three.text


def test_it_stays_within_the_limit_of_each_run() -> None:
    tight = of(asked(budget=Budget(30, dollars=0.01)), asked("1/2", budget=Budget(30, dollars=0.01)))
    assert tight.dollars == (0.02, 0.02)
    assert tight.limit == 0.02
    assert of(asked(budget=Budget(30, tokens=1000))).limit is None


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    found = of(asked(model="anthropic:somebodys-own"), asked("1/2"))
    assert (found.dollars, found.limit, found.unpriced) == (None, None, ("somebodys-own",))
    assert "The price of somebodys-own is unknown." in found.text
    assert "$" not in found.text


def test_longer_problems_and_templates_take_more() -> None:
    usual = of(asked())
    assert of(asked(text=TEXT + "\n" + "# more\n" * 3000 + "UNUSED = 1\n")).tokens >= usual.tokens
    frame = (Path(__file__).parents[2] / "prompts" / "system.md").read_text()
    assert of(asked(prompts={"system.md": frame + "A word. " * 5000})).tokens > usual.tokens


def test_a_template_that_cannot_be_filled_in_is_told_before_anything_begins() -> None:
    with pytest.raises(BadInput, match="nowhere"):
        outlook([asked(prompts={"system.md": "{{ nowhere }}"})])


def test_nothing_is_estimated_where_nothing_is_asked() -> None:
    assert outlook([]) is None
    assert outlook([asked(model="playbook")]) is None
    assert outlook([asked(error="cannot be used")]) is None


def test_only_what_is_left_is_counted(tmp_path: Path) -> None:
    cells = [asked("1/1"), asked("1/2"), asked("1/3"), asked("1/4"), asked("1/5", error="no class Model")]
    assert campaign.left(cells, tmp_path) == tuple(cells)
    with Ledger(tmp_path) as ledger:
        ledger.append(of_failure(cells[0], Outcome.MEASURED, ""))
        ledger.append(of_failure(cells[1], Outcome.FAULT, "The GPU was lost."))
        ledger.append(of_failure(cells[3], Outcome.UNUSABLE, "No module named 'ops'"))
        ledger.append(of_failure(cells[4], Outcome.UNUSABLE, cells[4].error))
    assert campaign.left(cells, tmp_path) == (cells[1], cells[2], cells[3])
