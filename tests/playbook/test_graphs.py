"""When a program is captured as a CUDA graph anew, and when it is not; on a GPU: `test_inductor_on_cuda.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from stark_lsp.playbook.handwritten import written

from .conftest import Bench, load
from .test_inductor_gpu import GRAPH, proposal


class Calls:
    """A replayed candidate where there is no GPU: whatever captures is a stand-in, what decides is the candidate's."""

    def __init__(self, patch: pytest.MonkeyPatch, bench: Callable[..., Bench], folder: Path) -> None:
        one, made = proposal("linear", bench, GRAPH)
        (folder / "new.py").write_text(made.candidate.source)
        self.model = load(folder / "new.py", "new").ModelNew()
        self.tensors = [one.inputs[0], *(x.detach() for x in self.model.parameters())]
        self.captured, self.plain = 0, 0
        for name in ("Stream", "Event", "CUDAGraph", "graph", "stream", "current_stream"):
            patch.setattr(torch.cuda, name, mock.MagicMock())
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        patch.setattr(type(self.model), "_compiled", staticmethod(self._run))

    def _run(self, *tensors: Any) -> tuple[torch.Tensor, ...]:
        self.plain += 1
        return (tensors[0] * 2.0,)

    def __call__(self, times: int = 1, *, moved: bool = False) -> tuple[int, int]:
        """Call it; returns how often it was captured, and how often launched plainly."""
        self.captured, self.plain = 0, 0
        for _ in range(times):
            if moved:
                held = self.tensors[1:]  # so that none is put where another was
                self.tensors[1:] = [x.clone() for x in held]
            before = torch.cuda.CUDAGraph.call_count  # type: ignore[attr-defined]
            (found,) = self.model._replayed(*self.tensors)
            torch.testing.assert_close(found, self.tensors[0] * 2.0)
            new = torch.cuda.CUDAGraph.call_count - before  # type: ignore[attr-defined]
            self.captured += new
            self.plain -= 2 * new  # once to warm up, once to be recorded
        return self.captured, self.plain


def test_what_is_kept_for_backward_is_there_until_the_next_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("Stream", "Event", "CUDAGraph", "graph", "stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
    # Not where it stands, which no cache of Python's belongs beside.
    path = tmp_path / "graph.py"
    path.write_text(f"import _thread\nimport weakref\n\nimport torch\n\n\n{written('graph')}")
    graph_of = load(path, "stark_graph")._StarkGraph
    x, weight = torch.randn(3), torch.randn(3)
    graph = graph_of(lambda x, w: (x * w, x + w), [x, weight], 1, None, count=1, saved=(1,))
    (out,), turn = graph([x, weight])
    torch.testing.assert_close(out, x * weight)

    def back(kept: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return kept * gradient, None

    (found, nothing) = graph.back(back, turn, [torch.full((3,), 2.0)])
    torch.testing.assert_close(found, 2 * (x + weight))
    assert nothing is None
    graph([x, weight])
    assert graph.back(back, turn, [torch.ones(3)]) is None
    assert graph.back(back, turn + 1, [torch.full((3,), 2.0)]) is not None


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, bench: Callable[..., Bench], tmp_path: Path) -> Calls:
    pytest.importorskip("triton")
    return Calls(monkeypatch, bench, tmp_path)


def test_it_is_captured_once_and_where_a_weight_has_moved(calls: Calls) -> None:
    assert calls(200) == (1, 0)
    assert calls(1, moved=True) == (1, 0)
    assert calls(200) == (0, 0)
    calls.tensors[0] = calls.tensors[0].clone()
    assert calls(1) == (0, 0), "inputs may lie anywhere"


def test_weights_that_move_all_the_time_are_captured_ever_more_rarely(calls: Calls) -> None:
    captured, plain = calls(1000, moved=True)
    assert 5 <= captured <= 12
    assert captured + plain == 1000
    assert calls(2000)[0] == 1, "they rest again"
    assert calls(150) == (0, 0)
    assert calls(1, moved=True) == (1, 0), "what served many calls is captured anew at once"


def test_a_replica_for_one_call_is_not_captured(calls: Calls) -> None:
    calls.model._is_replica = True
    assert calls(3) == (0, 3)
