"""Metering: how a model that asks again tells what the tries that failed cost.

A service bills what it answered before a connection broke. A model that asks again by itself says so before each
further try, so that the purse can take the loss and set money aside for the next one.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stark_lsp.core.conversation import Answer, Question, Usage


class Meter(Protocol):
    """Hears of tries that failed and were, or may be, billed."""

    async def lost(self, usage: Usage) -> None:
        """Take a try that was billed and gave no answer; return when another one may be made.

        Raises
        ------
        BudgetSpent
            Another try could cost more than is left.
        """
        ...

    def gone(self, usage: Usage) -> None:
        """Take a try that was billed and after which none follows."""
        ...


@runtime_checkable
class MeteredModel(Protocol):
    """A model that asks again by itself, and tells a meter."""

    async def ask_metered(self, question: Question, meter: Meter) -> Answer:
        """Answer as `Model.ask` does; what `meter` was told of is not in the answer's usage.

        Raises
        ------
        Fault, BadInput, BudgetSpent
            As `Model.ask` does.
        """
        ...


class Tally:
    """A meter that only adds up."""

    def __init__(self) -> None:
        self.usage = Usage()
        """Of all tries that gave no answer."""

    async def lost(self, usage: Usage) -> None:
        """Add a try after which another one follows."""
        self.usage += usage

    def gone(self, usage: Usage) -> None:
        """Add the last try."""
        self.usage += usage
