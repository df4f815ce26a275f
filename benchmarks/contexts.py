"""By what processes differ that run the same code on a GPU, and what of it is left for the judge.

    python benchmarks/contexts.py              about a minute on a GPU that nobody else uses

First part: what sixteen kernels that do nothing take in twenty contexts. Second part: what each call of a chain of
short kernels takes after another process had the device, with and without freeing the cache's persisting lines before
each. Third part: one kernel and the chain in processes whose contexts are as they come, and in such as are alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch

from stark_lsp.judge.timing import (
    clock,
    contexts,
)
from stark_lsp.judge.timing.intervals import median

NEVER = 1e-9
"""No context launches so quickly, so that as many are made as may be."""
ANY = 1e9
"""Contexts are left as they come."""
SHAPE = (64, 1024)
TURNS, CALLS = 8, 16
PROCESSES = 8
GATE_MS = 0.4


def child(like_us: float) -> None:
    """Serve the parent: draw a context, then time calls, one request a line."""
    # Torch is imported, but has not touched the GPU.
    drawn = contexts.draw(like_us) if like_us != ANY else None
    x = torch.randn(SHAPE, device="cuda")
    ticks = clock.Clock("cuda")

    def chain(arguments: object) -> Any:
        result = torch.tanh(x * 0.5)
        for _ in range(6):
            result = result + torch.tanh(x * 0.5)
        return result

    calls: dict[str, Callable[[object], Any]] = {"chain": chain, "relu": lambda arguments: torch.relu(x)}

    def measured(name: str, count: int) -> list[float]:
        times = ticks.measure(calls[name], list(range(count)), lambda number: None, gate_ms=GATE_MS)
        return [1e3 * time for time in times]

    for name in calls:
        measured(name, 5)
    print(json.dumps(drawn.launch_us if drawn is not None else None), flush=True)
    emptying: Any = ticks._emptying()
    free = emptying._reset
    for line in sys.stdin:
        name, count, frees = json.loads(line)
        emptying._reset = free if frees else None
        print(json.dumps(measured(name, count)), flush=True)


class Process:
    """A process that times calls.

    Parameters
    ----------
    like_us
        See `contexts.draw`; `ANY` for a context as it comes.
    """

    def __init__(self, like_us: float) -> None:
        command = [sys.executable, __file__, "--child", str(like_us)]
        self._run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.launch_us: float | None = self._line()

    def _line(self) -> Any:
        assert self._run.stdout is not None
        line = self._run.stdout.readline()
        if not line:
            raise SystemExit("A process ended; what it said stands above.")
        return json.loads(line)

    def times(self, name: str, count: int, *, frees: bool = True) -> list[float]:
        """Return the microseconds of each of some calls."""
        assert self._run.stdin is not None
        self._run.stdin.write(json.dumps([name, count, frees]) + "\n")
        self._run.stdin.flush()
        found: list[float] = self._line()
        return found

    def end(self) -> None:
        """End it."""
        assert self._run.stdin is not None
        self._run.stdin.close()
        self._run.wait()


def kinds() -> None:
    """Print how quickly twenty contexts launch kernels."""
    code = f"import json; from stark_lsp.judge import contexts; print(json.dumps(contexts.draw({NEVER}).seen))"
    seen: list[float] = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        seen += json.loads(run.stdout)
    print(
        f"{contexts.KERNELS} kernels that do nothing, us, in {len(seen)} contexts:",
        *(f"{one:.2f}" for one in sorted(seen)),
    )


def turns() -> None:
    """Print what each call takes after another process had the device."""
    first = Process(0.0)
    other = Process(first.launch_us or 0.0)
    numbers = " | ".join(str(index + 1) for index in range(CALLS))
    print(f"\n| chain of 20 kernels, us, call | {numbers} |\n|{'---|' * (CALLS + 1)}")
    for words, frees in (("persisting lines are freed", True), ("they are not", False)):
        rows = []
        for _ in range(TURNS):
            other.times("chain", 2, frees=frees)
            rows.append(first.times("chain", CALLS, frees=frees))
        cells = (f"{median([row[index] for row in rows]):.1f}" for index in range(CALLS))
        print(f"| {words} | {' | '.join(cells)} |", flush=True)
    first.end()
    other.end()


def processes() -> None:
    """Print what the same calls take in several processes, each call soon after another process had the device."""
    print("\n| contexts | call | medians in processes, us | furthest from the middle |\n|---|---|---|---|")
    for words in ("as they come", "alike"):
        every: list[Process] = []
        for _ in range(PROCESSES):
            alike = (every[0].launch_us if every else 0.0) or 0.0
            every.append(Process(ANY if words == "as they come" else alike))
        for name in ("relu", "chain"):
            rounds: list[list[float]] = [[] for _ in every]
            for _ in range(TURNS):
                for place, process in enumerate(every):
                    rounds[place] += process.times(name, 7)
            medians = sorted(median(times) for times in rounds)
            far = max(medians[-1] / median(medians) - 1.0, 1.0 - medians[0] / median(medians))
            print(
                f"| {words} | {name} | {', '.join(f'{one:.2f}' for one in medians)} | {100 * far:.1f} % |", flush=True
            )
        for process in every:
            process.end()


def main() -> int:
    """Run all parts."""
    if sys.argv[1:2] == ["--child"]:
        child(float(sys.argv[2]))
        return 0
    if not torch.cuda.is_available():
        print("This needs a GPU.", file=sys.stderr)
        return 2
    kinds()
    turns()
    processes()
    return 0


if __name__ == "__main__":
    sys.exit(main())
