"""What is changed in a graph for a GPU before Inductor compiles it, seen without one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import AlgorithmSelectorCache
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from stark_lsp.judge.analysis import inductor_gpu
from stark_lsp.judge.analysis.inductor_step import Step, key


def test_what_kernels_read_is_made_on_the_gpu_and_results_stay_where_they_are() -> None:
    def forward(x: torch.Tensor, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        at = (torch.arange(14)[:, None] * 1.0 - torch.arange(14)[None, :] * 1.0 + 13.0).long()
        return x @ torch.ops.aten.index.Tensor(table, [at]).sum(1).t(), torch.arange(3) + 1

    with FakeTensorMode() as mode:
        graph = make_fx(forward)(torch.empty(8, 16, device="cuda"), torch.empty(27, 16, device="cuda")).graph
    with V.set_fake_mode(mode):
        inductor_gpu.made_there(graph)
    places = [node.meta["val"].device.type for node in graph.nodes if node.op == "call_function"]
    assert places[-2:] == ["cpu", "cpu"]
    assert set(places[:-2]) == {"cuda"}


def test_what_flows_into_results_is_known_where_autograd_has_laid_it_out_anew() -> None:
    weight = torch.nn.Parameter(torch.randn(4))
    x = torch.randn(6, 4)
    step = Step([("x", x), ("self.weight", weight)])
    outputs = [(x * weight).t(), x + weight]
    gradients = step.back(outputs)
    flows = [torch.full((4, 6), 1.0), torch.full((6, 4), 1.125)]
    results = [gradients["x"], gradients["self.weight"]]
    told = step.found("", flows, results, outputs, gradients, {})
    assert [one["expression"] for one in told["arguments"]] == ["gradient[0]", "gradient[1]"]
    assert told["arguments"][0]["stride"] == [6, 1], "the candidate lays it out so as well"


def test_a_tensor_is_told_by_where_it_lies_and_not_by_strides_that_are_never_taken() -> None:
    x = torch.randn(1, 64, 30)
    assert key(x.as_strided(x.shape, (30, 30, 1))) == key(x)
    assert key(x.as_strided((1, 30, 64), (1920, 1, 30))) != key(x.as_strided((1, 30, 64), (1920, 64, 1)))


def test_templates_are_compiled_by_threads_and_other_kernels_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(AsyncCompile, "use_process_pool", lambda *_: True)
    monkeypatch.setattr(
        AlgorithmSelectorCache, "make_precompile_fn", lambda *_: asked.append(AsyncCompile.use_process_pool())
    )
    with inductor_gpu.by({}):
        AlgorithmSelectorCache.make_precompile_fn(None, [])
        asked.append(AsyncCompile.use_process_pool())
    AlgorithmSelectorCache.make_precompile_fn(None, [])
    assert asked == [False, True, True]
