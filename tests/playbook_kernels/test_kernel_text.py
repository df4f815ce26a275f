"""The text of generated kernels: what is supported, how variants retreat, and that nvcc accepts the CUDA source."""

from __future__ import annotations

import ast
import keyword
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_specs import pointwise_specs, reduction_specs

from stark_lsp.integrity import read
from stark_lsp.playbook.kernels import Variant, plain, render, supports, variants
from stark_lsp.playbook.kernels.places import RESERVED
from stark_lsp.playbook.spec import KernelSpec, Operand, Output, Step

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


def row_sum(shape: tuple[int, ...] = (64, 1000), dims: tuple[int, ...] = (1,)) -> KernelSpec:
    steps = (Step("s", "sum", ("x",), "float32"), Step("y", "mul", ("x", "s"), "float32"))
    return KernelSpec("scaled", shape, (Operand("x", "float32", shape),), steps, (Output("y", "float32"),), dims)


def cuda_source(text: str) -> str:
    found = re.search(r'r"""\n(.*?)"""', text, re.S)
    assert found
    return found.group(1)


SUM_BEHIND = (
    Step("d", "sub", ("x", "t"), "float32"),
    Step("s", "sum", ("d",), "float32"),
    Step("y", "mul", ("d", "s"), "float32"),
)


@QUICK
@given(st.data())
def test_every_variant_of_a_supported_spec_renders_as_python_on_both_devices(data: st.DataObject) -> None:
    spec = data.draw(st.one_of(pointwise_specs("kernel"), reduction_specs("kernel")))
    for device in ("cpu", "cuda"):
        if supports(spec, device) is not None:
            continue
        choices = variants(spec, device, clusters=True)
        assert 1 <= len(choices) <= 16
        assert len(set(choices)) == len(choices)
        labels = {v.label for v in choices}
        assert len(labels) == len(choices)
        for variant in choices:
            ast.parse(render([(spec, variant, "fallback")], device))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_static_check_has_nothing_to_say_and_names_the_kernels(device: str) -> None:
    main = "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return scaled(x)\n"
    for variant in variants(row_sum(), device):
        reading = read(f"{render([(row_sum(), variant, 'fallback')], device)}\n\n{main}", "ModelNew")
        assert reading.refusals == ()
        assert reading.notes == ()
        assert reading.told.kernels


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("shape", "dims"), [((64, 1000), (1,)), ((4, 100000), (1,)), ((8, 32, 64), (1,)), ((9000,), (0,))]
)
def test_what_is_retreated_to_renders(device: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    spec = row_sum(shape, dims)
    assert "_stark_scaled" in render([(spec, plain(spec, device), "fallback")], device)


def test_reasons_are_given_for_what_cannot_be_written() -> None:
    spec = row_sum()
    assert supports(spec, "cpu") is None
    assert supports(spec, "mps") == "there are kernels for cpu and cuda, not for mps"
    apart = row_sum((4, 5, 6), (0, 2))
    assert supports(apart, "cpu") == "the reduced dims are not next to each other"
    odd = replace(spec, operands=(Operand("x", "complex64", (64, 1000)),))
    assert supports(odd, "cuda") == "dtype complex64 is not known"
    narrow = replace(spec, space=(64, 1000, 3), reduce_dims=(1,), operands=(Operand("x", "float32", (64, 1000, 1)),))
    assert supports(narrow, "cpu") == "no operand has size 3 in dim 2"
    with pytest.raises(ValueError, match="not next to each other"):
        render([(apart, Variant(), "fallback")], "cpu")


def test_two_libraries_in_one_file_keep_apart() -> None:
    first = render([(row_sum(), Variant(vector=16), "fallback")], "cpu")
    second = render([(replace(row_sum(), name="other"), Variant(vector=32), "fallback")], "cpu")
    defined = [
        {n.name for n in ast.parse(t).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))} for t in (first, second)
    ]
    assert defined[0] & defined[1] == {"_stark_library", "_StarkDifferentiable"}
    shared = [[ast.dump(n) for n in ast.parse(t).body if "_stark_lib" in ast.unparse(n)[:40]] for t in (first, second)]
    assert shared[0] == shared[1]
    assert len(shared[0]) == 2


def test_only_the_helpers_in_use_are_written() -> None:
    text = render([(row_sum(), Variant(vector=16), "fallback")], "cpu")
    assert "_stark_exp" not in text
    assert "_stark_walk" in text


def test_names_of_the_spec_cannot_break_the_c_source() -> None:
    shape = (4, 4)
    names = ("int", "row", "x_i", "exp")
    operands = tuple(Operand(n, "float32", shape) for n in ("register", "cols", "x", "n0"))
    steps = []
    before = ("register", "cols", "x", "n0")
    for name, a, b in zip(names, before, before[1:] + before[:1], strict=True):
        steps.append(Step(name, "add", (a, b), "float32"))
    last = Step("out", "exp", ("exp",), "float32")
    spec = KernelSpec("named", shape, operands, (*steps, last), tuple(Output(n, "float32") for n in (*names, "out")))
    import torch
    from torch_reference import build, check

    inputs = [torch.randn(shape) for _ in operands]
    check(spec, build([(spec, Variant())]).named(*inputs), inputs)


def every_kind_of_kernel() -> list[KernelSpec]:
    """A spec for each generator, with many of the helpers."""
    chained = ("exp", "log1p", "tanh", "erf", "sin", "softplus", "floor", "sign")

    def chain(name: str, shape: tuple[int, ...], operands: tuple[Operand, ...], dims: tuple[int, ...]) -> KernelSpec:
        steps = [Step("s0", "add", tuple(o.name for o in operands), "float32")]
        steps += [Step(f"s{k + 1}", op, (f"s{k}",), "float32") for k, op in enumerate(chained)]
        steps.append(Step("h", "cast", (steps[-1].name,), "float16"))
        outputs = [Output("h", "float16")]
        if dims:
            steps += [Step("low", "amin", ("h",), "float16"), Step("n", "div", ("low", "@count"), "float32")]
            steps += [Step("y", "remainder", ("s3", "n"), "float32"), Step("z", "prod", ("y",), "float32")]
            outputs += [Output("y", "float32"), Output("z", "float32", True)]
        return KernelSpec(name, shape, operands, tuple(steps), tuple(outputs), dims)

    def pair(shape: tuple[int, ...], other: tuple[int, ...], strided: bool = False) -> tuple[Operand, ...]:
        return Operand("a1", "float32", shape, strided), Operand("b1", "bfloat16", other)

    return [
        chain("flat", (700, 800), pair((700, 800), (700, 800)), ()),
        chain("matrix", (700, 800), pair((700, 800), (700, 1), True), ()),
        chain("blocked", (20, 70, 800), pair((20, 70, 800), (70, 1)), ()),
        chain("rows", (700, 800), pair((700, 800), (800,), True), (1,)),
        chain("long", (2, 300000), pair((2, 300000), (300000,)), (1,)),
        chain("columns", (4, 700, 200), pair((4, 700, 200), (700, 1)), (1,)),
        chain("pieces", (6, 70, 80), pair((6, 70, 80), (80,)), (1, 2)),
    ]


def with_operand(spec: KernelSpec, number: int, name: str, kernel: str) -> KernelSpec:
    """Return a spec with one operand and its name changed."""
    old = spec.operands[number].name
    operands = tuple(replace(o, name=name) if o.name == old else o for o in spec.operands)
    steps = tuple(replace(s, args=tuple(name if a == old else a for a in s.args)) for s in spec.steps)
    return replace(spec, name=kernel, operands=operands, steps=steps)


def clashing(device: str) -> list[tuple[KernelSpec, Variant, str]]:
    """Kernels whose operands, two at a time, are called after identifiers that their own text uses, each in one."""
    kernels: list[tuple[KernelSpec, Variant, str]] = []
    for spec in every_kind_of_kernel():
        if supports(spec, device) is not None:
            continue
        chosen = dict.fromkeys([variants(spec, device)[0], *variants(spec, device)[-1:]])
        if device == "cuda":  # nvcc takes its time: the layout with the most names of its own
            if spec.name != "columns":
                continue
            chosen = dict.fromkeys(variants(spec, device)[:1])
        text = render([(replace(spec, name=f"k{i}"), v, "fallback") for i, v in enumerate(chosen)], device)
        text = text[text.index("// k0") :]  # what stands above it is outside the kernel's scope
        if device == "cuda":
            text = text.partition('"""')[0]  # the launcher is the same for both
            text = re.sub(rf"\b({'|'.join(RESERVED)})\b", "", text)  # these are renamed, and nvcc takes its time
        words = sorted(set(re.findall(r"\b[a-zA-Z]\w*\b", re.sub(r"//.*", "", text))))
        mine = {s.name for s in spec.steps} | {o.name for o in spec.operands}
        free = [w for w in words if w.isidentifier() and w not in mine and not keyword.iskeyword(w)]
        for first, *second in zip_longest(free[::2], free[1::2]):
            named = with_operand(spec, 0, first, spec.name)
            for word in filter(None, second):
                named = with_operand(named, 1, word, spec.name)
            for at, variant in enumerate(chosen):
                kernels.append((replace(named, name=f"{spec.name}_{first}_{at}"), variant, "fallback"))
    return kernels


@pytest.mark.slow
def test_an_operand_may_be_called_like_anything_in_the_generated_text(tmp_path: Path) -> None:
    kernels = clashing("cpu")
    assert {"shape", "torch", "lane", "begin"} <= {o.name for s, _, _ in kernels for o in s.operands}
    path = tmp_path / "named.cpp"
    text = render(kernels, "cpu")
    compile(text, "named.py", "exec")
    path.write_text(cuda_source(text))
    command = ["g++", "-std=c++17", "-fopenmp", "-fsyntax-only", "-Wall", "-Werror=shadow", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_nvcc_takes_operands_called_like_anything_in_the_generated_text(tmp_path: Path) -> None:
    text = render(clashing("cuda"), "cuda")
    compile(text, "named.py", "exec")
    path = tmp_path / "named.cu"
    path.write_text(cuda_source(text))
    command = ["nvcc", "-std=c++17", "-arch=sm_80", "-O0", "-ptx", "-o", str(tmp_path / "named.ptx"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_an_operand_may_be_called_like_a_variable_of_the_launcher() -> None:
    import torch
    from torch_reference import build, check

    specs = []
    for word in ("shape", "out", "scratch", "torch", "status", "len"):
        for strided in (False, True):
            steps, operand = (Step("y", "exp", (word,), "float32"),), Operand(word, "float32", (6, 10), strided)
            specs.append(KernelSpec(f"odd{len(specs)}", (6, 10), (operand,), steps, (Output("y", "float32"),)))
    module = build([(spec, Variant()) for spec in specs])
    inputs = [torch.randn(6, 10)]
    for spec in specs:
        check(spec, getattr(module, spec.name)(*inputs), inputs)


def test_rows_too_long_for_a_block_are_held_by_several_where_a_gpu_can() -> None:
    def blocks(length: int, dtype: str = "float32") -> list[int]:
        spec = row_sum((4096, length))
        spec = replace(spec, operands=(replace(spec.operands[0], dtype=dtype),), outputs=(Output("y", dtype),))
        assert all(one.cluster == 1 for one in variants(spec, "cuda"))
        return [one.cluster for one in variants(spec, "cuda", clusters=True)]

    assert blocks(65535)[:3] == [2, 4, 8]
    assert blocks(393216)[:2] == [8, 1]
    twice = replace(row_sum((4096, 393216)), steps=(Step("t", "amax", ("x",), "float32"), *SUM_BEHIND))
    assert all(one.cluster == 1 for one in variants(twice, "cuda", clusters=True))
    for short_or_long in (32768, 1 << 20):
        assert set(blocks(short_or_long)) == {1}
    assert set(blocks(65536, "bfloat16")) == {1}
    alone = replace(row_sum((4096, 65535)), outputs=(Output("s", "float32", reduced=True),))
    assert all(one.cluster == 1 for one in variants(alone, "cuda", clusters=True))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_helper_is_written_that_nothing_calls(device: str) -> None:
    for spec in every_kind_of_kernel():
        if supports(spec, device) is not None:
            continue
        for variant in variants(spec, device, clusters=True):
            text = re.sub(r"//.*", "", cuda_source(render([(spec, variant, "fallback")], device)))
            helpers = set(re.findall(r"\b_stark_\w+", text)) - {"_stark_error", f"_stark_{spec.name}"}
            alone = [name for name in helpers if len(re.findall(rf"\b{name}\b", text)) < 2]
            assert not alone


def test_only_the_headers_in_use_are_included() -> None:
    plain = cuda_source(render([(row_sum(), Variant(vector=16), "fallback")], "cpu"))
    assert re.findall("#include <(.*)>", plain) == ["cstdint"]
    streamed = cuda_source(render([(row_sum(), Variant(vector=16, streaming=True), "fallback")], "cpu"))
    assert re.findall("#include <(.*)>", streamed) == ["cstdint", "cstring", "immintrin.h"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_nvcc_accepts_random_kernels_without_a_warning(tmp_path: Path) -> None:
    kernels: list[tuple[KernelSpec, Variant, str]] = []

    @settings(QUICK, max_examples=14)
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        number = len(kernels)
        spec = data.draw(st.one_of(pointwise_specs(f"kernel{number}"), reduction_specs(f"kernel{number}")))
        if supports(spec, "cuda") is None:
            kernels.append((spec, data.draw(st.sampled_from(variants(spec, "cuda"))), "fallback"))

    collect()
    split = row_sum((2, 300000), (1,))
    columns = replace(row_sum((1, 4096, 64), (1,)), name="down")
    kernels += [(split, variants(split, "cuda")[0], "f"), (columns, variants(columns, "cuda")[0], "f")]
    assert all(variant.split for _, variant, _ in kernels[-2:])
    held = replace(row_sum((4096, 65535)), name="held")
    kernels.append((held, variants(held, "cuda", clusters=True)[0], "f"))
    source = tmp_path / "kernels.cu"
    source.write_text(cuda_source(render(kernels, "cuda")))
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-O1", "-c", str(source), "-o", str(tmp_path / "kernels.o")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    assert "warning" not in done.stderr, done.stderr[:3000]
