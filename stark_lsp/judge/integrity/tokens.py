"""A tokenizer for C, C++ and CUDA (C++20, sections lex.phases to lex.string), for reading, not for compiling.

It never fails: what is not valid becomes a token of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

IDENTIFIER, NUMBER, STRING, CHARACTER, HEADER, PUNCTUATION = (
    "identifier",
    "number",
    "string",
    "character",
    "header",
    "punctuation",
)
_PREFIXES = ("u8", "u", "U", "L", "")
_THREE = ("<<<", ">>>", "<<=", ">>=", "...", "->*", "<=>")
_TWO = (
    "::", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
    "^=", "##", ".*",
)  # fmt: skip
_DIGRAPHS = {"<%": "{", "%>": "}", "<:": "[", ":>": "]", "%:": "#"}
_BLANK = " \t\r\n\v\f"


class Token(NamedTuple):
    """One token."""

    kind: str
    text: str
    """As written, line continuations taken out; digraphs as the character they stand for."""
    start: int
    """Offset of its first character in the text."""
    end: int
    """Offset after its last character."""
    fresh: bool
    """First on its logical line."""

    @property
    def value(self) -> str:
        """What a string or header name says, without quotes, prefix and simple escapes."""
        return unquote(self.text) if self.kind in (STRING, CHARACTER) else self.text.strip('<>"')


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text; comments and blanks are left out.

    Parameters
    ----------
    text
        Any text.

    Returns
    -------
    list of Token
        In order; they do not overlap.
    """
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.original = text
        self.where = _unspliced(text)
        """Offset of each character that is left when line continuations are taken out."""
        self.text = "".join([text[i] for i in self.where])
        self.at = 0
        self.fresh = True
        self.tokens: list[Token] = []
        self.line_begin = 0
        """Index of the first token of the logical line."""

    def run(self) -> list[Token]:
        while self.at < len(self.text):
            self._step()
        return self.tokens

    def _step(self) -> None:
        text, at = self.text, self.at
        c = text[at]
        if c == "\n":
            self.fresh, self.line_begin = True, len(self.tokens)
            self.at += 1
        elif c in _BLANK or c == "\\":
            self.at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            self.at = end if end >= 0 else len(text)
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            self.at = end + 2 if end >= 0 else len(text)
        elif c in '<"' and self._after_include():
            self._header(c)
        elif c == '"' or c == "'":
            self._quoted(at)
        elif _begins_name(c):
            self._name()
        elif c.isdecimal() or (c == "." and text[at + 1 : at + 2].isdecimal()):
            self._number()
        else:
            self._punctuation()

    def _emit(self, kind: str, end: int, text: str | None = None) -> None:
        begin = self.at
        end = min(end, len(self.text))
        last = self.where[end - 1] + 1
        self.tokens.append(
            Token(kind, self.text[begin:end] if text is None else text, self.where[begin], last, self.fresh)
        )
        self.at, self.fresh = end, False

    def _after_include(self) -> bool:
        line = self.tokens[self.line_begin :]
        return len(line) == 2 and line[0].text == "#" and line[1].text in ("include", "include_next", "import", "embed")

    def _header(self, opening: str) -> None:
        closing = ">" if opening == "<" else '"'
        newline = self.text.find("\n", self.at)
        limit = newline if newline >= 0 else len(self.text)
        end = self.text.find(closing, self.at + 1, limit)
        self._emit(HEADER, end + 1 if end >= 0 else limit)

    def _name(self) -> None:
        text, end = self.text, self.at + 1
        while end < len(text) and (_begins_name(text[end]) or text[end].isdecimal()):
            end += 1
        word = text[self.at : end]
        if end < len(text) and text[end] in "\"'":
            if text[end] == '"' and word.endswith("R") and word[:-1] in _PREFIXES:
                self._raw(end)
                return
            if word in _PREFIXES:
                self._quoted(end)
                return
        self._emit(IDENTIFIER, end)

    def _quoted(self, quote: int) -> None:
        """A literal whose quote is at index `quote`; one that is not closed ends with its line."""
        text, end, mark = self.text, quote + 1, self.text[quote]
        while end < len(text) and text[end] not in (mark, "\n"):
            end += 2 if text[end] == "\\" and text[end + 1 : end + 2] not in ("", "\n") else 1
        if end < len(text) and text[end] == mark:
            end += 1
        self._emit(STRING if mark == '"' else CHARACTER, end)

    def _raw(self, quote: int) -> None:
        """A raw string: in it, line continuations are what they look like."""
        original, begin = self.original, self.where[quote]
        opening = original.find("(", begin, begin + 18)
        delimiter = original[begin + 1 : opening] if opening >= 0 else ""
        if opening < 0 or any(c in _BLANK + '()\\"' for c in delimiter):
            self._quoted(quote)
            return
        closing = original.find(f'){delimiter}"', opening)
        finish = closing + len(delimiter) + 2 if closing >= 0 else len(original)
        start = self.where[self.at]
        self.tokens.append(Token(STRING, original[start:finish], start, finish, self.fresh))
        self.at, self.fresh = bisect_left(self.where, finish), False

    def _number(self) -> None:
        text, end = self.text, self.at + 1
        while end < len(text):
            c = text[end]
            hexadecimal = text[self.at : self.at + 2] in ("0x", "0X")
            if (
                (c in "+-" and text[end - 1] in ("pP" if hexadecimal else "eEpP"))
                or c == "."
                or c.isdecimal()
                or _begins_name(c)
            ):
                end += 1
            elif c == "'" and end + 1 < len(text) and (text[end + 1].isdecimal() or _begins_name(text[end + 1])):
                end += 2
            else:
                break
        self._emit(NUMBER, end)

    def _punctuation(self) -> None:
        text, at = self.text, self.at
        for group in (_THREE, _TWO):
            length = len(group[0])
            if text[at : at + length] in group:
                self._emit(PUNCTUATION, at + length)
                return
        two = text[at : at + 2]
        if two in _DIGRAPHS and not text.startswith("<::", at):
            self._emit(PUNCTUATION, at + 2, _DIGRAPHS[two])
            return
        self._emit(PUNCTUATION, at + 1)


def _begins_name(c: str) -> bool:
    return c == "_" or c == "$" or c.isalpha() or (ord(c) > 127 and c.isidentifier())


def _unspliced(text: str) -> list[int]:
    """Return the offsets of all characters but those of line continuations."""
    where, i, size = [], 0, len(text)
    while i < size:
        if text[i] == "\\":
            end = i + 1
            # Compilers allow blanks between the backslash and the end of the line.
            while end < size and text[end] in " \t\r\v\f":
                end += 1
            if end < size and text[end] == "\n":
                i = end + 1
                continue
        where.append(i)
        i += 1
    return where


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}


def unquote(text: str) -> str:
    """Return what a string or character literal says."""
    if text.startswith(("R", "u8R", "uR", "UR", "LR")) and '"' in text and "(" in text:
        begin = text.index("(") + 1
        delimiter = text[text.index('"') + 1 : begin - 1]
        ending = f'){delimiter}"'
        return text[begin : -len(ending)] if text.endswith(ending) else text[begin:]
    quote = min((i for i in (text.find('"'), text.find("'")) if i >= 0), default=-1)
    if quote < 0:
        return text
    body = text[quote + 1 :]
    if len(body) and body[-1] == text[quote]:
        body = body[:-1]
    return _unescape(body)


def _unescape(body: str) -> str:
    out, i = [], 0
    while i < len(body):
        c = body[i]
        if c != "\\" or i + 1 >= len(body):
            out.append(c)
            i += 1
            continue
        following = body[i + 1]
        digits, base = "", 0
        if following == "x":
            base, rest = 16, body[i + 2 : i + 4]
            digits = "".join(d for d in rest if d in "0123456789abcdefABCDEF")
            used = 2 + len(digits)
        elif following in "01234567":
            base = 8
            for d in body[i + 1 : i + 4]:
                if d not in "01234567":
                    break
                digits += d
            used = 1 + len(digits)
        else:
            used = 2
        if base and digits:
            out.append(chr(int(digits, base)))
        else:
            out.append(_ESCAPES.get(following, following))
        i += used
    return "".join(out)
