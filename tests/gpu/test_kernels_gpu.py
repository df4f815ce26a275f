"""Generated CUDA kernels against the meaning of their specs, on a real GPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "playbook_kernels"))

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_specs import pointwise_specs, reduction_specs
from test_kernels_on_cpu import check_pointwise, inputs_for, one_step, softmax
from torch_reference import Called, build, check

from stark_lsp.playbook.kernels import Variant, supports, variants
from stark_lsp.playbook.spec import KernelSpec, Operand, Output, Step

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

BATCH = settings(
    max_examples=1,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


def on_gpu(spec: KernelSpec, seed: int) -> list[torch.Tensor]:
    return [t.cuda() for t in inputs_for(spec, seed)]


@BATCH
@given(st.data())
def test_random_kernels_compute_what_their_spec_says(data: st.DataObject) -> None:
    kernels = []
    for number in range(60):
        make = pointwise_specs if number % 2 else reduction_specs
        spec = data.draw(make(f"kernel{number}"))
        if supports(spec, "cuda") is None:
            kernels.append((spec, data.draw(st.sampled_from(variants(spec, "cuda")))))
    module = build(kernels, "cuda")
    for number, (spec, _) in enumerate(kernels):
        inputs = on_gpu(spec, number)
        result = getattr(module, spec.name)(*inputs)
        if spec.reduce_dims:
            wide = any(o.dtype in ("float16", "bfloat16") for o in spec.operands)
            check(spec, result, inputs, 5e-2 if wide else 2e-3)
        else:
            loose = 2e-2 if any(s.op in ("tan", "rsqrt", "reciprocal", "div", "pow") for s in spec.steps) else None
            check_pointwise(spec, result, inputs, loose)


@pytest.fixture(scope="module")
def softmaxes() -> tuple[ModuleType, list[tuple[int, KernelSpec]]]:
    kernels = []
    for dim in (0, 1, 2):
        for size, shape in enumerate(((3, 4, 50), (64, 300, 2048), (2, 2, 300000), (2, 9000, 20), (5000, 2, 8))):
            spec = softmax(f"softmax_{dim}_{size}", shape, dim)
            picked = variants(spec, "cuda")
            kernels += [
                (dim, replace(spec, name=f"{spec.name}_{k}"), v)
                for k, v in enumerate(picked[:: max(1, len(picked) // 3)])
            ]
    module = build([(spec, variant) for _, spec, variant in kernels], "cuda")
    return module, [(dim, spec) for dim, spec, _ in kernels]


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 4, 50), (2, 65, 63), (7, 1, 129), (1, 70000, 3), (2, 3, 40001), (130, 2, 4096)]
)
def test_all_variants_of_a_softmax_agree_for_any_size(shape: tuple[int, ...], softmaxes: tuple) -> None:
    module, kernels = softmaxes
    torch.manual_seed(3)
    x = torch.randn(shape, device="cuda")
    x.view(-1)[0] = float("-inf") if x.numel() > 1 else 1.0
    for dim, spec in kernels:
        want = torch.softmax(x.double(), dim).float()
        torch.testing.assert_close(
            getattr(module, spec.name)(x), want, rtol=3e-5, atol=1e-7, equal_nan=True, msg=spec.name
        )


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability()[0] not in (9, 10), reason="clusters"
)
def test_rows_that_blocks_hold_together_are_right_at_any_length() -> None:
    spec = softmax("softmax", (4096, 65535), 1)
    sums = replace(spec, name="sums", outputs=(Output("s", "float32", reduced=True),))
    kernels = [
        (replace(one, name=f"{one.name}_{variant.cluster}"), variant)
        for one in (spec, sums)
        for variant in variants(spec, "cuda", clusters=True)
        if variant.cluster > 1
    ]
    assert [variant.cluster for _, variant in kernels] == [2, 4, 8] * 2
    module = build(kernels, "cuda")
    for shape in ((1, 1), (3, 7), (300, 65535), (1000, 40004), (5, 1_300_001)):
        inputs = [torch.randn(shape, device="cuda")]
        for one, _ in kernels:
            found = getattr(module, one.name)(*inputs)
            check(one, found, inputs, 3e-5)
            assert torch.equal(found, getattr(module, one.name)(*inputs))


def test_two_runs_agree_to_the_last_bit(softmaxes: tuple) -> None:
    module, kernels = softmaxes
    x = torch.randn(2, 3, 40000, device="cuda")
    for _, spec in kernels:
        assert torch.equal(getattr(module, spec.name)(x), getattr(module, spec.name)(x))


def test_launches_go_to_the_current_stream_and_into_a_graph() -> None:
    spec = one_step("exp")
    module = build([(spec, variants(spec, "cuda")[0])], "cuda")
    call = getattr(module, spec.name)
    x = torch.zeros(1024, 1024, device="cuda")
    call(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(1.0)
        y = call(x)
    side.synchronize()
    assert torch.allclose(y, torch.full_like(y, 2.7182817))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = call(x)
    x.fill_(2.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(z, torch.exp(x))


def test_a_failed_launch_is_raised_with_its_text() -> None:
    spec = one_step("tanh")
    module = build([(spec, variants(spec, "cuda")[0])], "cuda")
    x = torch.zeros(64, 1000, device="cuda")
    getattr(module, spec.name)(x)
    (kernels,) = vars(module)["_stark_libraries"].values()
    kernels[f"_stark_{spec.name}"] = lambda *arguments: 9
    with pytest.raises(
        RuntimeError, match=r"The kernel do_tanh_float32 could not be launched: invalid configuration argument\."
    ):
        getattr(module, spec.name)(x)


def test_unaligned_and_odd_sizes_are_computed_correctly() -> None:
    spec = KernelSpec(
        "shifted",
        (64,),
        (Operand("x", "float32", (64,)),),
        (Step("y", "exp", ("x",), "float32"),),
        (Output("y", "float32"),),
    )
    names = [(replace(spec, name=f"shifted{k}"), v) for k, v in enumerate(variants(spec, "cuda"))]
    module = build(names, "cuda")
    for start in (0, 1, 2, 3):
        for size in (1, 5, 1023, 40003):
            x = torch.randn(size + start, device="cuda")[start:]
            for named, _ in names:
                torch.testing.assert_close(getattr(module, named.name)(x), torch.exp(x))


def test_more_than_two_to_the_31_elements_are_all_computed() -> None:
    if torch.cuda.mem_get_info()[0] < 8 << 30:
        pytest.skip("needs 8 GiB of free GPU memory")
    count = 2**31 + 24
    flat = KernelSpec(
        "flat", (64,), (Operand("x", "uint8", (64,)),), (Step("y", "add", ("x", 1), "uint8"),), (Output("y", "uint8"),)
    )
    rows = KernelSpec(
        "rows", (4, 8), (Operand("x", "uint8", (4, 8)), Operand("b", "uint8", (8,))),
        (Step("y", "add", ("x", "b"), "uint8"),), (Output("y", "uint8"),),
    )  # fmt: skip
    module = build([(flat, variants(flat, "cuda")[0]), (rows, variants(rows, "cuda")[0])], "cuda")
    x = torch.zeros(count, dtype=torch.uint8, device="cuda")
    y = module.flat(x)
    assert int(y.min()) == int(y.max()) == 1
    b = torch.full((8,), 3, dtype=torch.uint8, device="cuda")
    y = module.rows(x.view(-1, 8), b)
    assert int(y.min()) == int(y.max()) == 3


def test_a_cpu_tensor_goes_to_the_fallback() -> None:
    spec = one_step("exp")
    module = build([(spec, Variant(threads=256))], "cuda")
    with pytest.raises(Called):
        getattr(module, spec.name)(torch.zeros(8, 8))
