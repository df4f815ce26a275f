"""Secret: an API key that cannot be printed by accident."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stark_lsp.core.errors import BadInput

ANTHROPIC_KEY, ANTHROPIC_TOKEN, OPENAI_KEY = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"
VARIABLES = (ANTHROPIC_KEY, ANTHROPIC_TOKEN, OPENAI_KEY)
"""Environment variables that hold a key; some servers with the Messages API take a bearer token instead."""
MASK = "…key…"
"""What stands wherever the key would."""


class Secret:
    """A text that shows itself to nobody who does not ask for it.

    Its `repr`, `str` and format are masked, it cannot be pickled or turned into JSON, and it has no attribute that a
    generic dump of objects would follow.

    Parameters
    ----------
    value
        The key; spaces around it are dropped.

    Raises
    ------
    ValueError
        It is empty, or has a character that no HTTP header may hold. The message does not tell the value.
    """

    __slots__ = ("_reveal",)

    def __init__(self, value: str) -> None:
        text = value.strip()
        if not text:
            raise ValueError("an empty key")
        if not all(" " < character <= "~" for character in text):
            raise ValueError("a key with a character that cannot be sent")
        self._reveal: Callable[[], str] = lambda: text

    def reveal(self) -> str:
        """Return the key itself; for the one place that sends it."""
        return self._reveal()

    def masked(self, text: str) -> str:
        """Return `text` with the key, wherever it stands in it, replaced."""
        return text.replace(self._reveal(), MASK)

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._reveal() == self._reveal()

    def __hash__(self) -> int:
        return hash(self._reveal())

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a key is not written anywhere")


def from_environment(variable: str) -> Secret | None:
    """Return the key that an environment variable holds, None if it is not set.

    Raises
    ------
    BadInput
        What it holds cannot be a key.
    """
    value = os.environ.get(variable, "").strip()
    try:
        return Secret(value) if value else None
    except ValueError as error:
        # The cause is left out: nothing of the value may be told.
        raise BadInput(f"{variable} holds {error}.", cure="Set it to your key, without quotes.") from None
