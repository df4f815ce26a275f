"""Faults in a row: how often something outside the candidates may break before the search stops."""

from __future__ import annotations

import traceback

from stark_lsp.core.errors import Fault, NotNow, StarkError


class FaultStreak:
    """Counts for each part of the search its faults since it worked last.

    Parameters
    ----------
    limit
        The fault of one part with this number stops the search.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}
        self._who = ""
        self._last: Exception | None = None

    @property
    def open(self) -> bool:
        """Whether the part that broke last has not worked since."""
        return self._who in self._counts

    def worked(self, who: str) -> None:
        """Start counting again for `who`."""
        self._counts.pop(who, None)

    def note(self, who: str, error: Exception) -> str:
        """Count one more fault and return a sentence on it.

        Parameters
        ----------
        who
            What broke, for instance "The judge".
        error
            What it raised.

        Raises
        ------
        Fault
            There were now as many in a row as allowed, or trying again is of no use; the text is the diagnosis.
        """
        self._counts[who] = self._counts.get(who, 0) + 1
        self._who, self._last = who, error
        if self._counts[who] >= self._limit or isinstance(error, NotNow):
            raise self.diagnosis() from error
        return f"{who} failed: {_reason(error)} Trying again."

    def diagnosis(self) -> Fault:
        """Return the fault to stop with."""
        error = self._last
        if error is None:
            raise ValueError("there was no fault")
        count = self._counts.get(self._who, 1)
        times = "once" if count == 1 else f"{count} times in a row"
        known = error if isinstance(error, StarkError) else None
        return Fault(
            f"{self._who} failed {times}, so the search stopped. The last time: {_reason(error)}",
            cure=(known.cure if known else "") or "The attempts so far are kept; resume the run when this is mended.",
            path=known.path if known else None,
            line=known.line if known else None,
            details=(known.details if known else "") or "".join(traceback.format_exception(error)),
        )


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, StarkError) else f"{type(error).__name__}: {error}"
    return text if text.endswith(".") else f"{text}."
