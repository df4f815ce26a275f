"""What statuses are called wherever a person reads them; the wire form has the names of the enums."""

from __future__ import annotations

from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Verdict

STATUS = {
    VerdictStatus.OK: "verified",
    VerdictStatus.REFUSED: "refused",
    VerdictStatus.COMPILE_ERROR: "did not compile",
    VerdictStatus.LOAD_ERROR: "did not load",
    VerdictStatus.RUNTIME_ERROR: "raised an error",
    VerdictStatus.OUT_OF_MEMORY: "ran out of memory",
    VerdictStatus.TIMED_OUT: "took too long",
    VerdictStatus.WRONG_SHAPE: "wrong shape",
    VerdictStatus.WRONG_DTYPE: "wrong dtype",
    VerdictStatus.WRONG_RESULT: "wrong result",
    VerdictStatus.NOT_FINITE: "NaN or infinity",
    VerdictStatus.MUTATED_INPUT: "changed its input",
    VerdictStatus.NONDETERMINISTIC: "not repeatable",
    VerdictStatus.CHEATED: "cheated",
    VerdictStatus.CRASHED: "crashed",
    VerdictStatus.NO_CANDIDATE: "no candidate",
}
"""What a verdict is called."""


def caveat(verdict: Verdict) -> str:
    """Say that a candidate is faster than eager with gradients only, or without them only, or slower where one trains.

    Empty if it is not so.
    """
    here, there, trained = verdict.speedup_vs_eager, verdict.speedup_without_gradients, verdict.speedup_with_backward
    if not verdict.ok or here is None:
        return ""
    told = []
    if there is not None and (here.low > 1) != (there.low > 1):
        # With its interval: a median of 1.35 may have 0.97 in it.
        other = there if here.low > 1 else here
        shown = f"{other.value:.2f}x, {other.low:.2f} to {other.high:.2f}"
        if here.low > 1:
            told.append(f"faster beyond doubt only where gradients are recorded ({shown}, under torch.no_grad())")
        else:
            told.append(f"faster beyond doubt only under torch.no_grad() ({there.value:.2f}x; {shown}, with gradients)")
    if trained is not None and trained.high < 1:
        told.append(f"slower where it is trained ({trained.value:.2f}x with backward)")
    return ", ".join(told)
