"""Code blocks and JSON in what a model wrote as text. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from stark_lsp.discovery.syntax import split_lines

_OPENING = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([\w.+#-]*)[^`]*$")
_LONGEST_OPENING = 400
"""Characters of a line that may open a block: looking at one takes time with the square of its length."""
_OBJECT = re.compile(r'^[ \t]*\{\s*(?=")', re.MULTILINE)
_BRACE = re.compile(r'\{\s*"')
_MOST_OBJECTS = 100
"""Beginnings of objects that are looked at: one that breaks off may be as long as the text."""
_PARAMETER = re.compile(r"<parameter=(\w+)>\n?(.*?)\n?</parameter>", re.DOTALL)
"""A field of a call as Qwen's coders write it down."""
_COLON, _COMMA = re.compile(r"\s*:\s*"), re.compile(r"\s*,\s*")
_SEARCH, _INSTEAD, _REPLACE = (re.compile(form) for form in ("<{5,9} ?SEARCH", "={5,9}", ">{5,9} ?REPLACE"))
PYTHON = ("python", "py", "python3", "")
"""What a block of Python is called; many have no name."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    """In lower case; may be empty."""
    code: str
    """Ends with a line end."""
    closed: bool = True
    """False if the text ended before the block did."""


def code_blocks(text: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a text, in order; one that is never closed reaches to the end."""
    return _divided(text)[0]


def without_blocks(text: str) -> str:
    """Return the text around fenced blocks."""
    return "\n".join(_divided(text)[1]).strip()


def unwrapped(text: str) -> str:
    """Return the largest block of a text that is nothing but code blocks, else the text itself."""
    if not text.lstrip().startswith(("```", "~~~")):
        return text
    blocks = code_blocks(text)
    return max(blocks, key=lambda block: len(block.code)).code if blocks and not without_blocks(text) else text


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text, those in its code left out; of a call that is written down its arguments."""
    parts = [block.code for block in code_blocks(text) if block.language in ("json", "")]
    whole = [part for part in (text, *parts) if part.lstrip().startswith("{")]
    decoder, left = json.JSONDecoder(strict=False), _MOST_OBJECTS
    for part in (*whole, without_blocks(text)):
        at = 0
        while left and (start := _BRACE.search(part, at)):
            left -= 1
            try:
                value, at = decoder.raw_decode(part, start.start())
            except (ValueError, RecursionError):
                at = start.end()
                continue
            for name in ("function", "arguments", "parameters"):
                value = _object(value.get(name)) or value
            yield value
    written = dict(_PARAMETER.findall(text))
    if written:
        yield written


def _object(value: object) -> dict[str, Any] | None:
    """Return an object, also where it is written as a text, which is how chat completions have it."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def json_beginning(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a JSON object that broke off or is not quite JSON, and the name of the one that was cut."""
    start = _OBJECT.search(text)
    fields: dict[str, Any] = {}
    decoder, at, name = json.JSONDecoder(strict=False), start.end() if start else len(text), ""
    try:
        while at < len(text):
            name = ""
            name, at = decoder.raw_decode(text, at)
            between = _COLON.match(text, at)
            if not isinstance(name, str) or between is None:
                break
            at = between.end()
            fields[name], at = decoder.raw_decode(text, at)
            between = _COMMA.match(text, at)
            if between is None:
                break
            at = between.end()
    except (ValueError, RecursionError):
        if name and text.startswith('"', at):
            for end in range(len(text), max(at, len(text) - 7), -1):  # an escape may have been cut as well
                try:
                    fields[name] = json.loads(text[at:end] + '"', strict=False)
                    return fields, name
                except ValueError:
                    continue
    return fields, ""


def search_replace(text: str) -> list[dict[str, str]]:
    """Return edits that are written between lines as git marks conflicts with, in the form of the tools' `edits`.

    Many models know that form from other tools (https://aider.chat/docs/more/edit-formats.html); those without tools
    write it unasked.
    """
    edits: list[dict[str, str]] = []
    parts: list[list[str]] = []
    for line in split_lines(text):
        bare = line.strip()
        if _SEARCH.fullmatch(bare):
            parts = [[]]
        elif len(parts) == 1 and _INSTEAD.fullmatch(bare):
            parts.append([])
        elif len(parts) == 2 and _REPLACE.fullmatch(bare):
            search, replace = ("".join(f"{each}\n" for each in lines) for lines in parts)
            edits.append({"search": search, "replace": replace})
            parts = []
        elif parts:
            parts[-1].append(line)
    return edits


def _divided(text: str) -> tuple[tuple[Block, ...], list[str]]:
    """Return the fenced blocks of a text, and the lines around them."""
    blocks: list[Block] = []
    around: list[str] = []
    margin, fence, language, lines = "", "", "", list[str]()
    for line in split_lines(text):
        bare = line.strip()
        if fence and bare and set(bare) == {fence[0]} and len(bare) >= len(fence):
            blocks.append(Block(language, "".join(f"{each}\n" for each in lines)))
            fence = ""
        elif fence:
            # As CommonMark has it: a block in a list stands as far to the right as what opens it.
            lines.append(line[len(commonprefix([margin, line])) :])  # noqa: RUF071 - characters are meant
        elif len(line) <= _LONGEST_OPENING and (opening := _OPENING.match(line)):
            margin, fence, language, lines = opening[1], opening[2], opening[3].lower(), []
        else:
            around.append(line)
    if fence and lines:
        blocks.append(Block(language, "".join(f"{each}\n" for each in lines), closed=False))
    return tuple(blocks), around
