"""What a code agent changed, held against the lines that its plan marked (paper, section 4.3).

A candidate may change every line between the marks, and may bring what these lines need: imports, and definitions at
module level that were not there before; those that nothing names any more may go. Comments, docstrings, spacing, how
wide a level of indentation is and the name of the class count as nothing. Everything else is an edit outside.

Nothing of this is stored: the parent's plan and both sources are, and `report` tells the same from them at any time.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from stark_lsp.agents.grounding.alignment import meaning, opcodes
from stark_lsp.agents.grounding.markers import parse as parse_markers
from stark_lsp.agents.grounding.markers import strip
from stark_lsp.agents.texts import one_line
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Span
from stark_lsp.discovery.slicing import Definition
from stark_lsp.discovery.syntax import first_line, last_line, parse, split_lines

MARKED_LINE = 2_000
"""Longest line that may hold a marker: reading markers takes time with the square of it."""
_MARKS = 400
"""Most lines that may hold a marker."""
_LINES = 6_000
"""Most lines that two texts may have together, and"""
_PAIRS = 400_000
"""most pairs of equal ones among them, and"""
_WORK = 30_000_000
"""most of these times the lines of the shorter text, so that comparing them takes no more than a second or two."""


def edited_outside(annotated: str, source: str, names: tuple[str, str] = ("", "")) -> list[Span] | None:
    """Return the lines of a text with anchors that `source` changed, removed or inserted at outside of these.

    Parameters
    ----------
    annotated
        The parent's source with markers.
    source
        The candidate's.
    names
        The class's name in both, which makes no difference.

    Returns
    -------
    list[Span] | None
        None where nothing can be said: the plan marked nothing, or the texts are too large or too deeply nested to
        compare.
    """
    if not readable(annotated):
        return None
    parsed = parse_markers(annotated)
    if not parsed.spans:
        return None
    allowed = {line for span in parsed.spans for line in range(span.start, span.end + 1)}
    before_tree, after_tree = _tree(parsed.source), _tree(source)
    try:
        known = {_renamed(name, names) for statement in before_tree.body for name in Definition(statement).binds}
        helpers = [statement for statement in after_tree.body if _is_helper(statement, known)]
        # What nothing names any more is to go, wherever it stood; where a part is marked it may have another name.
        words = {names[0], *re.findall(r"\w+", source)}
        gone = [
            statement
            for statement in before_tree.body
            if _is_helper(statement, words)
            and allowed.isdisjoint(range(first_line(statement), last_line(statement) + 1))
        ]
    except RecursionError:
        return None
    before = _lines(parsed.source, _silent(before_tree, gone), names)
    after = _lines(source, _silent(after_tree, helpers), ("", ""))
    if not before or not comparable([text for _, text in before], [text for _, text in after]):
        return None
    outside = _outside(before, after, allowed)
    if outside and helpers:
        # One that is an old function by a new name, which was changed between marks, kept its other lines.
        after = _lines(source, _silent(after_tree, ()), ("", ""))
        if comparable([text for _, text in before], [text for _, text in after]):
            outside &= _outside(before, after, allowed)
    return spans_of(outside)


def _outside(before: list[tuple[int, str]], after: list[tuple[int, str]], allowed: set[int]) -> set[int]:
    """Return which lines outside of what is allowed were changed; how wide a level of indentation is does not count."""
    changed = _changed(before, after, allowed)
    # By levels alone a line at the left margin of a kernel, such as `#pragma unroll`, would move those behind it.
    old, new = _levels(before), _levels(after)
    if changed and comparable([text for _, text in old], [text for _, text in new]):
        changed &= _changed(old, new, allowed)
    return changed


def _levels(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return lines indented by one blank for each level of those before them that they stand in."""
    found: list[tuple[int, str]] = []
    open_at: list[int] = []
    for number, text in lines:
        words = text.lstrip()
        at = len(text) - len(words)
        while open_at and open_at[-1] >= at:
            open_at.pop()
        found.append((number, " " * len(open_at) + words))
        open_at.append(at)
    return found


def _changed(before: list[tuple[int, str]], after: list[tuple[int, str]], allowed: set[int]) -> set[int]:
    """Return which lines outside of what is allowed were changed or inserted at."""
    ordered = sorted(allowed)
    outside: set[int] = set()
    for kind, first, last, _, _ in opcodes(before, after):
        if kind == "equal":
            continue
        if first < last:
            outside.update(number for number, _ in before[first:last] if number not in allowed)
            continue
        above, below = before[max(0, first - 1)][0], before[min(first, len(before) - 1)][0]
        if above not in allowed and below not in allowed and not _between(ordered, above, below):
            outside.add(below)
    return outside


def report(parent: Candidate, plan: Plan, candidate: Candidate) -> str:
    """Return which lines of its parent a candidate changed outside the anchors of its plan, quoted; empty if none."""
    names = (parent.class_name, candidate.class_name)
    spans = edited_outside(plan.annotated_source, candidate.source, names)
    return described(spans, parse_markers(plan.annotated_source).source) if spans else ""


def described(spans: Sequence[Span], source: str) -> str:
    """Return lines in words, for instance `` `x = y`, `def f(x):` to `return x` ``: their numbers in a slice of a file
    or in an attempt would tell nobody anything."""
    lines = split_lines(source)
    ends = [[one_line(lines[at], 60).replace("`", "'") for at in sorted({span.start, span.end})] for span in spans]
    places = [" to ".join(f"`{line}`" for line in lines_) for lines_ in ends]
    more = f" and {len(places) - 8} more places" if len(places) > 8 else ""
    return ", ".join(places[:8]) + more


def readable(text: str) -> bool:
    """Whether markers can be read from a text in a reasonable time."""
    lengths = [len(line) for line in split_lines(text) if "improve" in line.lower()]
    return len(lengths) <= _MARKS and max(lengths, default=0) <= MARKED_LINE


def unmarked(text: str) -> str:
    """Return a text without markers, as far as they can be read."""
    return strip(text) if readable(text) else text


def is_marked(text: str) -> bool:
    """Whether a text has anchors that can be read."""
    return readable(text) and bool(parse_markers(text).spans)


def comparable(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether two lists of lines can be compared in a reasonable time."""
    if len(before) + len(after) > _LINES:
        return False
    counts = Counter(before)
    pairs = sum(counts[line] for line in after)
    return pairs <= _PAIRS and pairs * min(len(before), len(after)) <= _WORK


def _tree(source: str) -> ast.Module:
    try:
        return parse(source)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _lines(source: str, silent: set[int], names: tuple[str, str]) -> list[tuple[int, str]]:
    old, new = names
    lines = [(number, text) for number, text in meaning(source) if number not in silent]
    if not old or old == new:
        return lines
    word = re.compile(rf"\b{re.escape(old)}\b")
    return [(number, word.sub(new, text)) for number, text in lines]


def _renamed(name: str, names: tuple[str, str]) -> str:
    old, new = names
    return new if old and name == old else name


def _is_helper(statement: ast.stmt, known: set[str]) -> bool:
    """Whether a statement only binds names that were not there before."""
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Expr)):
        return False
    names = Definition(statement).binds
    return bool(names) and not names & known


def _silent(tree: ast.Module, helpers: Iterable[ast.stmt]) -> set[int]:
    """Return the lines that make no difference: docstrings, imports, helpers."""
    lines: set[int] = set()
    for statement in (*tree.body, *helpers):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            lines.update(range(first_line(statement), last_line(statement) + 1))
    for statement in helpers:
        lines.update(range(first_line(statement), last_line(statement) + 1))
    for docstring in _docstrings(tree):
        lines.update(range(first_line(docstring), last_line(docstring) + 1))
    return lines


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and len(node.body) > 1:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first


def _between(ordered: Sequence[int], above: int, below: int) -> bool:
    """Whether an anchor lies between two neighbouring lines: it then marks lines that say nothing, such as blanks."""
    place = bisect_left(ordered, above)
    return place < len(ordered) and ordered[place] < below


def spans_of(lines: Iterable[int]) -> list[Span]:
    """Return the runs that lines come to."""
    spans: list[Span] = []
    for line in sorted(lines):
        if spans and spans[-1].end + 1 == line:
            spans[-1] = Span(spans[-1].start, line)
        else:
            spans.append(Span(line, line))
    return spans
