"""What is faster with gradients only, or without only, says so first."""

from __future__ import annotations

import pytest

from stark_lsp.core.phrases import one_mode_only
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.verdict import Interval, Verdict

FASTER, SAME = Interval(2.0, 1.9, 2.1), Interval(1.0, 0.9, 1.1)


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        (FASTER, FASTER, ""),
        (SAME, SAME, ""),
        (FASTER, None, ""),
        (FASTER, SAME, "faster only where gradients are recorded (1.00x under torch.no_grad())"),
        (SAME, FASTER, "faster only under torch.no_grad() (2.00x)"),
    ],
)
def test_the_first_line_says_it(here: Interval, there: Interval | None, words: str) -> None:
    verdict = Verdict(VerdictStatus.OK, speedup_vs_eager=here, speedup_without_gradients=there)
    assert one_mode_only(verdict) == words
