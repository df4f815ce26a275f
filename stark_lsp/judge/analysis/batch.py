"""Programs for every batch size: which inputs have it as their first dimension, and what a program asks of it.

Dynamo is told that those dimensions may change; what it, and Inductor behind it, then take for granted of them are
the guards of its shape environment (`torch.fx.experimental.symbolic_shapes.ShapeEnv`).
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from typing import Any

import torch

NAME = "rows"
"""What the size is called in what is asked of it, and among a program's arguments."""
_MARKS = ("_dynamo_weak_dynamic_indices", "_has_dynamo_dim_marking")
"""What `torch._dynamo.maybe_mark_dynamic` leaves on a tensor."""
_ARITHMETIC = (
    ast.Expression, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


class Batch:
    """The first dimension that inputs have in common.

    Parameters
    ----------
    inputs
        The tensors that a call is given, each with its expression in `forward`.

    """

    def __init__(self, inputs: list[tuple[str, torch.Tensor]]) -> None:
        sized = [(text, one) for text, one in inputs if one.dim()]
        self.size = sized[0][1].shape[0] if sized else 0
        # For one Dynamo always writes a program apart.
        self._tensors = {text: one for text, one in sized if one.shape[0] == self.size > 1}
        self._environments: dict[int, Any] = {}

    @property
    def dynamic(self) -> bool | None:
        """What `torch.compile` is asked for."""
        return None if self._tensors else False

    def __bool__(self) -> bool:
        """Whether a graph that was compiled had it as a symbol."""
        return bool(self._environments)

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """Tell Dynamo of it for as long as the block runs."""
        try:
            for one in self._tensors.values():
                torch._dynamo.maybe_mark_dynamic(one, 0)
            yield
        finally:
            for one in self._tensors.values():
                for mark in _MARKS:
                    vars(one).pop(mark, None)

    @contextlib.contextmanager
    def asking(self, graph: torch.fx.Graph) -> Iterator[None]:
        """Let sizes of a graph that is compiled be asked for in the block as if they were known."""
        with contextlib.ExitStack() as stack:
            for node in graph.nodes:
                value = node.meta.get("val") if node.op == "placeholder" else None
                if isinstance(value, torch.SymInt):
                    environment = self._environments.setdefault(id(value.node.shape_env), value.node.shape_env)
                    stack.enter_context(environment.suppress_guards())
            yield

    def told(self) -> dict[str, Any]:
        """Return `size`, the example's, `inputs` that have it, and what is asked of another one, `asks`.

        Empty where the program is for some sizes alone.
        """
        guards = [one.expr for environment in self._environments.values() for one in environment.guards]
        asks = [f"{NAME} > 1", *dict.fromkeys(filter(None, map(_asked, guards)))]
        others = (2, 3, self.size + 1)
        if not self._environments or not all(eval(one, {NAME: size}) for one in asks for size in others):
            return {}
        return {"size": self.size, "inputs": list(self._tensors), "asks": asks}


def _asked(guard: Any) -> str:
    """Return a guard as Python; empty where it asks no more than that all first dimensions are equal."""
    from torch.utils._sympy.printers import PythonPrinter

    tree = ast.parse(PythonPrinter().doprint(guard), mode="eval")
    for item in ast.walk(tree):
        if isinstance(item, ast.Name):
            item.id = NAME
        if not isinstance(item, _ARITHMETIC):
            return "False"
    if isinstance(tree.body, ast.Compare) and ast.unparse(tree.body.left) == ast.unparse(tree.body.comparators[0]):
        return ""
    return ast.unparse(tree)
