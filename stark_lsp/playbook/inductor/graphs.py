"""A program as a CUDA graph: captured at its first call and replayed, so that launching costs once for all kernels.

Weights are read where they are, so that changes in place are seen; where one has moved, the program is captured again,
unless they move all the time, as under FSDP: then ever more calls are launched plainly before the next capture.
Inputs are copied in and results out, so that no caller sees memory of the graph. In training what forward keeps for
backward stays there until the next call; where that comes first, backward is PyTorch's, of the form computed anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from stark_lsp.playbook.handwritten import written
from stark_lsp.playbook.inductor.backward import Backward
from stark_lsp.playbook.inductor.reader import CannotEmit, open_part
from stark_lsp.playbook.names import as_tuple

IMPORTS = ["_thread", "weakref"]


def text(*, back: bool, sized: bool = False) -> str:
    """Return what replaying needs; with `back`, for backward too, which takes the first input if it is `sized`."""
    made = written("graph")
    if back:
        return made.replace("run(*x", "run(self.given[0], *x") if sized else made
    return re.sub(r"\n    def back\(.*?\n\n\n", "\n\n", made, flags=re.DOTALL)


def methods(inputs: Sequence[Mapping[str, Any]], back: Backward | None, made: Mapping[str, Any]) -> list[str]:
    """Return the methods that replay the program.

    Parameters
    ----------
    inputs
        Its first arguments.
    back
        That for backward, if there is one.
    made
        What `judge/analysis/inductor.program` returned: buffers that it changes are put back after its first run; of
        other sizes than the example's kernels are launched one by one.

    Raises
    ------
    CannotEmit
        An input has gaps or overlaps in memory, which a copy of it would not have.
    """
    for one in inputs:
        if not _dense(one["shape"], one["stride"]):
            raise CannotEmit(f"the input {one['expression']} is not dense in memory")
    more = ", changes=True" if made["changes"] else ""
    more += f", count={back.count}, saved={tuple(back.saved)}" if back else ""
    known = made["sizes"]["known"].values() if "sizes" in made else ()
    other = f"tensors[0].shape{open_part(made)} != {as_tuple(list(map(str, known)))} or " if known else ""
    return [
        "def _captured(self, tensors):",
        "    # A replica for data parallelism is there for one call.",
        f'    if {other}torch.cuda.is_current_stream_capturing() or "_is_replica" in vars(self):',
        "        return None",
        "    graph = _stark_graphs.get(self)",
        "    if graph is None or graph.where != graph.places(tensors):",
        "        if graph is not None and graph.waits():",
        "            return None",
        f"        graph = _StarkGraph(self._compiled, tensors, {len(inputs)}, graph{more})",
        "        _stark_graphs[self] = graph",
        "    return graph",
        "",
        "def _replayed(self, *tensors):",
        "    graph = self._captured(tensors)",
        "    return self._compiled(*tensors) if graph is None else graph(tensors)[0]",
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
