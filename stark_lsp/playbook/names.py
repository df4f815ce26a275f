"""Names for values: such as Python takes, such as nothing else has, and several as a tuple."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Sequence


def identifier(text: str) -> str:
    """Return `text` as an identifier that is neither a word of Python nor hides torch; kernels see to the rest."""
    name = re.sub(r"\W+", "_", text).strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in ("torch", "F") else name


def unused(wish: str, taken: Container[str]) -> str:
    """Return a name, with the first number behind it that makes it one of its own if it is taken."""
    name, number = wish, 2
    while name in taken:
        name, number = f"{wish}_{number}", number + 1
    return name


def as_tuple(parts: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
