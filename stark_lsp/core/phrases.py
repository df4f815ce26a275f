"""What statuses are called wherever a person reads them; the wire form has the names of the enums."""

from __future__ import annotations

from stark_lsp.core.status import VerdictStatus

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
