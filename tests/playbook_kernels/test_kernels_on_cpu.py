"""Generated CPU kernels against the meaning of their specs."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_specs import pointwise_specs, reduction_specs
from torch_reference import Called, build, check, dtype_of

from stark_lsp.playbook.kernels import Variant, supports, variants
from stark_lsp.playbook.spec import KernelSpec, Operand, Output, Step

pytestmark = pytest.mark.usefixtures("several_threads")


def inputs_for(spec: KernelSpec, seed: int, scale: float = 1.0) -> list[torch.Tensor]:
    """Random tensors for a spec's operands; strided ones are halves of a chunk."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for operand in spec.operands:
        dtype = dtype_of(operand.dtype)
        shape = [*operand.shape[:-1], operand.shape[-1] * 2] if operand.strided else list(operand.shape)
        if dtype.is_floating_point:
            tensor = (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)
        else:
            tensor = torch.randint(0, 2 if dtype is torch.bool else 5, shape, generator=generator).to(dtype)
        found.append(tensor[..., : operand.shape[-1]] if operand.strided else tensor)
    return found


BATCH = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@BATCH
@given(st.data())
def test_random_pointwise_kernels_compute_what_their_spec_says(data: st.DataObject) -> None:
    kernels = []
    for number in range(24):
        spec = data.draw(pointwise_specs(f"kernel{number}"))
        if supports(spec, "cpu") is None:
            kernels.append((spec, data.draw(st.sampled_from(variants(spec, "cpu")))))
    assert len(kernels) > 8
    module = build(kernels)
    for number, (spec, _) in enumerate(kernels):
        inputs = inputs_for(spec, number)
        loose = 2e-2 if any(s.op in ("tan", "rsqrt", "reciprocal", "div", "pow") for s in spec.steps) else None
        check_pointwise(spec, getattr(module, spec.name)(*inputs), inputs, loose)


def check_pointwise(spec: KernelSpec, result: object, inputs: list[torch.Tensor], tolerance: float | None) -> None:
    """Compare, but not where a tiny rounding error flips a comparison or a rounding operation."""
    jumpy = {
        "floor",
        "ceil",
        "round",
        "trunc",
        "floor_div",
        "remainder",
        "sign",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "cast",
    }
    if not jumpy & {s.op for s in spec.steps if s.name != "flag"}:
        check(spec, result, inputs, tolerance)
        return
    from torch_reference import run

    (want,) = run(spec, inputs)
    got = result.double()  # type: ignore[attr-defined]
    close = torch.isclose(got, want.double(), rtol=2e-2, atol=2e-2, equal_nan=True)
    assert close.double().mean() >= 0.8, (spec, got, want)


@settings(BATCH, max_examples=1)
@given(st.data())
def test_random_reductions_compute_what_their_spec_says(data: st.DataObject) -> None:
    kernels = []
    for number in range(20):
        spec = data.draw(reduction_specs(f"kernel{number}"))
        if supports(spec, "cpu") is None:
            kernels.append((spec, data.draw(st.sampled_from(variants(spec, "cpu")))))
    assert len(kernels) > 8
    module = build(kernels)
    for number, (spec, _) in enumerate(kernels):
        inputs = inputs_for(spec, number)
        wide = any(o.dtype in ("float16", "bfloat16") for o in spec.operands)
        check(spec, getattr(module, spec.name)(*inputs), inputs, 5e-2 if wide else 2e-3)


def softmax(name: str = "softmax", shape: tuple[int, ...] = (6, 130), dim: int = 1) -> KernelSpec:
    steps = (
        Step("top", "amax", ("x",), "float32"),
        Step("d", "sub", ("x", "top"), "float32"),
        Step("e", "exp", ("d",), "float32"),
        Step("s", "sum", ("e",), "float32"),
        Step("y", "div", ("e", "s"), "float32"),
    )
    return KernelSpec(name, shape, (Operand("x", "float32", shape),), steps, (Output("y", "float32"),), (dim,))


def one_step(op: str, count: int = 1, dtype: str = "float32") -> KernelSpec:
    names = tuple("abc"[:count])
    result = "bool" if op in ("isnan", "isinf", "logical_not") else dtype
    operands = tuple(Operand(n, dtype, (8, 8)) for n in names)
    return KernelSpec(f"do_{op}_{dtype}", (8, 8), operands, (Step("y", op, names, result),), (Output("y", result),))


UNARY = [
    "neg",
    "abs",
    "reciprocal",
    "sqrt",
    "rsqrt",
    "square",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "tan",
    "tanh",
    "atan",
    "sinh",
    "cosh",
    "erf",
    "sigmoid",
    "softplus",
    "log_sigmoid",
    "isnan",
    "isinf",
    "identity",
]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "floor_div", "remainder", "pow"]


@pytest.fixture(scope="module")
def single_operations() -> object:
    specs = [one_step(op, 1, d) for op in UNARY for d in ("float32", "float64")]
    specs += [one_step(op, 2, d) for op in BINARY for d in ("float32", "float64")]
    specs += [one_step(op, 2, "int64") for op in ("add", "sub", "mul", "maximum", "minimum", "floor_div", "remainder")]
    return build([(spec, Variant()) for spec in specs])


HARD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -2.5,
    1e-8,
    -1e-8,
    1e-40,
    1e-30,
    3.0,
    88.0,
    89.5,
    -87.0,
    -104.0,
    1e10,
    -1e10,
    3e38,
]
HARD += [
    float("inf"),
    float("-inf"),
    float("nan"),
    0.7,
    0.99999994,
    1.0000001,
    9.0,
    -9.0,
    20.0,
    -20.0,
    0.96875,
    4.1,
    126.5,
]


@pytest.mark.parametrize("op", UNARY)
def test_every_function_is_right_on_hard_values_and_close_elsewhere(op: str, single_operations: object) -> None:
    torch.manual_seed(0)
    random = torch.cat([torch.randn(40000) * s for s in (0.01, 1.0, 10.0)])
    values = torch.cat([torch.tensor(HARD), random])
    values = torch.cat([values, values[: -len(values) % 8]]).reshape(-1, 8)
    for dtype in ("float32", "float64"):
        spec = one_step(op, 1, dtype)
        x = values.to(dtype_of(dtype))
        if op in ("sin", "cos", "tan"):
            x = x.clamp(-1e6, 1e6)
        if op == "rsqrt" or op == "reciprocal":
            x = torch.where(x.abs() < 1e-35, torch.ones_like(x), x)
        got = getattr(single_operations, spec.name)(x)
        want = _exact_unary(op, x)
        if got.dtype is torch.bool:
            assert torch.equal(got, want.bool())
            continue
        want = want.to(got.dtype)
        tolerance = 6e-7 if dtype == "float32" else 1e-13
        tolerance = 4e-6 if op in ("tan", "sinh", "cosh") and dtype == "float32" else tolerance
        torch.testing.assert_close(
            got, want, rtol=tolerance, atol=2e-38 if op in ("exp", "exp2", "sigmoid") else 1e-9, equal_nan=True
        )


def _exact_unary(op: str, x: torch.Tensor) -> torch.Tensor:
    from torch_reference import run

    spec = one_step(op, 1, str(x.dtype).split(".")[1])
    return run(spec, [x])[0]


@pytest.mark.parametrize("op", BINARY)
def test_every_binary_operation_agrees_with_torch(op: str, single_operations: object) -> None:
    torch.manual_seed(1)
    a, b = torch.randn(64, 8) * 3, torch.randn(64, 8)
    a[0, :4] = torch.tensor([float("nan"), float("inf"), 1.0, -7.0])
    b[0, :4] = torch.tensor([1.0, 2.0, float("nan"), 2.0])
    for dtype in ("float32", "float64"):
        x, y = a.to(dtype_of(dtype)), b.to(dtype_of(dtype))
        function = (lambda p, q: torch.div(p, q, rounding_mode="floor")) if op == "floor_div" else getattr(torch, op)
        got = getattr(single_operations, f"do_{op}_{dtype}")(x, y)
        torch.testing.assert_close(got, function(x, y), rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "maximum", "minimum", "floor_div", "remainder"])
def test_integers_round_down_as_in_python(op: str, single_operations: object) -> None:
    a = torch.randint(-(2**40), 2**40, (16, 8))
    b = torch.randint(-9, 9, (16, 8))
    b[b == 0] = 4
    function = (lambda p, q: torch.div(p, q, rounding_mode="floor")) if op == "floor_div" else getattr(torch, op)
    assert torch.equal(getattr(single_operations, f"do_{op}_int64")(a, b), function(a, b))


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_types_are_read_and_written_exactly(half: str) -> None:
    spec = KernelSpec(
        "through", (8,), (Operand("x", half, (8,)),), (Step("y", "cast", ("x",), "float32"),),
        (Output("y", "float32"), Output("x", half)),
    )  # fmt: skip
    back = KernelSpec(
        "back", (8,), (Operand("x", "float32", (8,)),), (Step("y", "identity", ("x",), "float32"),),
        (Output("y", half),),
    )  # fmt: skip
    module = build([(spec, Variant()), (back, Variant())])
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype_of(half))
    wide, same = module.through(every)
    assert torch.equal(wide.nan_to_num(7), every.float().nan_to_num(7))
    assert torch.equal(same.float().nan_to_num(7), every.float().nan_to_num(7))
    torch.manual_seed(2)
    numbers = torch.cat([torch.randn(100000) * 10.0**e for e in range(-9, 6)] + [torch.tensor(HARD)])
    numbers = torch.cat([numbers, every.float(), every.float() * 1.00048828125])
    want = numbers.to(dtype_of(half))
    got = module.back(numbers)
    assert torch.equal(got.float().nan_to_num(7), want.float().nan_to_num(7))


def every_variant(spec: KernelSpec) -> list[tuple[KernelSpec, Variant]]:
    from dataclasses import replace

    return [(replace(spec, name=f"{spec.name}_{k}"), v) for k, v in enumerate(variants(spec, "cpu"))]


@pytest.mark.parametrize(
    "dim", [pytest.param(0, marks=[pytest.mark.slow, pytest.mark.ci]), pytest.param(1, marks=pytest.mark.slow), 2]
)
def test_all_variants_of_a_softmax_agree_for_any_size(dim: int) -> None:
    specs = every_variant(softmax("softmax", (3, 4, 5), dim))
    specs += every_variant(softmax("large", (2, 2, 70000) if dim == 2 else (4, 300, 300), dim))
    module = build(specs)
    torch.manual_seed(3)
    for shape in [(1, 1, 1), (3, 4, 5), (2, 65, 63), (7, 1, 129), (1, 700, 300), (2, 3, 40000)]:
        x = torch.randn(shape)
        for spec, _ in specs:
            torch.testing.assert_close(getattr(module, spec.name)(x), torch.softmax(x, dim), rtol=2e-5, atol=1e-7)


def test_nan_and_infinities_pass_through_a_reduction() -> None:
    module = build([(softmax(), Variant(vector=16))])
    x = torch.randn(5, 50)
    x[0, 3] = float("nan")
    x[1, 7] = float("-inf")
    x[2] = float("-inf")
    torch.testing.assert_close(module.softmax(x), torch.softmax(x, 1), equal_nan=True)


def test_what_lies_outside_the_envelope_goes_to_the_fallback() -> None:
    module = build([(softmax(), Variant(vector=16))])
    x = torch.randn(4, 8)
    outside = [
        x.double(),
        x[0],
        torch.empty(0, 8),
        torch.empty(4, 0),
        x.t(),
        x[:, ::2],
        torch.empty(4, 8, device="meta"),
    ]
    for tensor in outside:
        with pytest.raises(Called):
            module.softmax(tensor)


def test_with_gradients_the_kernel_runs_and_the_fallback_is_differentiated() -> None:
    module = build([(softmax(), Variant(vector=16))])
    x = torch.randn(4, 8, requires_grad=True)
    y = module.softmax(x)
    torch.testing.assert_close(y, torch.softmax(x, 1))
    with pytest.raises(Called):
        y.sum().backward()
    with torch.autocast("cpu"), pytest.raises(Called):
        module.softmax(x)
    with torch.no_grad():
        assert not module.softmax(x).requires_grad


def test_a_broadcast_pattern_other_than_the_examples_goes_to_the_fallback() -> None:
    spec = KernelSpec(
        "biased", (2, 3, 4), (Operand("x", "float32", (2, 3, 4)), Operand("bias", "float32", (4,))),
        (Step("y", "add", ("x", "bias"), "float32"),), (Output("y", "float32"),),
    )  # fmt: skip
    module = build([(spec, Variant())])
    x = torch.randn(5, 6, 7)
    assert torch.equal(module.biased(x, torch.ones(7)), x + 1)
    for bias in (torch.ones(1), torch.ones(6, 7), torch.tensor(1.0)):
        with pytest.raises(Called):
            module.biased(x, bias)


def test_the_order_of_dims_in_memory_is_kept() -> None:
    spec = KernelSpec(
        "doubled", (2, 3, 4, 5), (Operand("x", "float32", (2, 3, 4, 5)), Operand("z", "float32", (2, 3, 4, 5))),
        (Step("y", "add", ("x", "z"), "float32"),), (Output("y", "float32"),),
    )  # fmt: skip
    module = build([(spec, Variant())])
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    z = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    result = module.doubled(x, z)
    assert torch.equal(result, x + z)
    assert result.stride() == (x + z).stride()
    with pytest.raises(Called):
        module.doubled(x, z.contiguous())
    gaps = torch.randn(2, 3, 4, 10)[..., :5]
    with pytest.raises(Called):
        module.doubled(gaps, gaps)


def test_slices_marked_as_strided_are_read_in_place_or_copied() -> None:
    shape = (2, 3, 8)
    spec = KernelSpec(
        "gate", shape, (Operand("a", "float32", shape, strided=True), Operand("b", "float32", shape, strided=True)),
        (Step("s", "sigmoid", ("a",), "float32"), Step("y", "mul", ("s", "b"), "float32")), (Output("y", "float32"),),
    )  # fmt: skip
    module = build([(spec, v) for v in variants(spec, "cpu")[:1]])
    a, b = torch.randn(4, 5, 32).chunk(2, -1)
    torch.testing.assert_close(module.gate(a, b), torch.sigmoid(a) * b)
    torch.testing.assert_close(module.gate(a.contiguous(), b), torch.sigmoid(a) * b)
    moved = torch.randn(5, 4, 16).transpose(0, 1)
    torch.testing.assert_close(module.gate(moved, b), torch.sigmoid(moved) * b)
    spread = torch.randn(4, 1, 16).expand(4, 5, 16)
    torch.testing.assert_close(module.gate(spread, b), torch.sigmoid(spread) * b)


def test_threads_may_use_a_library_for_the_first_time_together() -> None:
    module = build([(softmax("shared", (64, 1000)), Variant(vector=32))])
    x = torch.randn(64, 1000)
    results: list[torch.Tensor] = []
    workers = [threading.Thread(target=lambda: results.append(module.shared(x))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 8
    for result in results:
        torch.testing.assert_close(result, torch.softmax(x, 1))


def test_the_kernels_share_the_openmp_of_torch() -> None:
    module = build([(softmax("own", (64, 4000)), Variant(vector=32))])
    module.own(torch.randn(64, 4000))
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "libgomp" in line or "libomp" in line or "libiomp" in line}
    assert len(loaded) == 1, loaded


def test_a_unaligned_view_is_computed_correctly() -> None:
    spec = KernelSpec(
        "shifted",
        (64,),
        (Operand("x", "float32", (64,)),),
        (Step("y", "exp", ("x",), "float32"),),
        (Output("y", "float32"),),
    )
    streamed = KernelSpec("streamed", (64,), spec.operands, spec.steps, spec.outputs)
    module = build([(spec, Variant()), (streamed, Variant(streaming=True))])
    for start in (1, 2, 3):
        x = torch.randn(5000)[start:]
        torch.testing.assert_close(module.shifted(x), torch.exp(x))
        torch.testing.assert_close(module.streamed(x), torch.exp(x))


POINTWISE_AND_COLUMNS = {
    "flat": ((700, 800), (700, 800), ()),
    "rows and columns": ((700, 800), (800,), ()),
    "short rows": ((70000, 8), (8,), ()),
    "small": ((30, 40), (30, 40), ()),
    "columns": ((4, 70, 1500), (70, 1), (1,)),
    "few columns": ((5, 700, 20), (700, 1), (1,)),
}


@pytest.mark.parametrize("name", POINTWISE_AND_COLUMNS)
def test_there_are_four_to_six_ways_on_a_cpu_and_all_compute_the_same(name: str) -> None:
    space, other, dims = POINTWISE_AND_COLUMNS[name]
    steps = [Step("t", "mul", ("x", "w"), "float32"), Step("y", "tanh", ("t",), "float32")]
    if dims:
        steps += [Step("s", "amax", ("y",), "float32"), Step("z", "sub", ("y", "s"), "float32")]
    operands = (Operand("x", "float32", space), Operand("w", "float32", other))
    spec = KernelSpec("ways", space, operands, tuple(steps), (Output(steps[-1].name, "float32"),), dims)
    found = variants(spec, "cpu")
    assert 4 <= len(found) <= 6
    kernels = [(replace(spec, name=f"ways_{k}"), variant) for k, variant in enumerate(found)]
    module = build(kernels)
    for shape in (space, (*space[:-1], space[-1] * 3 + 1)):
        torch.manual_seed(0)
        inputs = [torch.randn(shape), torch.randn((*other[:-1], shape[-1]) if other[-1] != 1 else other)]
        for one, _ in kernels:
            check(one, getattr(module, one.name)(*inputs), inputs)
