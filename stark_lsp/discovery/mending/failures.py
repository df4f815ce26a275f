"""What a try of a draft's inputs failed with, as the worker tells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STAGES = ("init", "construct", "inputs", "forward", "output")
"""What a try goes through, in order."""


@dataclass(frozen=True)
class Parameter:
    """A parameter as the interpreter knows it, those of imported bases too."""

    name: str
    required: bool
    kind: str
    """As `inspect` calls it."""
    annotation: str


@dataclass(frozen=True)
class Failure:
    """What a try failed with."""

    stage: str
    steps: int
    """Calls of torch that `forward` made before."""
    kind: str
    """Class of the exception."""
    message: str
    said: str
    """Class and message in one line, for people."""
    statements: tuple[Mapping[str, Any], ...] = ()
    """The outermost and the innermost statement of the class itself: `text`, and `names` that stand for numbers."""
    facts: tuple[Mapping[str, Any], ...] = ()
    """Comparisons, remainders and look-ups around the failing lines, innermost first: `op`, `left`, `right`,
    `values`."""
    module: Mapping[str, Any] = field(default_factory=dict)
    """The innermost module that was called: its `sizes`, `weights`, and the `shapes` it was given."""
    own: Mapping[str, int] = field(default_factory=dict)
    """Sizes that the class and its configuration hold, by name."""
    unset: tuple[str, ...] = ()
    """Names that stood for None in the innermost failing statements, and fields of configurations like them."""
    nothing: tuple[str, ...] = ()
    """Variables that stood for None in the innermost failing statement."""
    init: tuple[Parameter, ...] = ()
    forward: tuple[Parameter, ...] = ()

    @property
    def progress(self) -> tuple[int, int]:
        """How far it came; more is better."""
        return STAGES.index(self.stage) if self.stage in STAGES else 0, self.steps

    @property
    def numbers(self) -> list[int]:
        """The whole numbers of the message, in order, each once."""
        return list(dict.fromkeys(int(number) for number in re.findall(r"(?<![\w.])\d{1,9}(?![\w.]*\d)", self.message)))

    def named(self) -> set[str]:
        """Return the words of the failing statements."""
        return {word for statement in self.statements for word in re.findall(r"\w+", str(statement.get("text", "")))}


def read_failure(answer: Mapping[str, Any]) -> Failure:
    """Read what the worker told."""
    of = answer.get("of") or {}

    def listed(name: str) -> tuple[Parameter, ...]:
        return tuple(Parameter(p["name"], p["required"], p["kind"], p["annotation"]) for p in of.get(name) or ())

    return Failure(
        stage=str(answer["stage"]),
        steps=int(answer["steps"]),
        kind=str(answer["kind"]),
        message=str(answer["message"]),
        said=str(answer["said"]),
        statements=tuple(answer.get("statements") or ()),
        facts=tuple(answer.get("facts") or ()),
        module=answer.get("module") or {},
        own=answer.get("own") or {},
        unset=tuple(answer.get("unset") or ()),
        nothing=tuple(answer.get("nothing") or ()),
        init=listed("init"),
        forward=listed("forward"),
    )
