"""The pages of the docs that come with the package, for an editor to open."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]


@cache
def page_of(strategy: str) -> Path | None:
    """Return the page about a strategy of the playbook, None if there is none."""
    if not strategy.replace("-", "").isalnum():
        return None  # a model may have made it up
    folders = (_PACKAGE / "_docs", _PACKAGE.parent / "docs" / "playbook")
    return next((page for folder in folders if (page := folder / f"{strategy}.md").is_file()), None)
