"""The edited file, tried in its place before it is offered: what breaks is found, honest files are not accused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from judge_cases import QUICK, RAW, REFERENCE, judging, make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus, WriteMode
from stark_lsp.core.verdict import EditCheck
from stark_lsp.evaluation.judge import WorkerJudge
from stark_lsp.proposals.edit import build_edit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

SETTINGS = QUICK
HELPERS = "from .scale import SHIFT\n"
TEXT = HELPERS + REFERENCE.replace("+ 1.0", "+ SHIFT")
NEW = """

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return {body}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[WorkerJudge, Path]]:
    """A judge of a class whose file lies in a package and imports its neighbour."""
    folder = tmp_path_factory.mktemp("edited")
    package = folder / "net"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "scale.py").write_text("SHIFT = 1.0\n")
    path = package / "model.py"
    path.write_text(TEXT)
    async with preparing(make_problem(path, TEXT), folder, settings=SETTINGS) as (judge, _):
        yield judge, path


async def test_a_right_class_in_its_package_works(judge: tuple[WorkerJudge, Path]) -> None:
    worker, path = judge
    text = TEXT + NEW.format(body="torch.relu(x * self.weight + SHIFT)")
    assert await worker.check_edit(str(path), text, "ModelNew") == EditCheck(True, True)


@pytest.mark.ci
async def test_a_kernel_is_built_there_too(judge: tuple[WorkerJudge, Path]) -> None:
    worker, path = judge
    assert await worker.check_edit(str(path), f"{TEXT}\n\n{RAW}", "ModelNew") == EditCheck(True, True)


@pytest.mark.parametrize(
    ("after", "body", "words"),
    [
        pytest.param("", "torch.relu(x * self.weight + os_missing.pi)", "os_missing", marks=pytest.mark.ci),
        pytest.param("SHIFT = 2.0\n", "torch.relu(x * self.weight + SHIFT)", "", marks=pytest.mark.ci),
        ("del nn\n", "nn.functional.relu(x * self.weight + SHIFT)", "nn"),
    ],
)
async def test_what_breaks_inside_the_file_is_found_with_its_line(
    judge: tuple[WorkerJudge, Path], after: str, body: str, words: str
) -> None:
    worker, path = judge
    text = TEXT + NEW.format(body=body) + after
    check = await worker.check_edit(str(path), text, "ModelNew")
    assert check.tried, check
    assert not check.works, check
    assert words in check.message
    if words == "os_missing":
        assert check.line == text.splitlines().index(f"        return {body}") + 1


@pytest.mark.ci
async def test_a_file_that_does_not_parse_is_found(judge: tuple[WorkerJudge, Path]) -> None:
    worker, path = judge
    check = await worker.check_edit(str(path), TEXT + "\nclass ModelNew(nn.Module)\n", "ModelNew")
    assert not check.works
    assert check.line == len(TEXT.splitlines()) + 2


async def test_a_file_that_lacks_the_class_is_found(judge: tuple[WorkerJudge, Path]) -> None:
    worker, path = judge
    assert "no torch.nn.Module called ModelNew" in (await worker.check_edit(str(path), TEXT, "ModelNew")).message


async def test_a_file_that_cannot_be_loaded_in_a_sandbox_is_not_accused(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    (tmp_path / ".scale.txt").write_text("1.0")
    text = "from pathlib import Path\nDATA = float((Path(__file__).parent / '.scale.txt').read_text())\n" + REFERENCE
    path.write_text(text)
    async with judging(make_problem(path, text), tmp_path, settings=SETTINGS) as (worker, _):
        reference = await worker.prepare(lambda words: None)
        check = await worker.check_edit(
            str(path), text + NEW.format(body="torch.relu(x * self.weight + 1.0)"), "ModelNew"
        )
    assert check.works
    if reference.environment.isolation != "off":
        assert not check.tried
        assert ".scale.txt" in check.message


async def test_a_package_whose_registry_bears_no_name_twice_is_judged(tmp_path: Path) -> None:
    package = tmp_path / "zoo"
    package.mkdir()
    (package / "__init__.py").write_text("from .model import Model\n")
    (package / "registry.py").write_text(
        "KNOWN = {}\ndef register(name):\n    def keep(cls):\n        assert name not in KNOWN, name\n"
        "        return KNOWN.setdefault(name, cls)\n    return keep\n"
    )
    text = "from .registry import register\n" + REFERENCE.replace("class Model", '@register("net")\nclass Model')
    path = package / "model.py"
    path.write_text(text)
    problem = make_problem(path, text)
    source = text.replace("class Model(", "class ModelNew(")
    async with preparing(problem, tmp_path, settings=SETTINGS) as (worker, _):
        verdict = await worker.evaluate(Candidate(source))
        assert verdict.status is VerdictStatus.OK, verdict.message
        for mode in WriteMode:
            edit = build_edit(problem, text, Candidate(source), "# Optimized", mode)
            place, whole = (edit.new_file.path, edit.new_file.text) if edit.new_file else (str(path), edit.preview)
            check = await worker.check_edit(place, whole, edit.qualname)
            assert check == EditCheck(True, True), check.message
