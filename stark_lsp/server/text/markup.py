"""Untrusted text in messages and hovers.

Messages of candidates, compilers and models are hostile input: they must not become a link, an
image that loads from the network, or a heading that pretends to come from the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&]|^[-+=])")
_LINK = re.compile(r"(?i)\b(https?|ftp|file|mailto|command|vscode|www)([:.])")
_ESCAPE = re.compile(r"\\([\\`*_\[\]<>#|~&+=:.-])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
_FENCE = re.compile(r"`+")
_FENCES = re.compile(r"`{3,}|~{3,}")
_UNFIT = re.compile(r"[^A-Za-z0-9_+#.-].*", re.DOTALL)
"""What does not belong to the name of a language."""


def plain(text: str, limit: int = 400) -> str:
    """Return untrusted text on one line, without control characters, cut at `limit` characters."""
    line = " ".join(_CONTROL.sub("", text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def escaped(text: str, limit: int = 400) -> str:
    """Return untrusted text so that Markdown renders it literally."""
    return _LINK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", plain(text, limit)))


def code(text: str, limit: int = 400) -> str:
    """Return untrusted text as inline code that cannot end early."""
    body = plain(text, limit)
    ticks = "`" * (max((len(run) for run in _FENCE.findall(body)), default=0) + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return f"{ticks}{pad}{body}{pad}{ticks}" if body else ""


def tamed(markdown: str, limit: int = 6000) -> str:
    """Return Markdown written by an agent with its emphasis, lists and code, but nothing that loads or links.

    HTML, images, links, autolinks and link definitions outside code are shown literally.
    """
    text = _CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    "))
    # `_CONTROL` spares the line feed only.
    if len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    out: list[str] = []
    fence, language, inside = "", "", list[str]()
    for line in text.split("\n"):
        stripped = line.lstrip()
        run = _FENCES.match(stripped)
        if fence:
            if run and stripped.strip() == run[0] and run[0].startswith(fence):
                out += _fenced(inside, language)
                fence = ""
            else:
                inside.append(line)
        elif run and len(line) - len(stripped) < 4:
            fence, language, inside = run[0], _UNFIT.sub("", stripped[len(run[0]) :].strip()), []
        else:
            out.append(_tame_line(line))
    if fence:
        out += _fenced(inside, language)
    return "\n".join(out)


def _fenced(lines: list[str], language: str) -> list[str]:
    """Return lines as a block of code that every reader of Markdown begins and ends where we do.

    Where a fence stands in a list, or has something strange behind it, readers differ on whether it is one.
    """
    ticks = "`" * max([3, *(len(run) + 1 for line in lines for run in _FENCE.findall(line))])
    return [ticks + language, *lines, ticks]


def _ticks(line: str) -> Iterator[tuple[int, int, int]]:
    """Yield begin and end of each run of backticks outside of code, and the end of the code it begins, 0 if none."""
    runs = [found.span() for found in _FENCE.finditer(line)]
    places: dict[int, list[int]] = {}
    for number in range(len(runs) - 1, -1, -1):  # the first on top
        places.setdefault(runs[number][1] - runs[number][0], []).append(number)
    done = number = 0
    while number < len(runs):
        start, end = runs[number]
        before = line[done:start]
        if (len(before) - len(before.rstrip("\\"))) % 2:
            start += 1  # a backslash takes the first one's meaning
        closing = places.get(end - start, [])
        while closing and closing[-1] <= number:
            closing.pop()
        if start < end and closing:
            number, done = closing[-1], runs[closing[-1]][1]
            yield start, end, done
        else:
            done = end
            yield start, end, 0
        number += 1


def _tame_line(line: str) -> str:
    """Return a line with its inline code; backticks that are not in pairs are shown, lest they pair with others."""
    out: list[str] = []
    done = 0
    for start, end, last in _ticks(line):
        out.append(_tame_text(line[done:start]) + (line[start:last] if last else "\\`" * (end - start)))
        done = last or end
    return "".join(out) + _tame_text(line[done:])


def _tame_text(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("]", "\\]")
    return _LINK.sub(r"\1\\\2", text)


def unmarked(markdown: str) -> str:
    """Return Markdown as plain text, for clients that do not render it."""
    text = re.sub(r"(?m)^#{1,6} +", "", markdown)
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", text)
    text = re.sub(r"(?m)^[ \t]*(`{3,}|~{3,}).*$\n?", "", text)
    text = "\n".join(map(_without_ticks, text.split("\n")))
    return _ESCAPE.sub(r"\1", text).replace("&lt;", "<").replace("&amp;", "&")


def _without_ticks(line: str) -> str:
    """Return a line without the backticks around inline code."""
    out: list[str] = []
    done = 0
    for start, end, last in _ticks(line):
        if last:
            out += [line[done:start], line[end : last - (end - start)]]
            done = last
    return "".join(out) + line[done:]
