"""How long `stark-lsp judge` takes as a whole, from the command to its end, and what it does meanwhile.

    python benchmarks/first_verdict.py --out results           GELU in Triton, raw CUDA and inline CUDA; needs a GPU
    python benchmarks/first_verdict.py --device cpu            the unchanged module, in PyTorch
    python benchmarks/first_verdict.py --baselines eager       without torch.compile
    python benchmarks/first_verdict.py --final --only triton   as what is to be offered

The first command of a machine makes what is kept for later ones, so it stands alone; each candidate has a source of its
own, so that nothing it needs was built before.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from evaluator_candidates import reference, source

from stark_lsp.core.status import Dialect

BOUNDS = {"triton": 8.0, "raw": 8.0, "inline": 12.0, "torch": 20.0}
"""Seconds that a command may take, for `torch` on two quiet cores."""
LIMIT_S = 300.0
FUNCTION, SIZE = "gelu", "middle"


def candidate(kind: str) -> str:
    """Return the text of a candidate that was never built before."""
    if kind == "torch":
        return reference(FUNCTION, SIZE).replace("class Model(", "class ModelNew(")
    return source(FUNCTION, Dialect(kind), salt=secrets.token_hex(4))


def judge(kind: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one command."""
    model, new, verdict = (folder / name for name in ("model.py", f"{kind}.py", "verdict.json"))
    model.write_text(reference(FUNCTION, SIZE))
    new.write_text(candidate(kind))
    verdict.unlink(missing_ok=True)
    command = [sys.executable, "-m", "stark_lsp", "judge", str(model), str(new), "--json", str(verdict)]
    command += ["--device", options.device, "--baselines", options.baselines, *(["--final"] if options.final else [])]
    begin = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    limit = threading.Timer(LIMIT_S, process.terminate)
    limit.start()
    steps = [(round(time.monotonic() - begin, 1), line.strip()) for line in process.stderr]
    process.wait()
    limit.cancel()
    seconds = time.monotonic() - begin
    result = json.loads(verdict.read_text()) if verdict.exists() else {}
    return {"kind": kind, "seconds": seconds, "steps": steps, "status": result.get("status"), "verdict": result}


def main() -> int:
    """Run the benchmark; return 1 if a bound was passed or a candidate is not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--only", nargs="+", choices=sorted(BOUNDS))
    parser.add_argument("--baselines", default="eager,compile")
    parser.add_argument("--final", action="store_true")
    parser.add_argument("--times", type=int, default=3, help="commands for each candidate, in turns (default: 3)")
    parser.add_argument("--out", type=Path, help="folder for first_verdict.json")
    options = parser.parse_args()
    kinds = options.only or (["torch"] if options.device == "cpu" else ["triton", "raw", "inline"])
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="first-verdict-") as folder:
        for kind in [kinds[0], *kinds * options.times]:
            rows.append(judge(kind, Path(folder), options))
            row, what = rows[-1], "" if len(rows) > 1 else "first of all: "
            print(f"{what}{kind} {row['status']} in {row['seconds']:.1f} s", flush=True)
            for at, step in row["steps"]:
                print(f"    {at:6.1f} {step[:120]}", flush=True)
            if options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / "first_verdict.json").write_text(json.dumps(rows, indent=1))
    good = all(row["status"] == "OK" for row in rows)
    for kind in kinds:
        took = [row["seconds"] for row in rows[1:] if row["kind"] == kind]
        middle = statistics.median(took)
        good = good and middle <= BOUNDS[kind]
        spread = f"{min(took):.1f} to {max(took):.1f}, n = {len(took)}"
        print(f"{kind}: median {middle:.1f} s, {spread}, bound {BOUNDS[kind]:g}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
