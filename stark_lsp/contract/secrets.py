"""What looks like a secret: keys of well-known services by their form, all else by the name it goes by."""

from __future__ import annotations

import re
from typing import Any

KEY = re.compile(
    r"(?<![0-9A-Za-z])(?:sk-(?:(?:ant|proj|or|svcacct)-[0-9A-Za-z_-]{16,}|[0-9A-Za-z]{20,})|hf_[0-9A-Za-z]{20,}"
    r"|gh[opsur]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}|A[KS]IA[0-9A-Z]{16}"
    r"|xox[a-z]-[0-9A-Za-z-]{10,}|AIza[0-9A-Za-z_-]{30,})"
)
REMOVED = "[key removed]"
"""What stands where a secret would."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^0-9A-Za-z]+")
_VOCABULARY = "(?<!pad)(?<!bos)(?<!eos)(?<!sep)(?<!cls)(?<!unk)(?<!mask)(?<!class)(?<!special)(?<!image)(?<!video)"
"""Words before `token` that make it one of a vocabulary."""
_NAMED = re.compile(
    r"(?:^|_)(?:secret|password|passwd|passphrase|credential|api_?key)s?(?:_|$)"
    r"|(?:^|_)(?:auth|(?:access|account|auth|aws|encryption|hf|license|openai|private|signing|ssh|wandb)_key)$"
    rf"|{_VOCABULARY}(?:^|_)token$"
)


def names_secret(name: str) -> bool:
    """Whether a text that goes by this name is likely a secret."""
    return _NAMED.search(_WORDS.sub("_", name).lower()) is not None


def without_secrets(document: Any, hidden: bool = False) -> Any:
    """Return a JSON value with what looks like a secret replaced.

    Parameters
    ----------
    hidden
        Whether it goes by the name of a secret.
    """
    if isinstance(document, str):
        return REMOVED if hidden and document else KEY.sub(REMOVED, document)
    if isinstance(document, list):
        return [without_secrets(one, hidden) for one in document]
    if isinstance(document, dict):
        return {name: without_secrets(one, hidden or names_secret(name)) for name, one in document.items()}
    return document
