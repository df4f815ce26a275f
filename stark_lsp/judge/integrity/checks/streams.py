"""Work that is not done when the call returns, or not in the order of the caller's stream."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..uses import CALL, LOAD
from ..words import Refusal

_STREAMS = (
    "torch.cuda.Stream",
    "torch.cuda.streams.Stream",
    "torch.cuda.ExternalStream",
    "torch.cuda.streams.ExternalStream",
    "torch.Stream",
    "torch.cuda.stream",
    "torch.cuda.StreamContext",
    "torch.cuda.set_stream",
    "torch.cuda.graphs.graph_pool_handle",
    "torch.cuda.green_contexts",
)
_LATER = ("torch.jit.fork", "torch.jit._fork", "torch.jit._async", "torch.futures", "torch.jit.wait", "torch.jit._wait")


def other_streams(candidate: Candidate) -> Iterator[Refusal]:
    """Streams of its own, asynchronous tasks."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for use in candidate.uses:
        if use.kind not in (CALL, LOAD) or use.path in ours:
            continue
        if use.path in _STREAMS and not (use.path == "torch.cuda.stream" and _current(candidate, use.node)):
            yield Refusal("It runs work on a stream of its own; kernels must go to the current stream.", use.line)
        elif use.path.startswith(_LATER):
            yield Refusal("It leaves work to be done later.", use.line)
    for node in candidate.forward_nodes:
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await)):
            yield Refusal("It leaves work to be done later.", getattr(node, "lineno", None))


def _current(candidate: Candidate, node: ast.AST) -> bool:
    """Whether `torch.cuda.stream(...)` is given the current stream."""
    return (
        isinstance(node, ast.Call)
        and bool(node.args)
        and bool(candidate.names.of(node.args[0]) & {"torch.cuda.current_stream()"})
    )
