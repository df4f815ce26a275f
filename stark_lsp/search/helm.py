"""The helm: what the user's steering means for selection and contexts (`core/steering.py` has the words)."""

from __future__ import annotations

from collections.abc import Set

from stark_lsp.core.steering import Course, Hint
from stark_lsp.search.tree import Tree


class Helm:
    """Holds the course and what follows from it for the tree.

    Parameters
    ----------
    tree
        The tree that is steered in.
    attempts
        Budget of attempts as long as the user changed nothing.
    """

    def __init__(self, tree: Tree, attempts: int) -> None:
        self._tree = tree
        self._attempts = attempts
        self._course = Course()
        self._pruned: set[int] = set()

    @property
    def course(self) -> Course:
        """What all steering so far adds up to."""
        return self._course

    @property
    def attempts(self) -> int:
        """Budget of attempts."""
        return self._attempts if self._course.budget is None else self._course.budget.attempts

    @property
    def pruned(self) -> Set[int]:
        """All nodes at or below one that was given up."""
        return self._pruned

    def steer(self, course: Course) -> None:
        """Take a new course."""
        self._course = course
        self._pruned = set()
        for node_id in course.pruned:
            if node_id in self._tree.nodes:
                self._pruned |= self._tree.subtree(node_id)
        self._tree.given_up = self._pruned

    def added(self, node_id: int) -> None:
        """A node came into the tree; below a pruned one it is given up as well."""
        if node_id in self._course.pruned or self._tree.nodes[node_id].parent in self._pruned:
            self._pruned.add(node_id)

    def hints(self, node_id: int) -> tuple[Hint, ...]:
        """Return the hints for the whole run, and for this node and those above it, in the order they were given."""
        if not self._course.hints:
            return ()
        line = {None, node_id, *self._tree.ancestors(node_id)}
        return tuple(hint for hint in self._course.hints if hint.node in line)
