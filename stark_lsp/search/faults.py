"""Faults and mistakes in a row: how often something but the candidates may break before the search stops."""

from __future__ import annotations

import traceback

from stark_lsp.core.errors import Fault, NotNow, StarkError

SHORT = 200
"""Characters of what an unexpected error says."""
KEPT = "The attempts so far are kept; resume the run when this is mended."
REPORT = "The attempts so far are kept. Please report this with the log."


class FaultStreak:
    """Counts for each part of the search its faults since it worked last.

    Parameters
    ----------
    limit
        The fault of one part with this number stops the search.
    cure
        What to do then, where a fault names nothing itself.
    """

    def __init__(self, limit: int, cure: str = KEPT) -> None:
        self._limit = limit
        self._cure = cure
        self._counts: dict[str, int] = {}
        self._counted = 0
        self._newest: dict[str, int] = {}

    @property
    def mark(self) -> int:
        """What to remember when something is begun, for `note`: how many faults were counted so far."""
        return self._counted

    def worked(self, who: str) -> None:
        """Start counting again for `who`."""
        self._counts.pop(who, None)

    def note(self, who: str, error: Exception, then: str = "Trying again.", *, begun: int | None = None) -> str:
        """Count one more fault and return a sentence on it.

        An outage meets all that is under way. So of one part only that fault counts which comes of something begun
        after the last that counted: three in a row are three tries, one after the other, however many at a time.

        Parameters
        ----------
        who
            What broke, for instance "The judge".
        error
            What it raised.
        then
            What is done now.
        begun
            `mark` when what failed was begun; None always counts.

        Raises
        ------
        Fault
            There were now as many in a row as allowed, or trying again is of no use; the text is the diagnosis.
        """
        if begun is None or begun >= self._newest.get(who, 0):
            self._counted += 1
            self._newest[who] = self._counted
            self._counts[who] = self._counts.get(who, 0) + 1
        if self._counts.get(who, 0) >= self._limit or isinstance(error, NotNow):
            raise self._diagnosis(who, error) from error
        return f"{who} failed: {in_short(error)} {then}"

    def _diagnosis(self, who: str, error: Exception) -> Fault:
        """Return the fault to stop with."""
        count = self._counts.get(who, 1)
        times = "once" if count == 1 else f"{count} times in a row"
        known = error if isinstance(error, StarkError) else None
        return Fault(
            f"{who} failed {times}, so the search stopped. The last time: {in_short(error)}",
            cure=(known.cure if known else "") or self._cure,
            path=known.path if known else None,
            line=known.line if known else None,
            details=(known.details if known else "") or in_full(error),
        )


def in_short(error: Exception) -> str:
    """Return what an error says as a sentence; of one that nobody expected its type and the beginning of its text.

    That text may hold anything, such as parts of a model's answer: escape sequences, lone surrogates, no end.
    """
    if isinstance(error, StarkError):
        text = error.message
    else:
        said = str(error)[: 4 * SHORT]
        line = " ".join("".join(letter if letter.isprintable() else " " for letter in said).split())
        text = ": ".join([type(error).__name__, *([line[:SHORT]] if line else [])])
    return text if text.endswith(".") else f"{text}."


def in_full(error: Exception) -> str:
    """Return the traceback of an error, fit to be written to a log."""
    text = "".join(traceback.format_exception(error)).encode(errors="backslashreplace").decode()
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)
