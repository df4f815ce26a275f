"""Verdicts by source: the same candidate is judged once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.roles import Judge
from stark_lsp.core.run import Node
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.tree import is_empty

_Key = tuple[str, str]


class VerdictBook:
    """Asks the judge, unless the same source was judged before or is being judged.

    Parameters
    ----------
    judge
        Evaluates a candidate seen for the first time.
    nodes
        Nodes with verdicts from before; those that nobody judged as candidates are left out: the root and empty ones.
    """

    def __init__(self, judge: Judge, nodes: Iterable[Node]) -> None:
        self._judge = judge
        self._under_way: dict[_Key, asyncio.Event] = {}
        self._known: dict[_Key, Verdict] = {}
        for node in nodes:
            if node.parent is not None and node.verdict is not None and not is_empty(node):
                # What was tried on the way to a source is no part of the verdict on it.
                self._known.setdefault(_key(node.candidate), replace(node.verdict, tuned="", swept=()))

    async def verdict(self, candidate: Candidate) -> Verdict:
        """Return the verdict on `candidate`.

        Raises
        ------
        Fault
            The judge could not do its work.
        """
        key = _key(candidate)
        while key not in self._known and key in self._under_way:
            await self._under_way[key].wait()
        if key in self._known:
            return self._known[key]
        done = self._under_way[key] = asyncio.Event()
        try:
            verdict = await self._judge.evaluate(candidate)
            self._known[key] = verdict
            return verdict
        finally:
            del self._under_way[key]
            done.set()


def _key(candidate: Candidate) -> _Key:
    """Return what makes two candidates the same; the text itself, since a model may write what UTF-8 cannot encode."""
    return candidate.source, candidate.class_name
