"""Which attempts their times tell apart: those whose 95 % intervals do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

from stark_lsp.core.run import Node


def alike(nodes: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of attempts, by id, in each of which all intervals overlap; the fastest group first.

    Intervals are those of the speed-up against the reference, which was timed in turns with each of them; where one
    attempt has none, of the time of a call. An attempt may be in several groups: that two are like a third one does
    not make them alike. Attempts that were not timed, and the reference, are in none.
    """
    timed = {node.id: node.verdict for node in nodes if node.parent is not None and node.verdict is not None}
    ratios = {i: v.speedup_vs_eager for i, v in timed.items() if v.runtime is not None}
    spans: dict[int, tuple[float, float]] = {i: (r.low, r.high) for i, r in ratios.items() if r is not None}
    if len(spans) < len(ratios):
        # Negative, so that more is faster here too.
        spans = {i: (-v.runtime.high_ms, -v.runtime.low_ms) for i, v in timed.items() if v.runtime is not None}
    groups: list[set[int]] = []
    # Each group whose intervals all overlap has the greatest of their lower ends in common.
    for at in sorted({low for low, _ in spans.values()}, reverse=True):
        group = {i for i, (low, high) in spans.items() if low <= at <= high}
        if len(group) > 1 and not any(group <= other for other in groups):
            groups = [other for other in groups if not other <= group]
            groups.append(group)
    return tuple(tuple(sorted(group)) for group in groups)
