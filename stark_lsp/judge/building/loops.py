"""Which loops of a source for the CPU were not vectorized, as GCC tells it.

Other compilers are not asked: their options differ, and what they tell is not laid out so.
https://gcc.gnu.org/onlinedocs/gcc/Developer-Options.html (-fopt-info)
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..device import toolkit

MOST = 8
"""Loops that are told."""
WIDTH = 120
"""Characters of a loop's first line."""
_REPORT = ".loops"
_TOLD = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>optimized|missed): +(?P<text>.*)$", re.M
)
_LOOP = re.compile(r"\b(?:for|while)\s*\(")
_BY_HAND = re.compile(r"\b(?:_mm\d*_|__builtin_(?:ia32|prefetch)|v\w+q?_[fsu]\d)")
"""Intrinsics of vectors and prefetches: what is written with them is left as it is meant."""
LONGEST = 200
"""Lines of a loop that are looked at."""


def told_by(command: Sequence[str]) -> list[str]:
    """Return the options that make a compile command tell of its loops; empty where its compiler is not GCC."""
    compiler = command[: next(index for index, word in enumerate(command) if word.startswith("-"))]
    said = toolkit.printed([*compiler, "--version"])
    path = command[command.index("-o") + 1] + _REPORT
    return [f"-fopt-info-vec-optimized-missed={path}"] if "Free Software Foundation" in said else []


def scalar(target: str, source: str) -> list[str]:
    """Return the innermost loops that the compiler left as they are, each with its line."""
    try:
        with open(target + _REPORT, encoding="utf-8", errors="replace") as file:
            report = file.read(1 << 20)
        with open(source, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return []
    places: dict[tuple[int, int], bool] = {}
    for told in _TOLD.finditer(report):
        if os.path.basename(told["file"]) != os.path.basename(source):
            continue
        place = int(told["line"]), int(told["column"])
        if told["kind"] == "optimized" and "loop vectorized" in told["text"]:
            # One of its versions is enough: the others are for short rows or tensors that overlap.
            places[place] = False
        elif "couldn't vectorize loop" in told["text"]:
            places.setdefault(place, True)
    left = sorted(filter(None, (innermost(lines, line) for (line, _), is_scalar in places.items() if is_scalar)))
    return [f"line {line}: {' '.join(lines[line - 1].split())[:WIDTH]}" for line in dict.fromkeys(left)][:MOST]


def innermost(lines: Sequence[str], line: int) -> int:
    """Return the line of the loop that begins in a line (from 1), or behind a pragma there; 0 if one lies within it.

    The compiler tells of outer loops too, also where those within were unrolled or vectorized.
    """
    plain = [one.partition("//")[0] if not one.lstrip().startswith("#") else "" for one in lines]
    code = "\n".join(plain[line - 1 : line + LONGEST])
    found = _LOOP.search(code)
    if found is None or code[: found.start()].strip():
        return 0
    body = code[_closed(code, code.find("(", found.start())) :].lstrip()
    end = _closed(body, 0) if body.startswith("{") else body.find(";")
    return 0 if _LOOP.search(body[:end]) or _BY_HAND.search(body[:end]) else line + code[: found.start()].count("\n")


def _closed(code: str, begin: int) -> int:
    """Return where what opens at `begin` is closed, behind the bracket; the end where it is not."""
    depth = 0
    for place in range(begin, len(code)):
        depth += (code[place] in "({") - (code[place] in ")}")
        if depth == 0:
            return place + 1
    return len(code)
