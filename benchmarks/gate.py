"""What the gate before a timed call does for the judge's figures, and how much processes differ that run the same code.

    python benchmarks/gate.py                  about half a minute on a GPU that nobody else uses

First part: medians of 20 calls, 20 times over, with gates of several lengths; the shortest is as good as none. Second
part: eight processes, one after the other, that each time the same calls, and none, in ten rounds after pauses.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from stark_lsp.judge.timing import (
    clock,
    fresh,
)
from stark_lsp.judge.timing.gate import GATE_MS
from stark_lsp.judge.timing.intervals import median

GATES_MS = (1e-6, GATE_MS / 2, GATE_MS, 2 * GATE_MS)
SHAPES = ((64, 1024), (4096, 4096))
PAUSES_S = (0.0, 0.03)
PROCESSES = 8

Call = Callable[[Any], torch.Tensor]


def relu(arguments: Any) -> torch.Tensor:
    """One kernel."""
    return torch.relu(arguments[0][0])


def relus(arguments: Any) -> torch.Tensor:
    """Twenty kernels."""
    x: torch.Tensor = arguments[0][0]
    for _ in range(20):
        x = torch.relu(x)
    return x


def gelu(arguments: Any) -> torch.Tensor:
    """A chain of short kernels."""
    x: torch.Tensor = arguments[0][0]
    return 0.5 * x * (1.0 + torch.erf(x * 0.7071))


def nothing(arguments: Any) -> torch.Tensor:
    """No kernel at all: what the two events beside a call take themselves."""
    x: torch.Tensor = arguments[0][0]
    return x


TIMED = {"gelu chain": gelu, "relu": relu, "nothing": nothing}
"""What each process times, to see whether what makes processes differ goes with a call or with its events."""


def mixer(shape: tuple[int, int]) -> fresh.Mixer:
    """Return what makes the inputs of each call."""
    return fresh.Mixer([((torch.randn(shape, device="cuda"),), {}) for _ in range(3)])


def microseconds(ticks: clock.Clock, call: Call, inputs: fresh.Mixer, seed: str, calls: int, gate_ms: float) -> float:
    """Return the median of some calls with empty caches."""
    times = ticks.measure(call, list(range(calls)), lambda number: inputs.inputs(seed, number), gate_ms=gate_ms)
    return 1e3 * median(times)


def gates(ticks: clock.Clock) -> None:
    """Print how far medians lie apart with gates of several lengths."""
    print("| call | gate ms | medians of 20 calls: least us | median | largest |\n|---|---|---|---|---|")
    for shape in SHAPES:
        inputs = mixer(shape)
        for name, call in (("relu", relu), ("20 relus", relus)):
            for gate_ms in GATES_MS:
                found = [microseconds(ticks, call, inputs, str(index), 20, gate_ms) for index in range(20)]
                print(
                    f"| {name} {shape[0]}x{shape[1]} | {gate_ms:.3g} "
                    f"| {min(found):.2f} | {median(found):.2f} | {max(found):.2f} |"
                )


def one_process() -> None:
    """Print the medians of ten rounds after each pause."""
    ticks, inputs = clock.Clock("cuda"), mixer(SHAPES[0])
    cells = []
    for call in TIMED.values():
        microseconds(ticks, call, inputs, "warm-up", 20, GATE_MS)
        for pause in PAUSES_S:
            found = []
            for index in range(10):
                time.sleep(pause)
                found.append(microseconds(ticks, call, inputs, f"{pause}/{index}", 10, GATE_MS))
            cells.append(f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})")
    print(f"| {' | '.join(cells)} |")


def main() -> int:
    """Run both parts."""
    if not torch.cuda.is_available():
        print("This needs a GPU.", file=sys.stderr)
        return 2
    if sys.argv[1:] == ["--one-process"]:
        one_process()
        return 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    gates(clock.Clock("cuda"))
    names = [f"{name}, pause {1e3 * pause:g} ms" for name in TIMED for pause in PAUSES_S]
    print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
    for _ in range(PROCESSES):
        subprocess.run([sys.executable, __file__, "--one-process"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
