"""Recorded: the selections of an earlier run once more, to replay it from its transcript."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from random import Random

from stark_lsp.search.eligibility import Standing
from stark_lsp.search.policies.policy import Policy


class Recorded:
    """Follows a list; made by whoever replays, not by name.

    Attempts are made in the order of their numbers, whatever order their verdicts came in: a node's number is above
    that of its parent, so its parent is judged by then.

    Parameters
    ----------
    parents
        For each attempt the node it started from.
    usual
        The policy that selected then. It draws what it would have drawn, so that the seeds of attempts, and with them
        their windows, come out as they did; what it selects is not used.
    """

    def __init__(self, parents: Mapping[int, int], usual: Policy | None = None) -> None:
        self._parents = dict(parents)
        self._numbers = sorted(parents)
        self._usual = usual

    def number(self, free: int, there: Callable[[int], bool] = lambda _: True) -> int | None:
        """Return the number of the first attempt on the list that is not below `free`, None after the last.

        Parameters
        ----------
        free
            The least number that is not taken.
        there
            Whether a node is in the tree, or will be; attempts on others are left out.
        """
        numbers = self._numbers[bisect_left(self._numbers, free) :]
        return next((number for number in numbers if there(self._parents[number])), None)

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node that attempt `standing.attempt` started from.

        None if the list has no such attempt, or the node has no verdict yet.
        """
        if self._usual is not None:
            self._usual.select(standing, rng)
        parent = self._parents.get(standing.attempt)
        if parent is None or parent in standing.closed:
            return None
        node = standing.tree.nodes.get(parent)
        return None if node is None or node.verdict is None else parent
