"""Rewrites of the user's: a file that says what is replaced, and by what, as functions of PyTorch.

It defines `pattern` and `replacement`, which take the same tensors, and `example`, which returns such tensors; their
sizes stand for any. Inductor's own matcher of patterns finds what computes `pattern` in a graph of ATen operators.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import torch


class Own:
    """The rewrites of some files.

    Parameters
    ----------
    sources
        The text of each file by the name of its strategy.

    Attributes
    ----------
    errors
        What is wrong with a file, by name.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._passes: dict[str, Any] = {}
        self.errors: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all."""
        return tuple(self._sources)

    def apply(self, name: str, graph: torch.fx.Graph) -> int:
        """Rewrite a graph in place; returns how many times the pattern was found, 0 where the file is wrong."""
        try:
            if name not in self._passes:
                self._passes[name] = _pass(name, self._sources[name])
            return int(self._passes[name].apply(graph))
        except Exception as error:  # noqa: BLE001 - somebody else's code may raise anything
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
            line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
            where = f"line {line}: " if line else ""
            said = str(error).strip().partition("\n")[0][:300] or "it is not said what is wrong"
            self.errors[name] = f"{where}{type(error).__name__}: {said}"
            return 0


def _pass(name: str, source: str) -> Any:
    from torch._inductor import pattern_matcher

    scope: dict[str, Any] = {"__name__": "stark_strategy"}
    exec(compile(source, name, "exec"), scope)
    missing = [one for one in ("pattern", "replacement", "example") if not callable(scope.get(one))]
    if missing:
        raise TypeError(f"it defines no function {missing[0]}")
    example = scope["example"]()
    made = pattern_matcher.PatternMatcherPass()
    pattern_matcher.register_replacement(
        scope["pattern"],
        scope["replacement"],
        list(example) if isinstance(example, (tuple, list)) else [example],
        pattern_matcher.fwd_only,
        made,
    )
    return made
