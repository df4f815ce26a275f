"""CUDA graphs under compute-sanitizer: what they would record is run at once.

Each tensor has an allocation of its own there (`sanitize.ENVIRONMENT`), and nothing can be allocated so while a graph
is recorded: CUDA refuses `cudaMalloc` amid a capture. In torch's cache, where it can, a read beside a tensor is not
seen.
"""

from __future__ import annotations

from typing import Any

import torch


def run_at_once() -> None:
    """From now on, run what graphs are made from where they are made, and nothing where they are replayed."""
    graph: Any = torch.cuda.CUDAGraph
    graph.capture_begin = graph.replay = graph.instantiate = _nothing
    graph.capture_end = _wait
    graph.pool = lambda self: torch.cuda.graph_pool_handle()


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _wait(graph: Any) -> None:
    """Wait for what ran on the stream that would have been recorded: whoever replays it counts on that being done."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
