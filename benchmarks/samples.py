"""Optimize every sample and print the table of `docs/measurements.md`.

    python benchmarks/samples.py --device cuda --budget 12 --out results/

Each sample is one `stark-lsp optimize` in a process of its own, one after the other. The table's figures
come from the last, confirming judgement of each run: reference, torch.compile and proposal timed
alternately in one session, speed-ups as medians of paired ratios with a 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent.parent / "samples"


def optimize(sample: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one search; return its `--json` report, with the exit code and the seconds it took."""
    report = options.out / f"{sample.stem}.json"
    command = [sys.executable, "-m", "stark_lsp", "optimize", str(sample), "--device", options.device]
    command += ["--budget", str(options.budget), "--seed", str(options.seed), "--json", str(report)]
    begun = time.monotonic()
    with (options.out / f"{sample.stem}.log").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    data: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
    return {**data, "exit": code, "seconds": time.monotonic() - begun}


def row(name: str, result: dict[str, Any]) -> str:
    """Return one line of the table."""
    best = result.get("best")
    if not best:
        reason = {3: "nothing faster found"}.get(result["exit"], f"exit code {result['exit']}")
        return f"| {name} | | | {reason} | | | |"
    low, high = best["interval"]
    compiled = best["speedup_vs_compile"]
    return (
        f"| {name} | {best['eager_ms']:.3f} | {_ms(best['compile_ms'])} | {best['runtime_ms']:.3f} "
        f"| {best['speedup_vs_eager']:.2f} ({low:.2f} to {high:.2f}) "
        f"| {'' if compiled is None else format(compiled, '.2f')} | {len(result['attempts'])} |"
    )


def _ms(value: float | None) -> str:
    return "failed" if value is None else f"{value:.3f}"


def main() -> int:
    """Run the benchmark; return 1 if a sample ended in a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--budget", type=int, default=12, help="attempts for each sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(".cache/samples"), help="where reports and logs go")
    parser.add_argument("samples", nargs="*", help="names of samples; all when none is given")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [SAMPLES / f"{name}.py" for name in options.samples] or sorted(SAMPLES.glob("*.py"))
    results: dict[str, dict[str, Any]] = {}
    for sample in chosen:
        results[sample.stem] = optimize(sample, options)
        print(f"{sample.stem}: {results[sample.stem]['seconds']:.0f} s", file=sys.stderr, flush=True)
    environment = next((r["environment"] for r in results.values() if r.get("environment")), {})
    print(f"{environment.get('device', '?')}, torch {environment.get('torch', '?')}, {options.budget} attempts\n")
    print("| sample | eager ms | torch.compile ms | best ms | vs eager (95 %) | vs torch.compile | attempts |")
    print("|---|---|---|---|---|---|---|")
    for name, result in results.items():
        print(row(name, result))
    return int(any(result["exit"] not in (0, 3) for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
