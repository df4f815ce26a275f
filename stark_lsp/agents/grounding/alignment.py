"""When a plan changed more than comments: which lines it changed, and where its spans belong.

A plan is only to mark the source. Models sometimes rewrite it as well; their plan still counts, for the lines
of the *original* that its marks are about.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from itertools import groupby, takewhile
from operator import eq

from stark_lsp.agents.grounding.markers import parse, strip
from stark_lsp.agents.texts import omits
from stark_lsp.core.problem import Span
from stark_lsp.discovery.syntax import split_lines

# What is never ended ends with its line, or with the text, so that a text is gone through once whatever is in it.
_TOKEN = re.compile(
    r"#[^\r\n]*"
    r'|"""(?:[^"\\]|\\[\s\S]|"(?!""))*(?:"""|\\?\Z)'
    r"|'''(?:[^'\\]|\\[\s\S]|'(?!''))*(?:'''|\\?\Z)"
    r'|"(?:[^"\\\r\n]|\\(?:\r\n|[\s\S]))*(?:"|(?=[\r\n])|\\?\Z)'
    r"|'(?:[^'\\\r\n]|\\(?:\r\n|[\s\S]))*(?:'|(?=[\r\n])|\\?\Z)"
)
"""Strings and comments of Python."""
MUCH_ALIKE = 0.8
"""`difflib`'s ratio from which a line that is quoted wrongly is taken for another."""
_C_COMMENT = re.compile(r"//[^\r\n]*|/\*[^\r\n]*?(?:\*/|(?=[\r\n])|\Z)")


def check(original: str, annotated: str) -> tuple[int, ...]:
    """Return the 0-based lines of `original` that `annotated` changed in more than comments and spacing.

    Where lines were only added, it is the line they were added before (the last line at the end). Empty
    means that the plan did as it was told. Indentation counts, other spacing does not.
    """
    before, after = meaning(original), meaning(strip(annotated))
    changed: set[int] = set()
    for kind, first, last, _, _ in opcodes(before, after):
        if kind == "equal":
            continue
        if first < last:
            changed.update(number for number, _ in before[first:last])
        elif before:
            changed.add(before[min(first, len(before) - 1)][0])
    return tuple(sorted(changed))


def realign(original: str, annotated: str) -> tuple[Span | None, ...]:
    """Return where in `original` the spans of `annotated` belong, in the order of `parse(annotated).spans`.

    Lines are matched by what they say; rewritten lines stand for those they replaced. A span none of whose lines
    has a counterpart is None.
    """
    parsed = parse(annotated)
    if parsed.source == original:
        return parsed.spans
    before, after = meaning(original), meaning(parsed.source)
    counterpart: dict[int, tuple[int, int]] = {}
    for kind, first, last, new_first, new_last in opcodes(before, after):
        if kind == "equal":
            for offset in range(last - first):
                line = before[first + offset][0]
                counterpart[after[new_first + offset][0]] = (line, line)
        elif kind == "replace":
            place = (before[first][0], before[last - 1][0])
            for number, _ in after[new_first:new_last]:
                counterpart[number] = place
    spans: list[Span | None] = []
    for span in parsed.spans:
        places = [counterpart[line] for line in range(span.start, span.end + 1) if line in counterpart]
        spans.append(Span(min(p[0] for p in places), max(p[1] for p in places)) if places else None)
    return tuple(spans)


def located(original: str, excerpt: str, *, closely: bool = False) -> tuple[Span | None, ...]:
    """Return where in `original` the spans of `excerpt` stand, in the order of `parse(excerpt).spans`.

    An excerpt quotes marked lines as they stand, with or without lines around them, and leaves out the rest; inside a
    span a line of three dots stands for what is left out. Of several places at which the same lines stand the one
    counts whose neighbours are quoted too, else the first one behind the place before; a span that is not found is
    None. Blank lines and spacing do not matter. `closely` bears lines that are quoted wrongly, see `_closest`.
    """
    parsed = parse(excerpt)
    there, quoted = _words(original), _words(parsed.source)
    texts, quotes = [text for _, text in there], [text for _, text in quoted]
    found: list[Span | None] = []
    behind = 0
    for span in parsed.spans:
        run = [index for index, (line, _) in enumerate(quoted) if span.start <= line <= span.end]
        passages = [list(group) for dots, group in groupby(run, lambda index: omits(quotes[index])) if not dots]
        starts: list[int] = []
        for passage in passages[:1] + passages[1:][-1:]:
            start = _find(texts, quotes, passage[0], passage[-1] + 1, behind)
            if start is None and closely:
                start = _closest(texts, [quotes[index] for index in passage])
            if start is None or (starts and start < behind):
                starts = []
                break
            starts.append(start)
            behind = start + len(passage)
        found.append(Span(there[starts[0]][0], there[behind - 1][0]) if starts else None)
    return tuple(found)


def _find(texts: list[str], quotes: list[str], first: int, end: int, behind: int) -> int | None:
    """Return where `quotes[first:end]` stands in `texts`; None if nowhere."""
    size, wanted = end - first, quotes[first:end]
    starts = [at for at in range(len(texts)) if texts[at] == wanted[0] and texts[at : at + size] == wanted]
    alike = {
        at: _same(texts[:at][::-1], quotes[:first][::-1]) + _same(texts[at + size :], quotes[end:]) for at in starts
    }
    return max(starts, key=lambda at: (alike[at], at >= behind, -at), default=None)


def _closest(texts: list[str], wanted: list[str]) -> int | None:
    """Return the one place where at least half of the lines stand, or, of a single line, one much like it."""
    if len(wanted) == 1:
        much_alike = get_close_matches(wanted[0], texts, n=2, cutoff=MUCH_ALIKE)
        return texts.index(much_alike[0]) if len(much_alike) == 1 else None
    rows = range(len(texts) - len(wanted) + 1)
    equal = [sum(map(eq, texts[at : at + len(wanted)], wanted)) for at in rows]
    most = max(equal, default=0)
    return equal.index(most) if 2 * most >= len(wanted) and equal.count(most) == 1 else None


def _same(one: list[str], two: list[str]) -> int:
    """Return how many lines two texts have in common at their beginnings."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _words(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, each with its 0-based number, in uniform spacing without indentation."""
    return [(number, " ".join(line.split())) for number, line in enumerate(split_lines(text)) if line.strip()]


def meaning(text: str) -> list[tuple[int, str]]:
    """Return the lines that say something, each with its 0-based number, without comments and in uniform spacing."""

    def without_comment(found: re.Match[str]) -> str:
        token = found.group()
        if token.startswith("#"):
            return ""
        return _C_COMMENT.sub("", token) if token.startswith(('"""', "'''")) else token

    bare = _TOKEN.sub(without_comment, text)
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(split_lines(bare)):
        words = " ".join(line.split())
        if words:
            lines.append((number, " " * (len(line.expandtabs()) - len(line.expandtabs().lstrip())) + words))
    return lines


def opcodes(before: list[tuple[int, str]], after: list[tuple[int, str]]) -> list[tuple[str, int, int, int, int]]:
    """Return difflib's opcodes; equal ends are taken off first, which makes long texts cheap."""
    old, new = [text for _, text in before], [text for _, text in after]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    codes: list[tuple[str, int, int, int, int]] = [("equal", 0, head, 0, head)] if head else []
    codes += [(kind, a + head, b + head, c + head, d + head) for kind, a, b, c, d in matcher.get_opcodes()]
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes
