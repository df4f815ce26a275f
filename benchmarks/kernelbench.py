"""What is proposed for the samples, by KernelBench's own evaluator beside our judge.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python benchmarks/kernelbench.py KernelBench                   all samples; needs a GPU
    python benchmarks/kernelbench.py KernelBench rms_norm --budget 8

Each sample is optimized as a user does it, and what comes of it is given to `eval_kernel_against_ref` in a process of
its own: five checks, then a hundred calls of the proposal and, after them, a hundred of the original. What its static
check refuses, which its scripts ask before, is said. Only these two and what they import is read of KernelBench, none
of its problems.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
LIMIT_S = 300.0


def evaluator(checkout: Path) -> Any:
    """Import KernelBench's evaluator without what its package imports for language models."""
    import torch

    package, utils = types.ModuleType("kernelbench"), types.ModuleType("kernelbench.utils")
    package.__path__ = [str(checkout / "src" / "kernelbench")]
    utils.get_gpu_vendor = lambda device=None: "amd" if torch.version.hip else "nvidia"  # type: ignore[attr-defined]
    sys.modules.update({"kernelbench": package, "kernelbench.utils": utils})
    return importlib.import_module("kernelbench.eval")


def evaluate(checkout: Path, original: Path, candidate: Path) -> dict[str, Any]:
    """Let KernelBench's evaluator judge one candidate in this process."""
    import torch

    judge, text = evaluator(checkout), candidate.read_text()
    check = importlib.import_module("kernelbench.kernel_static_checker").validate_kernel_static
    _, refused, _ = check(text, backend="triton" if "@triton.jit" in text else "cuda")
    result = judge.eval_kernel_against_ref(
        original.read_text(),
        text,
        num_correct_trials=5,
        num_perf_trials=100,
        measure_performance=True,
        device=torch.device("cuda:0"),
        # Kernels of Triton are read from a file, which `cuda` has none of; CUDA sources are served by both.
        backend="triton",
    )
    times = {"ms": result.runtime_stats, "eager_ms": result.ref_runtime_stats} if result.correctness else {}
    said = {key: str(value) for key, value in result.metadata.items()}
    return {"right": result.correctness, "said": said, "refused": "; ".join(refused) or "nothing", **times}


def optimize(sample: Path, options: argparse.Namespace) -> tuple[dict[str, Any], Path | None]:
    """Run one search; return its report, and where its proposal's source is."""
    report, source = options.out / f"{sample.stem}.json", options.out / f"{sample.stem}.py"
    ours = [sys.executable, "-m", "stark_lsp"]
    search = ["optimize", str(sample), "--model", "playbook", "--budget", str(options.budget), "--json", str(report)]
    search += ["--mode", "as-constructed"]  # which is how that evaluator calls them
    with (options.out / f"{sample.stem}.log").open("w") as log:
        subprocess.run([*ours, *search], stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False)
    found: dict[str, Any] = json.loads(report.read_text())
    if not found["best"]:
        return found, None
    show = [*ours, "runs", "show", found["run"]["id"], "--source"]
    source.write_text(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    return found, source


def row(sample: Path, options: argparse.Namespace) -> str:
    """Return one sample's line of the table."""
    found, source = optimize(sample, options)
    if source is None:
        return f"| {sample.stem} | {found['run']['message']} | | | |"
    best, theirs = found["best"], options.out / f"{sample.stem}.kernelbench.json"
    low, high = best["interval"]
    command = [sys.executable, __file__, str(options.checkout), "--evaluate", str(sample), str(source), str(theirs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    ours = f"| {sample.stem} | {best['speedup_vs_eager']:.2f} ({low:.2f} to {high:.2f}) |"
    if done.returncode:
        return f"{ours} failed: {done.stderr.strip().splitlines()[-1:]} | | |"
    said = json.loads(theirs.read_text())
    if not said["right"]:
        return f"{ours} wrong: {said['said']} | | {said['refused']} |"
    ms, eager_ms = said["ms"], said["eager_ms"]
    means = f"{eager_ms['mean'] / ms['mean']:.2f}"
    spread = f"{eager_ms['mean']:.3f} ± {eager_ms['std']:.3f} / {ms['mean']:.3f} ± {ms['std']:.3f}"
    return f"{ours} {means} | {spread} | {said['refused']} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of KernelBench")
    parser.add_argument("samples", nargs="*", help="names of samples, or files of your own (default: all samples)")
    parser.add_argument("--budget", type=int, default=4, help="attempts for each sample")
    parser.add_argument("--out", type=Path, default=Path(".cache/kernelbench"), help="where reports and sources go")
    parser.add_argument("--evaluate", nargs=3, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.evaluate:
        original, candidate, answer = options.evaluate
        answer.write_text(json.dumps(evaluate(options.checkout, original, candidate)))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    named = [Path(name) if name.endswith(".py") else SAMPLES / f"{name}.py" for name in options.samples]
    chosen = named or sorted(SAMPLES.glob("*.py"))
    print("| sample | our judge, over eager | KernelBench, of means | its times, ms | it refuses |")
    print("|---" * 5 + "|")
    for sample in chosen:
        print(row(sample, options), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
