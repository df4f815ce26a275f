"""Inductor's program for backward, in a candidate that is searched for in training mode.

Gradients that the program does not give, and gradients of gradients, are those of the PyTorch form, computed anew.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stark_lsp.playbook import handwritten
from stark_lsp.playbook.inductor import naming
from stark_lsp.playbook.inductor.reader import CannotEmit, Program, read
from stark_lsp.playbook.names import as_tuple

_FUSED = re.compile(r"\b((?:cpp|triton_[a-z]{3})_)fused_")
_GIVEN = re.compile(r"(out|gradient)\[(\d+)\]")
_REPLAYED = {
    "        out = launched()\n": "        out, ctx.graph, ctx.turn = launched()\n",
    "(out[place] for place in SAVED)": "(out[place] for place in (SAVED if ctx.graph is None else ()))",
    """\
            return (None, None, None, *ctx.run(*kept, *flows))
""": """\
            graph = ctx.graph
            found = ctx.run(*kept, *flows) if graph is None else graph.back(ctx.run, ctx.turn, flows)
        if found is None:
            given = types.SimpleNamespace(form=ctx.form, saved_tensors=tensors)
            return (None, *_StarkForm.backward(given, *gradients))
        return (None, None, None, *found)
""",
}
"""What is otherwise where both are CUDA graphs."""
FIRST = "first"
"""The name of the module's first input, which tells the sizes that may be any."""


def _apart(text: str) -> str:
    return _FUSED.sub(r"\1backward_", text)


class Backward:
    """The program for backward.

    Parameters
    ----------
    made
        What `judge/analysis/inductor.program` returned of a step.
    program
        That for forward, as it was read.
    spelled
        Names of its arguments, by those that Inductor gave them.
    count
        How many of its results are the module's.
    """

    def __init__(self, made: Mapping[str, Any], program: Program, spelled: Mapping[str, str], count: int) -> None:
        # Both programs may have a kernel of the same name.
        given = made["backward"]
        launches = [{**one, "kernel": _apart(one["kernel"])} for one in given.get("launches", ())]
        self.made = {**made, **given, "launches": launches}
        sizes = made.get("sizes", {})
        self.program = read(_apart(given["code"]), sizes)
        self.names = {name: naming.short(name) for name in self.program.kernels}
        self.count = count
        returned = program.steps[-1].statement.value.elts  # type: ignore[attr-defined]
        self.spelled = {name: f"backward{place}" for place, name in enumerate(self.program.numbers)}
        """Names of its arguments, by those that Inductor gave them."""
        self.saved: list[int] = []
        """Which results of the program for forward it takes."""
        self._kept: list[str] = []
        self._laid: list[str] = []
        for number, (name, one) in enumerate(zip(self.program.arguments, self.made["arguments"], strict=True)):
            if "shape" not in one:
                continue  # a size
            kind, place = _GIVEN.fullmatch(one["expression"]).groups()  # type: ignore[union-attr]
            if kind == "gradient":
                self.spelled[name] = f"gradient{place}"
                strides = sizes["strides"][number] if sizes else list(map(str, one["stride"]))
                if not all(strides):
                    raise CannotEmit("it is not told how a gradient lies")
                laid = f"    gradient{place} = _stark_laid(gradient{place}, {as_tuple(strides)})"
                self._laid += [laid] if laid not in self._laid else []
            else:
                first = ast.unparse(returned[int(place)])
                self.spelled[name] = kept = spelled.get(first, f"saved{place}")
                if kept not in self._kept:
                    self.saved.append(int(place))
                    self._kept.append(kept)
        if len(self._laid) > len({line.split()[0] for line in self._laid}):
            raise CannotEmit("its program for backward takes a gradient in two layouts")
        # What it takes may have no dimension that is a size alone.
        self.sized = [f"    {size} = {FIRST}.shape[{dim}]" for size, dim in sizes.get("dims", {}).items()]
        """Lines that read the sizes that may be any."""
        # No gradient flows into an integer.
        self._flows = [place for place in range(count) if f"gradient{place}" in self.spelled.values()]
        self.parameters = [*[FIRST][: len(self.sized)], *self._kept, *(f"gradient{place}" for place in self._flows)]

    def returning(self, expressions: Sequence[str]) -> None:
        """Have the program return the gradients of these, None for those that it has none of."""
        value = self.program.steps[-1].statement.value  # type: ignore[attr-defined]
        places = [self.made["gradients"].get(one) for one in expressions]
        value.elts = [ast.Constant(None) if place is None else value.elts[place] for place in places]

    def ready(self, before: Sequence[str]) -> list[str]:
        """Return what comes first in the method that runs it."""
        return [*before[:1], *self._laid]

    def text(self, expressions: Sequence[str], *, replayed: bool) -> str:
        """Return what a candidate needs besides; `replayed`, both programs are CUDA graphs."""
        # What the program does not read has none.
        known = {*self.made["gradients"], *(one["expression"] for one in self.made["unread"])}
        text = handwritten.written("trained").replace("HAD", repr(tuple(one in known for one in expressions)))
        for plain, other in _REPLAYED.items() if replayed else ():
            text = text.replace(plain, other)
        text = text.replace("run(*kept", "run(tensors[0], *kept") if self.sized else text
        text = text.replace("SAVED", repr(tuple(self.saved))).replace("COUNT", str(self.count))
        return text.replace("FLOWS", repr(tuple(self._flows)))
