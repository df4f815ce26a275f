"""Anchors that stay with their lines while a person edits the document.

Edits come in as the editor reports them (start, end, new text); a client that sends the whole text each time
is served by comparing it with the last one. An anchor moves with edits above it, stays with those below,
grows and shrinks with those inside, and is gone when its text is. It comes back when the text does, for
instance by undo.

The tracker keeps the lines of each anchor, not the document: an edit costs the same in a file of any length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stark_lsp.core.editing import LINE_END, split_lines
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Span

Position = tuple[int, int]
"""0-based line and column in code points."""


@dataclass
class _Tracked:
    anchor: Anchor
    start: int
    lines: list[str]
    """The anchor's lines as they are now."""
    alive: bool = True

    @property
    def end(self) -> int:
        return self.start + len(self.lines) - 1

    @property
    def span(self) -> Span | None:
        return Span(self.start, self.end) if self.alive else None


class AnchorTracker:
    """Follows the anchors of one plan through the edits of its document.

    Parameters
    ----------
    anchors
        As the plan has them; their spans are valid for the document as it stands now.
    text
        That document, if the caller has it at hand; only `resync` profits.
    """

    def __init__(self, anchors: Sequence[Anchor], text: str | None = None) -> None:
        self._tracked = [_Tracked(anchor, anchor.span.start, _anchor_lines(anchor)) for anchor in anchors]
        self._text = text

    def anchors_now(self) -> list[tuple[Anchor, Span | None]]:
        """Return each anchor with its lines in today's document, None if its text is gone."""
        return [(tracked.anchor, tracked.span) for tracked in self._tracked]

    def apply(self, start: Position, end: Position, new_text: str) -> None:
        """Follow one edit: the text from `start` to `end` (exclusive) became `new_text`.

        Positions are 0-based lines and columns in code points, in the document right before the edit.
        """
        self._text = None
        for tracked in self._tracked:
            _edit(tracked, start, end, new_text)

    def resync(self, text: str) -> None:
        """Follow a change that is only known by the whole new text."""
        known = self._text
        if known is not None and known != text:
            start, end, new_text = _difference(known, text)
            for tracked in self._tracked:
                _edit(tracked, start, end, new_text)
        if known is None or any(not tracked.alive for tracked in self._tracked):
            lines = split_lines(text)
            for tracked in self._tracked:
                if known is None or not tracked.alive:
                    _find(tracked, lines)
        self._text = text


def moved(anchors: Sequence[Anchor], before: str, after: str) -> tuple[Anchor, ...]:
    """Return the anchors of one text as anchors of another; those whose text is gone are left out."""
    tracker = AnchorTracker(anchors, before)
    tracker.resync(after)
    lines = split_lines(after)
    return tuple(
        replace(anchor, span=span, text="\n".join(lines[span.start : span.end + 1]))
        for anchor, span in tracker.anchors_now()
        if span is not None
    )


def _anchor_lines(anchor: Anchor) -> list[str]:
    """Return the anchor's lines, exactly as many as its span has."""
    lines = LINE_END.split(anchor.text)
    count = anchor.span.end - anchor.span.start + 1
    return (lines + [""] * count)[:count]


def _edit(tracked: _Tracked, start: Position, end: Position, new_text: str) -> None:
    added = LINE_END.split(new_text)
    delta = len(added) - 1 - (end[0] - start[0])
    if not tracked.alive:
        place = _locate(tracked.lines, added, 0)
        if place is not None:
            tracked.start, tracked.alive = start[0] + place, True
        elif end[0] <= tracked.start:
            tracked.start = max(0, tracked.start + delta)
        return
    first, last, lines = tracked.start, tracked.end, tracked.lines
    whole_lines = added[-1] == "" and (len(added) > 1 or start[1] == 0)
    if end[0] < first or (end == (first, 0) and whole_lines):
        tracked.start += delta
        return
    at_end = start[0] == last and start[1] >= len(lines[-1]) and end[0] == last
    if start[0] > last or (at_end and added[0] == "" and len(added) > 1):
        return
    from_first = start[0] < first or (start[0] == first and not lines[0][: start[1]].strip())
    to_last = end[0] > last or (end[0] == last and not lines[-1][end[1] :].strip())
    if from_first and to_last:
        _replaced(tracked, start, added)
        return
    if start[0] < first:
        tracked.lines = [lines[end[0] - first][end[1] :], *lines[end[0] - first + 1 :]]
        tracked.start = start[0] + len(added) - 1
    elif end[0] > last:
        kept = lines[: start[0] - first]
        tracked.lines = [*kept, lines[start[0] - first][: start[1]] + added[0]]
    else:
        middle = list(added)
        middle[0] = lines[start[0] - first][: start[1]] + middle[0]
        middle[-1] += lines[end[0] - first][end[1] :]
        tracked.lines = [*lines[: start[0] - first], *middle, *lines[end[0] - first + 1 :]]
    _trim(tracked)


def _replaced(tracked: _Tracked, start: Position, added: list[str]) -> None:
    """The whole text of an anchor was replaced: it lives on where the new text still says it."""
    place = _locate(tracked.lines, added, max(0, tracked.start - start[0]))
    if place is None:
        similar = _locate_similar(tracked.lines, added, max(0, tracked.start - start[0]))
        if similar is None:
            tracked.alive = False
            tracked.start = start[0]
            return
        place = similar.start
        tracked.lines = added[similar.start : similar.end + 1]
    tracked.start = start[0] + place
    _trim(tracked)


def _trim(tracked: _Tracked) -> None:
    """Drop blank lines at the ends; an anchor of nothing but blank lines is gone."""
    while len(tracked.lines) > 1 and not tracked.lines[-1].strip():
        tracked.lines.pop()
    while len(tracked.lines) > 1 and not tracked.lines[0].strip():
        tracked.lines.pop(0)
        tracked.start += 1
    if not tracked.lines[0].strip():
        tracked.alive = False
        tracked.lines = _anchor_lines(tracked.anchor)


def _find(tracked: _Tracked, lines: list[str]) -> None:
    """Find an anchor by what it says, nearest to where it was."""
    for wanted in (tracked.lines, _anchor_lines(tracked.anchor)):
        place = _locate(wanted, lines, tracked.start)
        if place is not None:
            tracked.start, tracked.lines, tracked.alive = place, list(wanted), True
            return
    similar = _locate_similar(tracked.lines, lines, tracked.start) if tracked.alive else None
    if similar is None:
        tracked.alive = False
        return
    tracked.start, tracked.lines = similar.start, lines[similar.start : similar.end + 1]
    _trim(tracked)


def _locate(wanted: list[str], lines: list[str], near: int) -> int | None:
    """Return where `wanted` stands in `lines`, line for line but for indentation; the place nearest to `near`."""
    bare = [line.strip() for line in wanted]
    if not any(bare) or len(bare) > len(lines):
        return None
    key = max(range(len(bare)), key=lambda index: len(bare[index]))
    places = [
        number - key
        for number, line in enumerate(lines)
        if bare[key] in line
        and 0 <= number - key <= len(lines) - len(bare)
        and all(lines[number - key + offset].strip() == text for offset, text in enumerate(bare))
    ]
    return min(places, key=lambda place: abs(place - near)) if places else None


def _locate_similar(wanted: list[str], lines: list[str], near: int) -> Span | None:
    """Return where at least half of the lines of `wanted` stand in their order, None if nowhere."""
    bare = [line.strip() for line in wanted]
    telling = [text for text in bare if text]
    offsets: dict[str, list[int]] = {}
    for index, text in enumerate(bare):
        if text:
            offsets.setdefault(text, []).append(index)
    votes: Counter[int] = Counter()
    for number, line in enumerate(lines):
        for index in offsets.get(line.strip(), ()):
            votes[number - index] += 1
    if not votes:
        return None
    best = max(votes, key=lambda place: (votes[place], -abs(place - near)))
    if 2 * votes[best] < len(telling) or (len(telling) > 1 and votes[best] < 2):
        return None
    start = max(0, best)
    reach = range(min(len(lines), best + 2 * len(bare) + 10) - 1, start - 1, -1)
    end = next((number for number in reach if lines[number].strip() == telling[-1]), None)
    return Span(start, end if end is not None else max(start, min(best + len(bare), len(lines)) - 1))


def _difference(before: str, after: str) -> tuple[Position, Position, str]:
    """Return the one edit that turns `before` into `after`: what lies between their common ends."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    if LINE_END.search(before, head, len(before) - tail) or LINE_END.search(after, head, len(after) - tail):
        # Whole lines: a cut in the middle of a line says less about what moved where.
        head = before.rfind("\n", 0, head) + 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    line_start = max(before.rfind("\n", 0, head), before.rfind("\r", 0, head)) + 1
    line = len(LINE_END.findall(before, 0, line_start))
    first_column = head - line_start
    ends = list(LINE_END.finditer(old))
    column = len(old) - ends[-1].end() if ends else first_column + len(old)
    return (line, first_column), (line + len(ends), column), new


def _common(a: str, b: str) -> int:
    """Return the length of the common beginning, by bisection (slices compare at memory speed)."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
