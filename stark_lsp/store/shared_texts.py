"""A JSON document with each long text written once, line by line, so that it is small and a person can read it.

Most of a prompt stands in other prompts too: what is alike in all questions of a role, and sources of earlier attempts.
A text that stands in several places, whole or as lines within another one, goes to a table, under the place where it
first stands whole. What takes a text's place in the document is an object with the one member `$text`:

- a name of the table: that text,
- a list of texts and of such objects with a name: these, joined with nothing in between.

An object of the document itself whose one member is named so gets one more `$` before it. In the table are lists of
lines, and no references: a document cannot grow without bound as it is read, and `expand` has a limit besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TEXT = "$text"
"""The one member of what stands for a text."""

LONG = 200
"""Characters; a shorter text stands where it is used."""

MOST_COMPARED = 20_000_000_000
"""Characters that are compared at most to find texts within others, seconds; then they are only found as a whole."""

_OURS = re.compile(r"\$+text")
_NAME = re.compile(r"[\w.\[\]]{1,100}", re.ASCII)


class TextError(ValueError):
    """What stands for a text cannot be read; names its place in the document."""


def share(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a document in which long texts are replaced, and the table of those that stand in several places.

    Parameters
    ----------
    document
        JSON values; `expand` returns it.
    """
    sharing = _Sharing(document)
    return {name: sharing.replaced(value) for name, value in document.items()}, sharing.table


def expand(document: dict[str, Any], table: Any, most: int) -> dict[str, Any]:
    """Return the document that `share` was given.

    Parameters
    ----------
    document, table
        From anywhere; nested no deeper than the interpreter's stack allows.
    most
        Characters that the texts which are put in may have together.

    Raises
    ------
    TextError
        A reference has no such form, there is no such text, or the texts come to more than `most`.
    """
    expansion = _Expansion(_read_table(table), most)
    return {name: expansion.value(value, name) for name, value in document.items()}


class _Sharing:
    """Finds the texts that stand in several places of a document, and replaces them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._places: dict[str, str] = {}
        """Each long text with its first place."""
        shared: set[str] = set()
        for name, value in document.items():
            for place, text in _long_texts(value, name):
                if text in self._places:
                    shared.add(text)
                self._places.setdefault(text, place)
        self._beginnings: dict[str, list[str]] = {}
        """Long texts by their first `LONG` characters, longest first."""
        for text in sorted(self._places, key=len, reverse=True):
            self._beginnings.setdefault(text[:LONG], []).append(text)
        self._compared = 0
        self._parts = {text: self._split(text) for text in self._places if text not in shared}
        for text, parts in self._parts.items():
            shared.update(part for part in parts if part != text and part in self._places)
        self._names: dict[str, str] = {}
        self.table: dict[str, Any] = {}
        for text, place in self._places.items():
            if text in shared:
                name = place if _NAME.fullmatch(place) and place not in self.table else f"text {len(self.table)}"
                self._names[text] = name
                self.table[name] = _lines(text)

    def replaced(self, value: Any) -> Any:
        """Return a value in which long texts are replaced."""
        if isinstance(value, str):
            return self._replaced_text(value)
        if isinstance(value, list):
            return [self.replaced(one) for one in value]
        if isinstance(value, dict):
            mark = "$" if _is_ours(value) else ""
            return {mark + name: self.replaced(one) for name, one in value.items()}
        return value

    def _replaced_text(self, text: str) -> Any:
        if len(text) < LONG:
            return text
        if text in self._names:
            return {TEXT: self._names[text]}
        written: list[Any] = []
        for part in self._parts[text]:
            if part in self._names:
                written.append({TEXT: self._names[part]})
            else:
                written.extend(_lines(part))
        return text if len(written) == 1 else {TEXT: written}

    def _split(self, text: str) -> list[str]:
        """Return a text in parts: other long texts that stand in it as whole lines, and what is between them."""
        parts: list[str] = []
        begin = at = 0
        while len(text) - at >= LONG:
            found = self._longest(text, at)
            if found:
                if begin < at:
                    parts.append(text[begin:at])
                parts.append(found)
                begin = at = at + len(found)
                if text[at - 1] == "\n":
                    continue
            end = text.find("\n", at)
            if end < 0:
                break
            at = end + 1
        if begin < len(text):
            parts.append(text[begin:])
        return parts

    def _longest(self, text: str, at: int) -> str:
        """Return the longest other text that stands at a place and ends with a line; empty if there is none."""
        for other in self._beginnings.get(text[at : at + LONG], ()):
            end = at + len(other)
            if len(other) >= len(text) or self._compared > MOST_COMPARED:
                continue
            self._compared += len(other)
            if text.startswith(other, at) and (other[-1] == "\n" or text[end : end + 1] in ("", "\n")):
                return other
        return ""


class _Expansion:
    """Puts texts back in."""

    def __init__(self, table: dict[str, str], most: int) -> None:
        self._table = table
        self._most = most
        self._left = most

    def value(self, value: Any, place: str) -> Any:
        if isinstance(value, list):
            return [self.value(one, f"{place}[{index}]") for index, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if not _is_ours(value):
            return {name: self.value(one, _inner(place, name)) for name, one in value.items()}
        ((name, inner),) = value.items()
        if name != TEXT:
            return {name[1:]: self.value(inner, _inner(place, name[1:]))}
        if isinstance(inner, str):
            return self._named(inner, place)
        if isinstance(inner, list):
            return "".join([self._part(one, place) for one in inner])
        raise TextError(f"{place}: `{TEXT}` is neither a name nor a list")

    def _part(self, part: Any, place: str) -> str:
        if isinstance(part, dict) and list(part) == [TEXT]:
            part = part[TEXT]
            if isinstance(part, str):
                return self._named(part, place)
        elif isinstance(part, str):
            return part
        raise TextError(f"{place}: `{TEXT}` lists what is neither a text nor a name")

    def _named(self, name: str, place: str) -> str:
        text = self._table.get(name)
        if text is None:
            raise TextError(f"{place}: there is no text {name[:80]!r} in `texts`")
        self._left -= len(text)
        if self._left < 0:
            raise TextError(f"{place}: with the text {name[:80]!r} there are more than {self._most:,} characters")
        return text


def _read_table(table: Any) -> dict[str, str]:
    if not isinstance(table, dict):
        raise TextError("`texts` is no object")
    read: dict[str, str] = {}
    for name, written in table.items():
        lines = written if isinstance(written, list) else [written]
        if not all(isinstance(line, str) for line in lines):
            raise TextError(f"texts: {name[:80]!r} is neither a text nor a list of lines")
        read[name] = "".join(lines)
    return read


def _long_texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Return the long texts in a value, each with its place, in order."""
    if isinstance(value, str):
        if len(value) >= LONG:
            yield place, value
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _long_texts(one, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _long_texts(one, _inner(place, name))


def _inner(place: str, name: str) -> str:
    return f"{place}.{name[:40]}"


def _is_ours(value: dict[str, Any]) -> bool:
    """Whether an object looks like one that stands for a text."""
    return len(value) == 1 and _OURS.fullmatch(next(iter(value))) is not None


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each with its end; nothing but a line feed ends one."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
