"""A user's own templates: read once, carried by every cell, and written where it runs.

So all runs of a benchmark are asked in the same words, on whichever machine, whatever becomes of the folder meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from stark_lsp.bench.files import writing
from stark_lsp.core.errors import BadInput

SUFFIXES = (".md", ".py")
"""Of files that a question may be made of."""
MOST = 1 << 20
"""Bytes of all files together; each cell carries them."""


def read(folder: Path) -> dict[str, str]:
    """Return the files of a folder of templates by their path in it; hidden files and folders are left out.

    Raises
    ------
    BadInput
        A file cannot be read, they are too large, or there are none.
    """
    found: dict[str, str] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix not in SUFFIXES or any(part.startswith(".") for part in name.parts) or not path.is_file():
            continue
        try:
            size += path.stat().st_size
            if size > MOST:
                raise BadInput(
                    f"The templates are larger than {MOST >> 20} MiB.", path=str(folder), cure="Name their own folder."
                )
            found[name.as_posix()] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput("The template cannot be read.", path=str(path), details=str(error)) from error
    if not found:
        raise BadInput("This folder holds no templates.", path=str(folder), cure="docs/agents.md says what they are.")
    return found


def write(prompts: Mapping[str, str], folder: Path) -> None:
    """Write what `read` returned below `folder`.

    Raises
    ------
    BadInput
        A name leads out of the folder.
    Fault
        It cannot be written.
    """
    for name, text in prompts.items():
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or "\\" in name or ":" in name:
            raise BadInput(f"{name[:80]!r} is no name of a template.")
        with writing("The templates", folder):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8", newline="\n")


def digest(prompts: Mapping[str, str]) -> str:
    """Return what tells templates from others, empty for none."""
    if not prompts:
        return ""
    return hashlib.sha256(json.dumps(prompts, sort_keys=True).encode()).hexdigest()[:8]
