"""Arguments that are no tensors, but may hold some, as tuples, lists and dicts do: a program takes each of these."""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from .frames import NotTraceable

_NAME = re.compile(r"[^'\"\\\x00-\x1f]*")


class Items:
    """What an argument holds, down to its tensors.

    Parameters
    ----------
    value, expression
        The argument, and what it is called in `forward`.

    Raises
    ------
    NotTraceable
        It is, or holds, neither tensor nor plain value, or a dict with keys that are neither words nor numbers.
    """

    def __init__(self, value: Any, expression: str) -> None:
        self.tensors: list[tuple[str, torch.Tensor]] = []
        """Each with its expression."""
        self.asks: list[str] = []
        """The conditions that it is of such kinds and lengths, and holds such plain values."""
        self.text = self._written(value, expression)
        """How it is written, for `str.format` with the tensors."""

    def told(self) -> dict[str, Any]:
        """Return it as JSON values, tensors by their expressions."""
        return {"text": self.text, "tensors": [text for text, _ in self.tensors], "asks": self.asks}

    def _written(self, value: Any, at: str) -> str:
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            self.tensors.append((at, value))
            return "{}"
        kind = type(value).__name__
        if type(value) in (tuple, list):
            self.asks.append(f"type({at}) is {kind} and len({at}) == {len(value)}")
            inside = ", ".join(self._written(one, f"{at}[{place}]") for place, one in enumerate(value))
            return f"[{inside}]" if type(value) is list else f"({inside}{',' * (len(value) == 1)})"
        if type(value) is dict:
            odd = [one for one in value if type(one) is not int and not (type(one) is str and _NAME.fullmatch(one))]
            if odd:
                raise NotTraceable(f"its input {at} is a dict with the key {odd[0]!r}")
            self.asks.append(f"type({at}) is dict and [*{at}] == {[*value]}")
            pairs = [(_plain(name), self._written(one, f"{at}[{name!r}]")) for name, one in value.items()]
            return "{{" + ", ".join(map(": ".join, pairs)) + "}}"
        if not (value is None or type(value) in (bool, int, float, str)):
            raise NotTraceable(f"its input {at} is a {kind}")
        if isinstance(value, float) and not math.isfinite(value):
            raise NotTraceable(f"its input {at} is {value}")
        plainly = value is None or isinstance(value, bool)  # a tensor of one number equals that number
        self.asks.append(f"{at} is {value}" if plainly else f"type({at}) is {kind} and {at} == {value!r}")
        return _plain(value)


def _plain(value: Any) -> str:
    return repr(value).replace("{", "{{").replace("}", "}}")
