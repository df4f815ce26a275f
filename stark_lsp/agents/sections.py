"""The sections of a question: what was sent to a model, by heading, and how long each part is. Pure functions.

A section begins at a heading of the first level that stands outside of code blocks; hints and advice are quoted, so
that no text of a candidate or a user begins one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from stark_lsp.agents.models.sizes import likely_tokens
from stark_lsp.core.conversation import Exchange, Question

SYSTEM = "System message"
BEFORE = "Before the first heading"

TURNS = "Tools called before"

_FENCE = re.compile(r"(`{3,})[^`]*\Z")
_HEADING = re.compile(r"# +(.+)")


@dataclass(frozen=True)
class Section:
    """One part of a question."""

    name: str
    """Its heading, without what differs from question to question."""
    characters: int
    tokens: int = 0
    """Its share of the tokens that were read, by characters: nobody outside the service knows more."""


def sections(question: Question) -> tuple[Section, ...]:
    """Return the parts of a question in the order in which they are sent."""
    forms = [f"{tool.name}{tool.description}{json.dumps(tool.schema)}" for tool in question.offered]
    found = {"Form of the answer": sum(map(len, forms)), SYSTEM: len(question.system)}
    turns = (TURNS, sum(turn.characters for turn in question.turns))
    for name, size in (*_headed(question.shared), *_headed(question.body), turns):
        found[name] = found.get(name, 0) + size
    return tuple(Section(name, size) for name, size in found.items() if size)


def weighed(exchange: Exchange) -> tuple[Section, ...]:
    """Return the parts of a question with the tokens that each took; they add up to what was read for it.

    Where the service told no tokens they are guessed.
    """
    parts = sections(exchange.question)
    usage = exchange.answer.usage
    whole = sum(part.characters for part in parts)
    read = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens or likely_tokens(whole)
    ends, done = [0], 0
    for part in parts:
        done += part.characters
        ends.append(round(read * done / whole))
    return tuple(
        Section(part.name, part.characters, end - begin)
        for part, begin, end in zip(parts, ends, ends[1:], strict=False)
    )


@dataclass(frozen=True)
class Total:
    """One section of several questions."""

    name: str
    questions: int
    """In how many of them it is."""
    longest: int
    """Characters where it is longest."""
    tokens: int
    """Of all of them together."""


def totals(exchanges: Iterable[Exchange]) -> tuple[Total, ...]:
    """Return the sections of all questions, the dearest first."""
    found: dict[str, Total] = {}
    for exchange in exchanges:
        for part in weighed(exchange):
            one = found.get(part.name, Total(part.name, 0, 0, 0))
            longest = max(one.longest, part.characters)
            found[part.name] = Total(part.name, one.questions + 1, longest, one.tokens + part.tokens)
    return tuple(sorted(found.values(), key=lambda one: -one.tokens))


def _headed(text: str) -> list[tuple[str, int]]:
    """Return heading and characters of each part of a text."""
    parts: list[tuple[str, int]] = []
    name, size, fence = BEFORE, 0, ""
    for line in text.splitlines(keepends=True):
        bare = line.strip("\r\n")
        if fence:
            if bare.strip("`") == "" and len(bare) >= len(fence):
                fence = ""
        elif opening := _FENCE.match(bare):
            fence = opening[1]
        elif heading := _HEADING.fullmatch(bare):
            parts.append((name, size))
            name, size = heading[1].strip(), 0
        size += len(line)
    return [part for part in (*parts, (name, size)) if part[1]]
