"""The inline dialect built with lighter headers gives what torch's own build gives."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from stark_lsp.worker.building.service import BuildService, Failure

SECONDS = 280.0

SOURCE = """
#include <torch/extension.h>
#include <vector>
#include <cmath>

template <typename T>
static void scale_kernel(const T* x, T* y, int64_t n, double by) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(x[i] * by);
}

torch::Tensor scale(torch::Tensor x, double by) {
  TORCH_CHECK(!x.is_cuda(), "x must be on the CPU, not on ", x.device());
  TORCH_CHECK(x.dim() >= 1, "x has shape ", x.sizes());
  auto xc = x.contiguous();
  auto y = torch::empty_like(xc);
  AT_DISPATCH_FLOATING_TYPES(xc.scalar_type(), "scale", [&] {
    scale_kernel<scalar_t>(xc.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), xc.numel(), by);
  });
  return y;
}

std::vector<torch::Tensor> rows(torch::Tensor x) {
  std::vector<torch::Tensor> found;
  for (int64_t i = 0; i < x.size(0); ++i) found.push_back(x[i].clone());
  return found;
}

torch::Tensor table(int64_t rows, int64_t columns, torch::Tensor like) {
  auto out = torch::zeros({rows, columns}, like.options().dtype(torch::kFloat64));
  auto more = torch::full({rows, columns}, 2.5, torch::TensorOptions().dtype(torch::kFloat64));
  float* unused = nullptr;
  (void)unused;
  return (out + more).transpose(0, 1).reshape({-1}).view({columns, rows}) * 2;
}

int64_t facts(torch::Tensor x) { return x.numel() * 1000 + x.stride(0) * 10 + x.is_contiguous(); }
"""
FUNCTIONS = [[name, name] for name in ("scale", "rows", "table", "facts")]


def request(text: str, name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "inline", "name": name, "cpp_sources": [text], "functions": FUNCTIONS, **more}


def load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_facade_gives_what_torch_gives(service: BuildService) -> None:
    assert service.warm(False) == []
    quick = service.build(request(SOURCE, "quick"), seconds=SECONDS)
    assert quick.error == ""
    assert [step["how"] for step in quick.steps] == ["facade-pch", "facade"]
    stock = service.build(request(SOURCE, "stock", stock=True), seconds=SECONDS)
    assert {step["how"] for step in stock.steps} == {"stock"}
    one, other = load("quick", quick.library), load("stock", stock.library)
    x = torch.randn(3, 5, dtype=torch.float64)
    assert torch.equal(one.scale(x, 3.0), other.scale(x, 3.0))
    assert torch.equal(one.scale(x.t(), 3.0), x.t() * 3.0)
    assert all(torch.equal(a, b) for a, b in zip(one.rows(x), other.rows(x), strict=True))
    assert torch.equal(one.table(2, 3, x), other.table(2, 3, x))
    assert one.facts(x.t()) == other.facts(x.t()) == 15010
    for wrong in (torch.ones(3, dtype=torch.int32), torch.tensor(1.0)):
        with pytest.raises((RuntimeError, NotImplementedError)) as mine:
            one.scale(wrong, 1.0)
        with pytest.raises(mine.type) as theirs:
            other.scale(wrong, 1.0)
        assert str(mine.value).split("\n")[0] == str(theirs.value).split("\n")[0]
    with pytest.raises(TypeError):
        one.scale("text", 1.0)
    # References are counted as torch counts them: nothing is freed twice or kept.
    for _ in range(100):
        one.rows(x)
        one.table(2, 3, x)
    slip = service.build(request(SOURCE.replace("found.push_back", "fuond.push_back"), "slip"), seconds=SECONDS)
    assert slip.failure is Failure.COMPILER
    assert "fuond" in slip.compiler[0]["text"]
    assert [step["how"] for step in slip.steps] == ["facade-pch"]
