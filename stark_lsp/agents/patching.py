"""Edits that a model hands in instead of a whole file: text that stands in a source exactly once, and what replaces it.

All edits are applied to the source as it was shown, at once, so their order means nothing. Text stands for whole lines,
as they are; else for those that differ in trailing blanks, or in the indentation of all of them alike, where only one
place does; else for a part of a line that neither begins nor ends within a word. A line of three dots stands for all
between two passages, each of which is there once, so that a long piece need not be quoted to be replaced. Nothing is
guessed beyond that: what stands for no place or for several is told with the places to look at.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from os.path import commonprefix

from stark_lsp.agents.texts import listed, omits

SHOWN = 8
"""Lines of the source that are shown for an edit that fits nowhere."""
TOLD = 5
"""Edits that fit nowhere, after which no further one is looked at."""
MOST = 500
"""Edits that are looked at."""
_COMPARED = 6_000
"""Lines that are looked at for the nearest one, and"""
_WIDTH = 200
"""characters of each."""


@dataclass(frozen=True)
class Edit:
    """One change."""

    search: str
    replace: str


@dataclass(frozen=True)
class _Place:
    start: int
    end: int
    text: str


class Misfit(Exception):
    """An edit stands for no place or for several; `str()` says which one, and where to look."""


def applied(source: str, edits: Iterable[Edit]) -> str:
    """Return a source with all edits made.

    Raises
    ------
    Misfit
        Not each of them stands for one place of its own.
    """
    different = list(dict.fromkeys(edits))
    if len(different) > MOST:
        raise Misfit(f"{len(different):,} edits are too many, {MOST} may be made. Hand in the whole file instead.")
    places: list[_Place] = []
    troubles: list[str] = []
    for number, edit in enumerate(different, 1):
        try:
            places.append(_place(source, edit))
        except Misfit as trouble:
            troubles.append(f"Edit {number}: {trouble}")
        if len(troubles) == TOLD and number < len(different):
            troubles.append("Those behind it were not looked at.")
            break
    if troubles:
        raise Misfit("\n".join(troubles))
    places.sort(key=lambda place: place.start)
    for one, two in pairwise(places):
        if two.start < one.end:
            raise Misfit(f"Two edits change line {_line(source, two.start)}: make one of them.")
    parts, at = [], 0
    for place in places:
        parts += [source[at : place.start], place.text]
        at = place.end
    return "".join([*parts, source[at:]])


def _place(source: str, edit: Edit) -> _Place:
    search, text = edit.search, edit.replace
    if not search.strip():
        raise Misfit("it searches for nothing. Quote the lines that it is to replace, or that it stands next to.")
    dotted = any(map(omits, search.split("\n")))
    if any(map(omits, text.split("\n"))) and not (dotted and search in source):
        # A line of dots that stands there may stay; others would be written into the file.
        raise Misfit("lines are left out of what is to take its place. Write all of them.")
    ended = source if source.endswith("\n") else f"{source}\n"
    whole = _occurrences(f"\n{ended}", f"\n{search}" if search.endswith("\n") else f"\n{search}\n")
    if len(whole) > 1:
        raise Misfit(_several([_line(source, at) for at in whole]))
    if whole:
        return _Place(whole[0], whole[0] + len(search), _ended(text, search))
    lines, wanted = source.split("\n"), search.strip("\n").split("\n")
    while not wanted[0].strip():
        wanted.pop(0)
    while not wanted[-1].strip():
        wanted.pop()
    for trimmed in (str.rstrip, str.strip):
        starts = _line_matches([trimmed(line) for line in lines], [trimmed(line) for line in wanted])
        if len(starts) > 1:
            raise Misfit(_several([start + 1 for start in starts]))
        if starts:
            moved = _moved(lines[starts[0] : starts[0] + len(wanted)], wanted, text.strip("\n"))
            if moved is not None:
                start = sum(len(line) + 1 for line in lines[: starts[0]])
                end = start + sum(len(line) + 1 for line in lines[starts[0] : starts[0] + len(wanted)])
                return _Place(start, end, f"{moved}\n" if moved else "")
    parts = _occurrences(source, search, apart=True)
    if len(parts) > 1:
        raise Misfit(_several([_line(source, at) for at in parts]))
    if parts:
        return _Place(parts[0], parts[0] + len(search), _ended(_hung(source, parts[0], search, text), search))
    if any(map(omits, wanted[1:-1])):
        return _span(lines, wanted, text)
    raise Misfit(f"what it searches for is not in the source.{_nearest(lines, wanted)}")


def _span(lines: Sequence[str], wanted: Sequence[str], text: str) -> _Place:
    """Return the place from the first of two passages, with a line of dots between them, to the end of the second."""
    passages = [list(group) for omitted, group in groupby(wanted, key=omits) if not omitted]
    if len(passages) > 2:
        raise Misfit("lines are left out at several places. Make an edit for each, or quote them.")
    there = [line.rstrip() for line in lines]
    at: list[int] = []
    for passage in passages:
        starts = _line_matches(there, [line.rstrip() for line in passage])
        if len(starts) > 1:
            raise Misfit(_several([start + 1 for start in starts]))
        if not starts or starts[0] < (at or [0])[-1]:
            raise Misfit(f"a passage of it is not in the source, or not in that order.{_nearest(lines, passage)}")
        at += [starts[0], starts[0] + len(passage)]
    start, end = (sum(len(line) + 1 for line in lines[:number]) for number in (at[0], at[-1]))
    new = text.strip("\n")
    return _Place(start, end, f"{new}\n" if new else "")


def _ended(text: str, search: str) -> str:
    """Return what replaces lines, as lines: the next one must not join the last of them."""
    return f"{text}\n" if search.endswith("\n") and text and not text.endswith("\n") else text


def _hung(source: str, at: int, search: str, text: str) -> str:
    """Return what replaces the rest of a line that was quoted without its margin, with that margin in further lines."""
    margin, further = source[source.rfind("\n", 0, at) + 1 : at], text.split("\n")[1:]
    if margin.strip() or "\n" in search.strip("\n") or _margin(further) or search[:1].isspace():
        return text
    return "\n".join([text.split("\n")[0], *(margin + line if line.strip() else line for line in further)])


def _occurrences(text: str, wanted: str, *, apart: bool = False) -> list[int]:
    """Return where a text begins in another, overlapping places too; three are many.

    `apart` leaves out where it begins or ends within a word.
    """
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(found) < 3:
        end = at + len(wanted)
        if not apart or not (_within_a_word(text, at) or _within_a_word(text, end)):
            found.append(at)
        at = text.find(wanted, at + 1)
    return found


def _within_a_word(text: str, at: int) -> bool:
    sides = text[at - 1 : at + 1] if at else ""
    return len(sides) == 2 and all(side.isalnum() or side == "_" for side in sides)


def _line_matches(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return at which lines a run of lines begins."""
    text = "\n".join(["", *lines, ""])
    return [text.count("\n", 0, at) for at in _occurrences(text, "\n".join(["", *wanted, ""]))]


def _moved(there: Sequence[str], wanted: Sequence[str], text: str) -> str | None:
    """Return what replaces lines that are equal but for their margin, indented as they are; None if it cannot be."""
    new, old = _margin(there), _margin(wanted)
    if [line[len(new) :].rstrip() for line in there] != [line[len(old) :].rstrip() for line in wanted]:
        return None
    lines = text.split("\n")
    if new == old:
        return text
    if any(line.strip() and not line.startswith(old) for line in lines):
        return None
    return "\n".join(new + line[len(old) :] if line.strip() else "" for line in lines)


def _margin(lines: Sequence[str]) -> str:
    margins = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    return commonprefix(margins)  # noqa: RUF071 - characters are meant, not parts of paths


def _line(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1


def _several(lines: Sequence[int]) -> str:
    shown = listed(*map(str, lines))
    return f"what it searches for begins at lines {shown}. Quote more lines around the one you mean."


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Return the lines that are most like those that are nowhere, for a message; empty if none is."""
    offset, longest = max(enumerate(wanted), key=lambda one: len(one[1].strip()))
    known = dict.fromkeys(line.strip()[:_WIDTH] for line in lines[:_COMPARED] if line.strip())
    close = difflib.get_close_matches(longest.strip()[:_WIDTH], known, n=1, cutoff=0.3)
    if not close:
        return ""
    at = next(number for number, line in enumerate(lines) if line.strip()[:_WIDTH] == close[0])
    first = max(0, at - min(offset, SHOWN - 1))
    shown = lines[first : first + min(len(wanted), SHOWN)]
    return "\n".join([f" Nearest to it, from line {first + 1} on:", *(line[: 2 * _WIDTH] for line in shown)])
