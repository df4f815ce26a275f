"""The inline dialect built with lighter headers gives what torch's own build gives."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from building_cases import Builders

from stark_lsp.judge.building import tokens
from stark_lsp.judge.building.builder import read_resources
from stark_lsp.judge.building.quicker import genuine
from stark_lsp.judge.building.service import BuildService, Failure

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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildService]:
    """Return a service with all that is compiled ahead."""
    root = tmp_path_factory.mktemp("quicker")
    builders = Builders(root)
    made = BuildService(builders, str(root / "cache"), ["here"], jobs=2)
    made.warm(False)
    yield made
    builders.end()


@pytest.mark.slow
def test_the_facade_gives_what_torch_gives(service: BuildService) -> None:
    quick = service.build(request(SOURCE, "quick"), seconds=SECONDS)
    assert quick.error == ""
    assert quick.ways == ["facade"]
    stock = service.build(request(SOURCE, "stock", stock=True), seconds=SECONDS)
    assert stock.ways == ["stock"]
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
    assert slip.ways == ["facade"]


@pytest.mark.slow
def test_what_the_facade_lacks_is_built_as_torch_builds_it(service: BuildService) -> None:
    source = """
    torch::Tensor best(torch::Tensor x, int64_t k) { return std::get<0>(torch::topk(x, k)).cumsum(-1); }
    """
    built = service.build(request(source, "lacking", functions=[["best", "the best"]]), seconds=SECONDS)
    assert built.error == ""
    assert built.ways == ["stock"]
    x = torch.arange(6.0)
    assert load("lacking", built.library).best(x, 2).tolist() == [5.0, 9.0]


@pytest.mark.slow
def test_a_function_that_is_nowhere_defined_is_found_out_when_the_library_is_loaded(service: BuildService) -> None:
    built = service.build(
        request("torch::Tensor nowhere(torch::Tensor x);", "nowhere", functions=[["nowhere", ""]]), seconds=SECONDS
    )
    assert built.error == ""
    assert built.ways == ["facade"]
    with pytest.raises(ImportError, match="undefined symbol: _Z7nowhereN2at6TensorE"):
        load("nowhere", built.library)


def test_a_slip_is_told_from_what_the_headers_lack(tmp_path: Any) -> None:
    (tmp_path / "known.h").write_text("int cumsum(int);")

    def said(*texts: str) -> str:
        return "\n".join(f"/x/cuda.cu({line}): error: {text}" for line, text in enumerate(texts, 3))

    include = str(tmp_path)
    assert genuine(said('identifier "vvq" is undefined'), "cuda.cu", include)
    assert genuine(said('expected a ";"', "nonsense that follows"), "cuda.cu", include)
    assert genuine(said('namespace "torch" has no member "emptylike"'), "cuda.cu", include)
    assert genuine("main.cpp:3:4: error: 'vvq' was not declared in this scope", "main.cpp", include)
    assert not genuine(said('namespace "torch" has no member "cumsum"'), "cuda.cu", include)
    assert not genuine(said("no suitable conversion function exists"), "cuda.cu", include)
    assert not genuine('/usr/include/x.h(3): error: expected a ";"', "cuda.cu", include)
    assert not genuine("Killed", "cuda.cu", include)


def test_the_words_of_a_source_say_what_it_needs() -> None:
    assert tokens.facade_needs("// c10::Half\nfloat x;", True) == []
    assert "#define STARK_NEEDS_HALF" in tokens.facade_needs("at::Half x;", True)
    assert "#define STARK_NEEDS_ACCESSOR" in tokens.facade_needs("x.packed_accessor32<float, 2>()", True)
    assert tokens.standard_headers('std::cout << "map"; /* thread */') == ["iostream"]
    assert tokens.uses_torch("  #  include <torch/extension.h>\n")
    assert not tokens.uses_torch("#include <cuda_runtime.h>\n")
    assert tokens.may_be_quick("#include <torch/extension.h>\n")
    assert not tokens.may_be_quick("#include <torch/csrc/inductor/cpp_prefix.h>\n")


def test_the_figures_of_kernels_are_read() -> None:
    text = (
        "Resource usage:\n Common:\n  GLOBAL:0\n Function _Z1kPKfPfi:\n"
        "  REG:10 STACK:8 SHARED:256 LOCAL:16 CONSTANT[0]:544 TEXTURE:0 SURFACE:0 SAMPLER:0\n"
    )
    assert read_resources(text) == {
        "_Z1kPKfPfi": {"registers": 10, "stack_bytes": 8, "shared_bytes": 256, "local_bytes": 16}
    }
    assert read_resources("") == {}
