"""Notebooks as Python: the code cells one below the other, line for line.

Lines for IPython (`%timeit`, `!pip install`) become comments, so that the rest can be read. A class is run with the
statements that it and its inputs need, and no others: a notebook trains and plots as it goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from stark_lsp.discovery.slicing import NoSuchClass, needed_statements
from stark_lsp.discovery.syntax import first_line, keep_ends, last_line, parse

ENDING = ".ipynb"
BETWEEN = "# %%"
"""The line behind each cell; what is put there goes to the end of the cell."""

_MAGIC = re.compile(r"(\s*)([%!?]|[\w.]+\?\??\s*$)")
_ASSIGNED = re.compile(r"(\s*[\w., ]+=\s*)[%!]")


def is_notebook(path: str) -> bool:
    """Whether a file is a notebook."""
    return path.endswith(ENDING)


def joined(cells: Iterable[str]) -> str:
    """Return code cells as one text in which every line stands as it does in its cell."""
    return "".join(f"{_as_python(cell)}\n{BETWEEN}\n" for cell in cells)


def height(cell: str) -> int:
    """Return how many lines of `joined` a cell takes, the one behind it included."""
    return cell.count("\n") + 2


def text_of(file: str) -> str | None:
    """Return the text of a notebook's file as `joined`, None if it is no notebook in Python."""
    try:
        cells = json.loads(file)["cells"]
        return joined("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (ValueError, LookupError, TypeError):
        return None


def needed_alone(text: str, qualname: str, names: Iterable[str]) -> str:
    """Return a text with all statements blanked that neither a class nor the functions of these names need."""
    try:
        needed = needed_statements(parse(text), qualname, frozenset(names))
    except (SyntaxError, NoSuchClass):
        return text
    kept = {line for each in needed for line in range(first_line(each.node), last_line(each.node) + 1)}
    return "".join(line if number in kept else "\n" for number, line in enumerate(keep_ends(text)))


def _as_python(cell: str) -> str:
    if cell.lstrip().startswith("%%"):
        return "\n".join(f"#{line[1:]}" if line else line for line in cell.split("\n"))
    try:
        parse(cell)
    except SyntaxError:
        return "\n".join(_without_magic(line) for line in cell.split("\n"))
    return cell


def _without_magic(line: str) -> str:
    if (found := _MAGIC.match(line)) is not None:
        return f"{found.group(1)}pass  # {line.strip()}" if found.group(1) else f"#{line[1:]}"
    if (found := _ASSIGNED.match(line)) is not None:
        return f"{found.group(1)}None  # {line[found.end() - 1 :]}"
    return line
