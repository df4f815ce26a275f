"""Untrusted text in messages and hovers.

Messages of candidates, compilers and models are hostile input: they must not become a link, an
image that loads from the network, or a heading that pretends to come from the server.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&]|^[-+=])")
_LINK = re.compile(r"(?i)\b(https?|ftp|file|mailto|command|vscode|www)([:.])")
_ESCAPE = re.compile(r"\\([\\`*_\[\]<>#|~&+=:.-])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
_FENCE = re.compile(r"`+")


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
    fence = ""
    for line in text.split("\n"):
        stripped = line.lstrip()
        opening = re.match(r"(`{3,}|~{3,})", stripped)
        if fence:
            out.append(line)
            if opening and stripped.strip() == opening[0] and opening[0].startswith(fence):
                fence = ""
            continue
        if opening and len(line) - len(stripped) < 4:
            fence = opening[0]
            out.append(line)
            continue
        out.append(_tame_line(line))
    if fence:
        out.append(fence)
    return "\n".join(out)


def _tame_line(line: str) -> str:
    parts = re.split(r"(`+[^`]*`+)", line)
    for index in range(0, len(parts), 2):
        part = parts[index].replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("]", "\\]")
        parts[index] = _LINK.sub(r"\1\\\2", part)
    return "".join(parts)


def unmarked(markdown: str) -> str:
    """Return Markdown as plain text, for clients that do not render it."""
    text = re.sub(r"(?m)^#{1,6} +", "", markdown)
    text = re.sub(r"\*\*(.+?)\*\*", r"\1", text)
    text = re.sub(r"(?m)^\s*(`{3,}|~{3,}).*$\n?", "", text)
    text = re.sub(r"(?<!\\)(`+)(.+?)(?<!`)\1(?!`)", r"\2", text)
    return _ESCAPE.sub(r"\1", text).replace("&lt;", "<").replace("&amp;", "&")
