"""A program as a CUDA graph: captured at its first call and replayed, so that launching costs once for all kernels.

Weights are read where they are, so that changes in place are seen; where one has moved, the program is captured again,
unless they move all the time, as under FSDP: then ever more calls are launched plainly before the next capture.
Inputs are copied in and results out, so that no caller sees memory of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from stark_lsp.playbook.inductor.reader import CannotEmit

IMPORTS = ["threading", "weakref"]
_TEXT = '''\
_stark_graphs = weakref.WeakKeyDictionary()


class _StarkGraph:
    """A program, captured for weights where they are now: inputs are copied in, results are copied out."""

    def __init__(self, run, tensors, inputs, before):
        self.calls, self.moves = 0, 0
        # How many captures in a row served few calls.
        self.short = before.short + 1 if before is not None and before.calls < 100 else 0
        # What is made in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            self.given = [torch.empty_like(x).copy_(x) for x in tensors[:inputs]]
        self.held = [*self.given, *(x.detach() for x in tensors[inputs:])]
        self.where = self.places(tensors)
        self.lock, self.done = threading.Lock(), torch.cuda.Event()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            run(*self.held)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        # PyTorch's own stream for captures is one of the GPU of its first capture.
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"), torch.no_grad():
            self.results = run(*self.held)

    def places(self, tensors):
        return [tensors[0].device, *(x.data_ptr() for x in tensors[len(self.given) :])]

    def waits(self):
        """Whether weights have moved so often that this call is better not captured."""
        self.moves += 1
        return self.calls < 100 and self.moves < 2**self.short

    def __call__(self, tensors):
        stream = torch.cuda.current_stream()
        with self.lock:
            self.calls += 1
            stream.wait_event(self.done)
            for held, x in zip(self.given, tensors):
                held.copy_(x)
            self.graph.replay()
            results = tuple(x.clone() for x in self.results)
            self.done.record(stream)
        return results
'''


_KEPT = """\
        kept = [(x, x.clone()) for x in tensors[inputs:] if not isinstance(x, torch.nn.Parameter)]
        stream = torch.cuda.Stream()
"""
_BACK = """\
            run(*self.held)
            for x, before in kept:
                x.copy_(before)
        torch.cuda.current_stream()"""


def text(changes: bool) -> str:
    """Return what replaying needs; if the program `changes` buffers, these are put back after its first run."""
    if not changes:
        return _TEXT
    kept = _TEXT.replace("        stream = torch.cuda.Stream()\n", _KEPT)
    return kept.replace("            run(*self.held)\n        torch.cuda.current_stream()", _BACK)


def method(inputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the method that replays the program; inputs are its first arguments.

    Raises
    ------
    CannotEmit
        An input has gaps or overlaps in memory, which a copy of it would not have.
    """
    for one in inputs:
        if not _dense(one["shape"], one["stride"]):
            raise CannotEmit(f"the input {one['expression']} is not dense in memory")
    return [
        "def _replayed(self, *tensors):",
        "    # A replica for data parallelism is there for one call.",
        '    if torch.cuda.is_current_stream_capturing() or getattr(self, "_is_replica", False):',
        "        return self._compiled(*tensors)",
        "    graph = _stark_graphs.get(self)",
        "    if graph is None or graph.where != graph.places(tensors):",
        "        if graph is not None and graph.waits():",
        "            return self._compiled(*tensors)",
        f"        graph = _stark_graphs[self] = _StarkGraph(self._compiled, tensors, {len(inputs)}, graph)",
        "    return graph(tensors)",
        "",
    ]


def _dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a tensor fills its memory without gaps, in any order of dimensions."""
    expected = 1
    for size, step in sorted(zip(shape, stride, strict=True), key=lambda pair: (pair[1], pair[0])):
        if size == 1:
            continue
        if step != expected:
            return False
        expected *= size
    return prod(shape) > 0
