"""Sizes: how many tokens texts come to, as a bound and as a guess, and how long an answer may be.

Nobody outside the service knows how a text is cut into tokens. Code comes to about three or four characters a token.
Two rules are used: a *bound*, for money that must not be overspent, and a *guess*, for what is told to a person.
The service could count (`/v1/messages/count_tokens`), which other servers lack and which is a request of its own.
"""

from __future__ import annotations

import json
import math

from stark_lsp.core.conversation import Question, Usage

LONGEST_ANSWER = 2_000_000
"""Characters of an answer, thinking included; more is cut off. 128,000 tokens are well below that."""

CHARACTERS_PER_TOKEN = 3.5
"""Of code and English together, as a guess."""

FRAME_TOKENS = 1500
"""Bound on what the service itself adds: the frame of the messages and the words by which it explains tools
(at most 800 tokens by https://platform.claude.com/docs/en/about-claude/pricing)."""

TURN_TOKENS = 100
"""Bound on what names and marks of one call of a tool come to."""


def most_tokens(text: str) -> int:
    """Return a bound on the tokens of a text: half its ASCII characters, and every byte of the others.

    A token of ASCII text has two characters or more, on the average of anything longer than a few words; other
    characters may come to a token a byte.
    """
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    others = len(text.encode("utf-8", "replace")) - plain
    return math.ceil(plain / 2) + others


def likely_tokens(characters: int) -> int:
    """Return a guess at the tokens of so many characters."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def worst_case(question: Question) -> Usage:
    """Return the most that one try of a question can use: all of it written to the cache, and the longest answer."""
    read = most_tokens(question.system) + most_tokens(question.shared) + most_tokens(question.body)
    for tool in question.offered:
        read += most_tokens(tool.description) + most_tokens(json.dumps(tool.schema))
    for turn in question.turns:
        read += most_tokens(json.dumps(turn.input)) + most_tokens(turn.result) + most_tokens(turn.text) + TURN_TOKENS
    return Usage(cache_write_tokens=read + FRAME_TOKENS, output_tokens=question.max_tokens)
