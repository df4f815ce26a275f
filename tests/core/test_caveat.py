"""What is faster in some calls only says so first."""

from __future__ import annotations

import pytest

from stark_lsp.core.phrases import caveat
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Interval, Verdict

FASTER, SAME, SLOWER = Interval(2.0, 1.9, 2.1), Interval(1.0, 0.9, 1.1), Interval(0.8, 0.7, 0.9)


@pytest.mark.parametrize(
    ("here", "there", "trained", "words"),
    [
        (FASTER, FASTER, FASTER, ""),
        (SAME, SAME, SAME, ""),
        (FASTER, None, None, ""),
        (
            FASTER,
            SAME,
            SAME,
            "faster beyond doubt only where gradients are recorded (1.00x, 0.90 to 1.10, under torch.no_grad())",
        ),
        (
            SAME,
            FASTER,
            None,
            "faster beyond doubt only under torch.no_grad() (2.00x; 1.00x, 0.90 to 1.10, with gradients)",
        ),
        (FASTER, FASTER, SLOWER, "slower where it is trained (0.80x with backward)"),
        (
            SAME,
            FASTER,
            SLOWER,
            "faster beyond doubt only under torch.no_grad() (2.00x; 1.00x, 0.90 to 1.10, with gradients), "
            "slower where it is trained (0.80x with backward)",
        ),
    ],
)
def test_the_first_line_says_it(here: Interval, there: Interval | None, trained: Interval | None, words: str) -> None:
    verdict = Verdict(
        VerdictStatus.OK, speedup_vs_eager=here, speedup_without_gradients=there, speedup_with_backward=trained
    )
    assert caveat(verdict) == words
