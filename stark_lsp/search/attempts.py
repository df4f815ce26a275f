"""Attempts under way: which were begun, on which node, with which seed and number.

An attempt has the number that its node will have, from its beginning: whoever keeps what was asked and answered for
it can be sure of the number. Numbers grow, since a node must have a higher one than its parent. The number of an
attempt that made no node is given again, unless something may have been asked under it (`burn`) or a higher one is
taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stark_lsp.search.tree import Tree


@dataclass(frozen=True)
class Attempt:
    """One expansion of one node, from the selection until its child exists."""

    id: int
    """Id that its node will have."""
    selected: int
    """The node it started from."""
    seed: int
    """Seeds the generators that windows and agents draw from."""


class Attempts:
    """Book of the attempts under way.

    Parameters
    ----------
    tree
        The tree their nodes go to.
    begun
        Attempts that an earlier process began and did not end.
    floor
        Numbers below this one were given before and are not given again.
    """

    def __init__(self, tree: Tree, begun: Iterable[Attempt] = (), floor: int = 0) -> None:
        self._tree = tree
        self._floor = floor
        self._open: dict[int, Attempt] = {}
        self._busy: Counter[int] = Counter()
        for attempt in begun:
            # What was recorded as begun may have got its node in the same breath; a node without its parent is none.
            if attempt.id not in tree.nodes and attempt.selected in tree.nodes:
                self._enter(attempt)

    @property
    def open(self) -> tuple[Attempt, ...]:
        """Attempts without a node, in order of their numbers."""
        return tuple(self._open[number] for number in sorted(self._open))

    @property
    def busy(self) -> Mapping[int, int]:
        """For each node with such attempts, how many."""
        return self._busy

    @property
    def floor(self) -> int:
        """The least number that was never given, as far as that matters."""
        return self._floor

    @property
    def free(self) -> int:
        """The number of the next attempt."""
        return max([self._floor, self._tree.next_id(), *(number + 1 for number in self._open)])

    def begin(self, selected: int, seed: int, number: int | None = None) -> Attempt:
        """Return a new attempt on a node.

        Parameters
        ----------
        selected
            The node.
        seed
            Seeds its generators.
        number
            A number above all that are taken; None takes the next one.

        Raises
        ------
        ValueError
            The number is too low.
        """
        free = self.free
        if number is not None and number < free:
            raise ValueError(f"attempt {number} was begun before; the next one is {free}")
        attempt = Attempt(free if number is None else number, selected, seed)
        self._enter(attempt)
        return attempt

    def end(self, attempt: Attempt, *, burn: bool = False) -> None:
        """Strike an attempt from the book: its node is in the tree, or it has none.

        Parameters
        ----------
        attempt
            Which one.
        burn
            Never give its number again.
        """
        if self._open.pop(attempt.id, None) is None:
            return
        self._busy[attempt.selected] -= 1
        if self._busy[attempt.selected] <= 0:
            del self._busy[attempt.selected]
        if burn:
            self._floor = max(self._floor, attempt.id + 1)

    def _enter(self, attempt: Attempt) -> None:
        self._open[attempt.id] = attempt
        self._busy[attempt.selected] += 1
