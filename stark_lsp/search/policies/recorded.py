"""Recorded: the selections of an earlier run once more, to replay it from its transcript."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from random import Random

from stark_lsp.search.eligibility import Standing


class Recorded:
    """Follows a list; made by whoever replays, not by name.

    Attempts are made in the order of their numbers, whatever order their verdicts came in: a node's number is above
    that of its parent, so its parent is judged by then.

    Parameters
    ----------
    parents
        For each attempt the node it started from.
    """

    def __init__(self, parents: Mapping[int, int]) -> None:
        self._parents = dict(parents)
        self._numbers = sorted(parents)

    def number(self, free: int) -> int | None:
        """Return the number of the first attempt on the list that is not below `free`, None after the last."""
        at = bisect_left(self._numbers, free)
        return self._numbers[at] if at < len(self._numbers) else None

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node that attempt `standing.attempt` started from.

        None if the list has no such attempt, or the node has no verdict yet.
        """
        parent = self._parents.get(standing.attempt)
        if parent is None or parent in standing.closed:
            return None
        node = standing.tree.nodes.get(parent)
        return None if node is None or node.verdict is None else parent
