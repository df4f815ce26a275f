"""Strategies of the user's: files that say what is replaced, and by what, see `docs/playbook/own.md`.

They are read here, never run: that the judge does, as it runs the user's module (`judge/analysis/rewrites/own.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from importlib import metadata, util
from pathlib import Path

from stark_lsp.core.errors import BadInput
from stark_lsp.playbook.inductor.recipes import Switch

FOLDER = "strategies"
"""Within a folder of prompts."""
GROUP = "stark_lsp.strategies"
"""Of entry points, each of which names a module."""


def own_switches(prompt_dirs: Sequence[Path | str]) -> tuple[Switch, ...]:
    """Return a switch for each file in the folders of prompts, and for each module that a package declares.

    Raises
    ------
    BadInput
        A file is no Python, does not say what it does, or cannot be read.
    """
    found: dict[str, Switch] = {}
    for path in (*_files(prompt_dirs), *_modules()):
        found.setdefault(path.stem, _switch(path))
    return tuple(found.values())


def _files(folders: Sequence[Path | str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((Path(folder) / FOLDER).glob("*.py"))


def _modules() -> Iterator[Path]:
    for entry in metadata.entry_points(group=GROUP):
        # Found, not imported; of a package its parents are.
        spec = util.find_spec(entry.module)
        if spec is not None and spec.origin:
            yield Path(spec.origin)


def _switch(path: Path) -> Switch:
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError) as error:
        line = getattr(error, "lineno", None)
        raise BadInput(f"The strategy cannot be read: {error}.", path=str(path), line=line) from error
    title, _, advice = (ast.get_docstring(tree) or "").partition("\n")
    defined = {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}
    missing = [name for name in ("pattern", "replacement", "example") if name not in defined]
    if missing or not title.strip():
        lacks = f"a function {missing[0]}" if missing else "a docstring, whose first line is the title of its plan"
        raise BadInput(f"The strategy lacks {lacks}.", path=str(path), line=1)
    title = title.strip().rstrip(".")
    return Switch(path.stem, "on", title, "", rewrites=path.stem, source=text, text=advice.strip() or title)
