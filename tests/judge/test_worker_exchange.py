"""Tensors that are larger than the shared memory are poured through it, and a child cannot pour what it likes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.judge.transport import exchange, tensorfile
from stark_lsp.judge.transport.exchange import Exchange, Overflow

SIZE = 4096


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> tuple[Exchange, Exchange]:
    """Return the judge's and the child's side of memory on the host."""
    monkeypatch.setattr(exchange, "LEAST", 512)
    judge, child = Exchange.__new__(Exchange), Exchange.__new__(Exchange)
    memory = torch.zeros(SIZE, dtype=torch.uint8)
    for side in (judge, child):
        side._share(memory)
    judge.most = 1 << 20
    child.tell = lambda piece: judge.pour(**piece)
    return judge, child


def test_small_and_large_tensors_arrive_whatever_the_order(sides: Any, tmp_path: Path) -> None:
    judge, child = sides
    path = str(tmp_path / "f")
    for _ in range(2):
        judge.forget()
        child.reset()
        tree = {"small": torch.arange(64), "large": torch.randn(5000), "more": torch.randn(40, 60).t(), "last": [1.5]}
        tensorfile.save(path, tree, child)
        # None of it lies in the file.
        assert Path(path).stat().st_size < 3000
        found = tensorfile.load(path, 1 << 20, "cpu", judge).tree("cpu")
        assert all(torch.equal(found[name], tree[name]) for name in ("small", "large", "more"))
        assert found["more"].stride() == tree["more"].stride()
        # Nothing is held beyond the reading.
        assert not judge._poured


@pytest.mark.parametrize("refused", ["here", "there"])
def test_without_a_judge_who_takes_them_large_ones_go_by_the_file(sides: Any, tmp_path: Path, refused: str) -> None:
    judge, child = sides
    if refused == "here":
        child.tell = None
    judge.most = 1000
    tensorfile.save(str(tmp_path / "f"), torch.arange(5000), child)
    assert torch.equal(tensorfile.load(str(tmp_path / "f"), None, "cpu", judge).tree("cpu"), torch.arange(5000))


@pytest.mark.parametrize(
    ("place", "nbytes", "left"),
    [
        (0, 600, "600"), (True, 600, 600), (0, 600, -1), (-1, 600, 600), (SIZE - 1, 600, 600),
        (0, 1, 600), (0, 700, 600), (0, SIZE + 1, 2 * SIZE), (0, 0, 600), (None, None, None),
    ],
)  # fmt: skip
def test_a_piece_that_is_none_is_refused(sides: Any, place: Any, nbytes: Any, left: Any) -> None:
    judge, _ = sides
    with pytest.raises(Overflow):
        judge.pour(place, nbytes, left)


def test_no_more_is_taken_than_was_asked_for(sides: Any) -> None:
    judge, _ = sides
    judge.most = 2000
    assert judge.pour(0, 1000, 1000)
    assert not judge.pour(0, 1000, 1000)
    judge.forget()
    assert judge.pour(0, 600, 1000)
    # Neither another tensor in between, nor more of it than was said.
    for left in (1000, 401):
        with pytest.raises(Overflow):
            judge.pour(0, 400, left)
    assert judge.pour(0, 400, 400)


def test_a_file_that_names_what_was_not_poured_is_refused(sides: Any, tmp_path: Path) -> None:
    judge, child = sides
    path = str(tmp_path / "f")
    tensorfile.save(path, torch.arange(5000), child)
    judge.forget()
    with pytest.raises(tensorfile.Damaged):
        tensorfile.load(path, None, "cpu", judge)
