"""Time every variant of a set of generated kernels next to eager PyTorch and torch.compile, and check each result.

    python benchmarks/kernels.py --device cuda
    python benchmarks/kernels.py --device cpu --only softmax,newgelu

A row is one kernel: eager, torch.compile, the first guess and the best variant, in milliseconds, with the bandwidth of
the best. A figure is the median on a GPU and the least on a CPU, where other work only ever adds. All variants are compared with a float64 evaluation first; a wrong one is listed and not timed.
"""

# ruff: noqa: E501 - the cases are a table
from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "playbook_kernels"))

from torch_reference import build, check

from stark_lsp.playbook.kernels import Variant, supports, variants
from stark_lsp.playbook.spec import REDUCTIONS, KernelSpec, Operand, Output, Step


@dataclass(frozen=True)
class Case:
    """One kernel with the PyTorch code it stands for."""

    spec: KernelSpec
    eager: Callable[..., Any]


def steps(text: str, dtype: str = "float32") -> tuple[Step, ...]:
    """Steps written as `name op arg arg; …`."""
    found = []
    for line in text.split(";"):
        name, op, *args = line.split()
        found.append(Step(name, op, tuple(_argument(a) for a in args), dtype))
    return tuple(found)


def _argument(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def case(
    name: str,
    space: tuple[int, ...],
    operands: dict[str, tuple[int, ...]],
    text: str,
    outputs: str,
    eager: Callable[..., Any],
    dims: tuple[int, ...] = (),
    dtype: str = "float32",
    strided: tuple[str, ...] = (),
) -> Case:
    """Put a case together; an output that is a reduction, or named with a `-`, is reduced."""
    made = tuple(Operand(n, dtype, shape, n in strided) for n, shape in operands.items())
    written = steps(text, dtype)
    reducing = {s.name for s in written if s.op in REDUCTIONS}
    outs = tuple(
        Output(o.lstrip("-"), dtype, o.startswith("-") or o in reducing, keepdim=False) for o in outputs.split()
    )
    return Case(KernelSpec(name, space, made, written, outs, dims, name), eager)


def newgelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


NEWGELU = (
    "p pow x 3; q mul p 0.044715; r add x q; t mul r 0.7978845608028654; h tanh t; k add h 1; m mul x 0.5; y mul m k"
)
NORM = "s sum x; mean div s @count; d sub x mean; q square d; v sum q; var div v @count; w add var 0.00001; r rsqrt w; n mul d r"
RMS = "q square x; s sum q; m div s @count; e add m 0.000001; r rsqrt e; n mul x r; y mul n weight"


def rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def cases(large: bool) -> list[Case]:
    """The kernels that are timed; `large` sizes are for a GPU."""
    k = 4 if large else 1
    n, h = 2048 * k, 2048 * (2 if large else 1)
    space = (n, h)
    softmax = "top amax x; d sub x top; e exp d; s sum e; y div e s"
    found = [
        case("newgelu", space, {"x": space}, NEWGELU, "y", newgelu),
        case("newgelu_bf16", space, {"x": space}, NEWGELU, "y", newgelu, dtype="bfloat16"),
        case("gelu_erf", space, {"x": space}, "a mul x 0.7071067811865476; b erf a; c add b 1; d mul x 0.5; y mul d c", "y", F.gelu),
        case(
            "bias_silu_mul", space, {"x": space, "bias": (h,), "z": space}, "a add x bias; s sigmoid a; b mul a s; y mul b z", "y",
            lambda x, bias, z: F.silu(x + bias) * z,
        ),
        case(
            "chunk_gate", space, {"a": space, "b": space}, "s sigmoid a; g mul a s; y mul g b", "y",
            lambda a, b: F.silu(a) * b, strided=("a", "b"),
        ),
        case(
            "scale_channels", (8 * k, 256, 1024), {"x": (8 * k, 256, 1024), "w": (256, 1), "c": (8 * k, 1, 1)},
            "a mul x w; b add a c; y maximum b 0", "y", lambda x, w, c: torch.relu(x * w + c),
        ),
        case("softmax", space, {"x": space}, softmax, "y", lambda x: torch.softmax(x, -1), (1,)),
        case("softmax_short", (16384 * k, 128), {"x": (16384 * k, 128)}, softmax, "y", lambda x: torch.softmax(x, -1), (1,)),
        case("softmax_dim1", (4 * k, 256, 2048), {"x": (4 * k, 256, 2048)}, softmax, "y", lambda x: torch.softmax(x, 1), (1,)),
        case(
            "log_softmax_vocab", (64 * k, 50264), {"x": (64 * k, 50264)},
            "top amax x; d sub x top; e exp d; s sum e; g log s; y sub d g", "y", lambda x: torch.log_softmax(x, -1), (1,),
        ),
        case("rmsnorm", space, {"x": space, "weight": (h,)}, RMS, "y", rmsnorm, (1,)),
        case("rmsnorm_bf16", space, {"x": space, "weight": (h,)}, RMS, "y", rmsnorm, (1,), dtype="bfloat16"),
        case(
            "layernorm_residual", space, {"a": space, "b": space, "weight": (h,), "bias": (h,)},
            f"x add a b; {NORM}; o mul n weight; y add o bias", "y x",
            lambda a, b, weight, bias: (F.layer_norm(a + b, (a.shape[1],), weight, bias), a + b), (1,),
        ),
        case(
            "layernorm_channels", (8 * k, 128, 4096), {"x": (8 * k, 128, 4096), "weight": (128, 1)},
            f"{NORM}; y mul n weight", "y",
            lambda x, weight: F.layer_norm(x.transpose(1, 2), (128,), weight.view(128)).transpose(1, 2).contiguous(), (1,),
        ),
        case(
            "groupnorm", (8 * k, 32, 8, 1024), {"x": (8 * k, 32, 8, 1024), "weight": (32, 8, 1)}, f"{NORM}; y mul n weight", "y",
            lambda x, weight: F.group_norm(x.flatten(1, 2), 32, weight.flatten()).view(x.shape), (2, 3),
        ),
        case(
            "mse", (n * h,), {"a": (n * h,), "b": (n * h,)}, "d sub a b; q square d; s sum q; m div s @count", "-m",
            F.mse_loss, (0,),
        ),
        case("row_max", space, {"x": space}, "m amax x", "m", lambda x: x.amax(1), (1,)),
        case("column_mean", (n * 4, h // 4), {"x": (n * 4, h // 4)}, "s sum x; m div s @count", "-m", lambda x: x.mean(0), (0,)),
    ]  # fmt: skip
    assert all(supports(one.spec, "cuda") is None for one in found)
    return found


def make_inputs(spec: KernelSpec, device: str) -> list[torch.Tensor]:
    """Random tensors of the example's shapes."""
    torch.manual_seed(0)
    found = []
    for operand in spec.operands:
        shape = [*operand.shape[:-1], operand.shape[-1] * 2] if operand.strided else operand.shape
        tensor = torch.randn(shape, device=device).to(getattr(torch, operand.dtype))
        found.append(tensor[..., : operand.shape[-1]] if operand.strided else tensor)
    return found


def milliseconds(call: Callable[[], Any], device: str, seconds: float) -> float:
    """The median time of a call; the least on a CPU."""
    for _ in range(3):
        call()
    times: list[float] = []
    begun = time.perf_counter()
    if device == "cpu":
        while len(times) < 7 or (time.perf_counter() - begun < seconds and len(times) < 300):
            at = time.perf_counter()
            call()
            times.append((time.perf_counter() - at) * 1e3)
        return min(times)
    torch.cuda.synchronize()
    pairs = []
    for _ in range(25):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        call()
        last.record()
        pairs.append((first, last))
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in pairs)


def bytes_moved(spec: KernelSpec, inputs: list[torch.Tensor], outputs: Any) -> int:
    """Bytes that must be read and written at least."""
    outs = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum(t.numel() * t.element_size() for t in (*inputs, *outs))


def measure(
    one: Case, module: Any, picked: list[tuple[KernelSpec, Variant]], options: argparse.Namespace
) -> dict[str, Any]:
    """Check and time one case."""
    device, seconds = options.device, options.seconds
    inputs = make_inputs(one.spec, device)
    report: dict[str, Any] = {"name": one.spec.name, "variants": []}
    with torch.no_grad():
        outputs = None
        for spec, variant in picked:
            launcher = getattr(module, spec.name)
            try:
                outputs = launcher(*inputs)
                check(spec, outputs, inputs, 2e-3 if one.spec.operands[0].dtype == "float32" else 4e-2)
            except Exception as error:  # noqa: BLE001 - listed in the report
                report["variants"].append({"label": variant.label, "error": str(error)[:300] or type(error).__name__})
                continue
            ms = milliseconds(lambda launcher=launcher: launcher(*inputs), device, seconds)
            report["variants"].append({"label": variant.label, "ms": ms})
        report["eager_ms"] = milliseconds(lambda: one.eager(*inputs), device, seconds)
        if options.compile:
            torch._dynamo.reset()
            compiled = torch.compile(one.eager)
            report["compile_ms"] = milliseconds(lambda: compiled(*inputs), device, seconds)
        report["bytes"] = bytes_moved(one.spec, inputs, outputs) if outputs is not None else 0
    return report


def show(report: dict[str, Any]) -> None:
    """Print a case as one line, then its variants."""
    timed = sorted((v for v in report["variants"] if "ms" in v), key=lambda v: v["ms"])
    if timed:
        best, eager, compiled = timed[0]["ms"], report["eager_ms"], report.get("compile_ms", float("nan"))
        first = next((v["ms"] for v in report["variants"][:1] if "ms" in v), float("nan"))
        print(
            f"{report['name']:20} eager {eager:8.3f}  compile {compiled:8.3f}  first {first:8.3f}  best {best:8.3f}"
            f"  x{eager / best:5.2f} x{compiled / best:5.2f}  {report['bytes'] / best / 1e6:7.0f} GB/s"
        )
    for variant in [*timed, *(v for v in report["variants"] if "error" in v)]:
        print(f"    {variant.get('ms', float('nan')):8.3f}  {variant['label']}  {variant.get('error', '')}")


def build_library(module: Any) -> None:
    """Build a module's kernels before one is called."""
    source, types = (
        next(v for n, v in vars(module).items() if n.startswith(f"_STARK_{k}_")) for k in ("SOURCE", "TYPES")
    )
    module._stark_library(f"stark_{hashlib.sha256(source.encode()).hexdigest()[:16]}", source, types)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--seconds", type=float, default=0.4, help="CPU: time to spend on each figure")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = [c for c in cases(options.device == "cuda") if not options.only or c.spec.name in options.only.split(",")]
    picks = [
        [(replace(c.spec, name=f"{c.spec.name}_{k}"), v) for k, v in enumerate(variants(c.spec, options.device))]
        for c in chosen
    ]
    modules = [build(pick, options.device) for pick in picks]
    begun = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(build_library, modules))
    print(f"{sum(map(len, picks))} kernels built in {time.perf_counter() - begun:.1f} s")
    reports = []
    for one, module, pick in zip(chosen, modules, picks, strict=True):
        report = measure(one, module, pick, options)
        reports.append(report)
        show(report)
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(reports, indent=1))


if __name__ == "__main__":
    main()
