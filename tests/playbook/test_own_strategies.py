"""Strategies of the user's: files in a folder of prompts become plans, and what they write is right or judged wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from stark_lsp.core.errors import BadInput
from stark_lsp.core.plan import Plan
from stark_lsp.judge.analysis import inductor
from stark_lsp.playbook.agents import PlaybookAgents
from stark_lsp.playbook.design import read_design
from stark_lsp.playbook.inductor.own import own_switches

from .conftest import REFERENCE, Bench, close
from .playbook_cases import HEAD

PAGE = Path(__file__).parent.parent.parent / "docs" / "playbook" / "own.md"
FACTORED = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
"""The example of the page."""
MODULE = HEAD + (
    """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(96, 64))

    def forward(self, x, y):
        return torch.relu(x @ self.w + y @ self.w)


def get_inputs():
    return [torch.randn(128, 96), torch.randn(128, 96)]
"""
)


def with_strategies(
    bench: Callable[..., Bench], folder: Path, tell: Callable[[str], None] = lambda text: None, **files: str
) -> Bench:
    """Return a module whose playbook finds strategies in a folder of prompts, and asks Inductor itself."""
    (folder / "strategies").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "strategies" / f"{name}.py").write_text(text)
    one = bench(MODULE)

    async def ask(recipe: dict[str, Any]) -> Mapping[str, Any]:
        try:
            made = inductor.program(one.model, tuple(one.inputs), {}, str(one.path), json.loads(json.dumps(recipe)))
        except inductor.NotTraceable as error:
            return {"none": str(error)}
        return dict(json.loads(json.dumps(made)))

    one.agents = PlaybookAgents(one.analysis, one.problem, REFERENCE, [folder], ask, tell=tell)
    return one


def plans(one: Bench) -> list[Plan]:
    """Return the first two plans on the reference."""
    one.attempt()
    return [plan for node in (one.nodes[1], one.attempt()) if (plan := node.plan) is not None]


@pytest.mark.slow
@pytest.mark.ci
def test_the_example_of_the_page_is_a_plan_and_right(bench: Callable[..., Bench], tmp_path: Path) -> None:
    one = with_strategies(bench, tmp_path, factored=FACTORED)
    first, second = plans(one)
    assert first.title == "Run the kernels that torch.compile writes"
    assert second.title == "Add before the product"
    assert second.advice.startswith("Two products with one matrix")
    candidate = one.nodes[-1].candidate
    design = read_design(candidate.source)
    assert design is not None
    assert design.label("factored") == "on"
    assert candidate.source.count("torch.mm(") == 1
    with torch.no_grad():
        close(one.model(*one.inputs), one.build(candidate)(*one.inputs))


def test_one_that_fits_nowhere_is_not_offered(bench: Callable[..., Bench], tmp_path: Path) -> None:
    other = FACTORED.replace("x @ w + y @ w", "x @ w - y @ w").replace("(x + y) @ w", "(x - y) @ w")
    one = with_strategies(bench, tmp_path, other=other)
    assert "Add before the product" not in [plan.title for plan in plans(one)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (FACTORED.replace("return x @ w + y @ w", "return x @ missing"), "line "),
        (FACTORED.replace("torch.empty(8, 16)", "torch.nothing(8)", 1), "AttributeError"),
        (FACTORED.replace("(x + y) @ w", "(x + y) @ w.t()"), "The strategy factored fails"),
    ],
    ids=["pattern", "example", "shapes"],
)
def test_what_fails_is_said_and_stops_nothing(
    wrong: str, told: str, bench: Callable[..., Bench], tmp_path: Path
) -> None:
    notes: list[str] = []
    one = with_strategies(bench, tmp_path, notes.append, factored=wrong)
    assert one.plan().title == "Run the kernels that torch.compile writes"
    (said,) = notes
    assert "The strategy factored fails: " in said
    assert told in said


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        ("def pattern(:\n", "cannot be read", 1),
        ('"""Title."""\ndef pattern(x): ...\ndef example(): ...\n', "lacks a function replacement", 1),
        (FACTORED.partition('"""')[2].partition('"""')[2], "lacks a docstring", 1),
    ],
    ids=["syntax", "function", "title"],
)
def test_a_file_that_is_none_is_refused_with_its_place(text: str, told: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "strategies").mkdir()
    path = tmp_path / "strategies" / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInput, match=told) as caught:
        own_switches([tmp_path])
    assert (caught.value.path, caught.value.line) == (str(path), line)


def test_a_package_brings_one_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought.py").write_text("raise SystemExit('run')\n" + FACTORED)
    (tmp_path / "brought.py").write_text(FACTORED + "\nraise SystemExit('run')\n")
    info = tmp_path / "brought-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stark_lsp.strategies]\nbrought = brought\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [(one.name, one.title) for one in own_switches([])] == [("brought", "Add before the product")]


def test_the_order_of_folders_decides(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "strategies").mkdir(parents=True)
        (tmp_path / name / "strategies" / "mine.py").write_text(FACTORED.replace("Add before", f"{name}: add before"))
    found = own_switches([tmp_path / "one", tmp_path / "two"])
    assert [one.title for one in found] == ["one: add before the product"]
