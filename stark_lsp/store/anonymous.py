"""What a transcript leaves out before it is handed on: keys always, and where files lie when that is asked for.

Paths stand in texts too: in the output of compilers, in tracebacks, and in the prompts that quote them. So the folders
of the files that a run names are removed from every text of the transcript. Source code, prompts, names of files and
the name of the device stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from stark_lsp.agents.models.secret import VARIABLES
from stark_lsp.contract.secrets import KEY, REMOVED

_HOME = re.compile(r"/(?:home|Users)/[^/]+|/root")
_SHORTEST_KEY = 8
"""A shorter value is no key, and replacing it would spoil texts."""


def without_keys(document: Any) -> Any:
    """Return a wire form in which no API key stands, should one have come into a message of a service."""
    known = [os.environ.get(name, "").strip() for name in VARIABLES]
    patterns = [re.escape(key) for key in known if len(key) >= _SHORTEST_KEY]
    pattern = re.compile("|".join([*patterns, KEY.pattern]))
    return _mapped(document, lambda text: pattern.sub(REMOVED, text))


def anonymized(document: dict[str, Any]) -> dict[str, Any]:
    """Return the wire form of a transcript without the folders of the files it names, wherever they stand in it."""
    folders = {folder for folder in _folders(document) if folder.startswith("/") and len(folder) > 1}
    if not folders:
        return document
    # Longest first: what is left of a longer path must not be taken for a shorter one.
    either = "|".join(_expression(folder) for folder in sorted(folders, key=len, reverse=True))
    pattern = re.compile(rf"(?:{either})(?:/|(?![\w.-]))")
    return dict(_mapped(document, lambda text: pattern.sub("", text)))


def _expression(folder: str) -> str:
    """Return what finds a folder; one right below `/` only where a path begins, also after an option such as `-I`."""
    start = r"(?<![a-z0-9_.~)\]-])" if folder.count("/") == 1 else ""
    return start + re.escape(folder)


def _folders(document: dict[str, Any]) -> Iterator[str]:
    """Return the folders to remove: those of the document and above it, of interpreters, and the user's own."""
    problem = document["run"]["problem"]
    yield os.path.expanduser("~")
    for path in (problem["path"], problem["inputs"]["table_path"] or ""):
        folder, *above = (str(parent) for parent in PurePosixPath(path).parents or ("",))
        yield folder
        yield from (one for one in above if one.count("/") > 1)
        yield from _HOME.findall(path)[:1]
    for interpreter in _interpreters(document):
        # Messages name what lies beside `bin` as well.
        yield from (str(one) for one in PurePosixPath(interpreter).parents if str(one).count("/") > 1)
        yield from _HOME.findall(interpreter)[:1]


def _interpreters(document: dict[str, Any]) -> Iterator[str]:
    holders = [document["run"]["reference"], *(node["verdict"] for node in document["nodes"])]
    for holder in holders:
        if holder is not None and holder["environment"] is not None:
            yield holder["environment"]["interpreter"]


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with every text in it changed, names of an object too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(one, change) for one in value]
    if isinstance(value, dict):
        return {change(name): _mapped(one, change) for name, one in value.items()}
    return value
