"""How a search comes to its verdicts: from the judge or from what it judged before, after a fault again; then tuned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from stark_lsp.core.errors import BadInput
from stark_lsp.core.roles import Judge
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.faults import FaultStreak
from stark_lsp.search.sweep import declared, misdeclared, sweep
from stark_lsp.search.tunable import NAME, Misdeclared, read
from stark_lsp.search.verdicts import VerdictBook

JUDGE = "The judge"


class Judging:
    """The judge, as the attempts of one search ask it.

    Parameters
    ----------
    judge
        Evaluates candidates.
    nodes
        Those that have a verdict already.
    settings
        Whether, how often and for how long constants are tuned.
    faults
        Counts what goes wrong.
    say
        Told what goes on.
    stopped
        Whether the search begins nothing more.
    clock
        Seconds.
    """

    def __init__(
        self,
        judge: Judge,
        nodes: Iterable[Node],
        settings: SearchSettings,
        faults: FaultStreak,
        *,
        say: Callable[[str], None],
        stopped: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._judge = judge
        self._book = VerdictBook(judge, nodes)
        self._settings = settings
        self._faults = faults
        self._say = say
        self._stopped = stopped
        self._clock = clock

    async def first(self, node: Node) -> Verdict | None:
        """Return the verdict that decides whether a node is corrected; None if the search was stopped meanwhile.

        Raises
        ------
        BadInput
            The user must change something.
        Fault
            There were too many in a row.
        """
        if node.verdict is not None:
            return node.verdict
        wrong = await misdeclared(node.candidate) if self._settings.tune else None
        return wrong or await self._verdict(node)

    def untuned(self, node: Node) -> bool:
        """Whether a verified node still leaves constants open: what is tuned declares none any more."""
        source = node.candidate.source
        if not self._settings.tune or node.verdict is None or not node.verdict.ok or NAME not in source:
            return False
        try:
            return read(source) is not None
        except Misdeclared:
            return False

    async def judged(self, node: Node, keep: Callable[[Node], Awaitable[None]]) -> Node | None:
        """Return the node with its verdict, and with the best values of what it leaves open.

        Parameters
        ----------
        keep
            Takes the node as it was written, with its verdict, before it is tuned, which may be cut off.

        Returns
        -------
        Node or None
            None if the search was stopped meanwhile.

        Raises
        ------
        BadInput, Fault
            As for `first`.
        """
        verdict = await self._verdict(node)
        if verdict is None:
            return None
        kept, node = node.verdict is not None, replace(node, verdict=verdict)
        if not self._settings.tune or node.failed:
            return node
        try:
            tunable = await declared(node.candidate)
        except Misdeclared as reason:
            return replace(node, candidate=replace(node.candidate, remark=f"Nothing was tuned: {reason}"))
        if tunable is None:
            return node
        if not kept:
            await keep(node)
        until = self._clock() + self._settings.tune_s
        return await sweep(
            node,
            tunable,
            self._settings.tune,
            glance=lambda candidate: self._asked(lambda: self._judge.glance(candidate)),
            judge=self._verdict,
            over=lambda: self._stopped() or self._clock() >= until,
            say=self._say,
        )

    async def _verdict(self, node: Node) -> Verdict | None:
        self._say(f"Checking attempt {node.id}")
        return await self._asked(lambda: self._book.verdict(node.candidate))

    async def _asked(self, ask: Callable[[], Awaitable[Verdict]]) -> Verdict | None:
        """Ask for a verdict as often as faults allow; None if the search was stopped meanwhile."""
        while True:
            begun = self._faults.mark
            try:
                verdict = await ask()
                self._faults.worked(JUDGE)
                return verdict
            except BadInput:
                raise
            except Exception as error:  # noqa: BLE001 - whatever breaks in the judge is told and counted
                self._say(self._faults.note(JUDGE, error, begun=begun))
                if self._stopped():
                    return None
