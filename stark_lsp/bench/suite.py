"""A suite: a folder of problems in KernelBench's format, and which of them are asked for.

The problems of level N are the files of `levelN/`; files that lie in the suite's folder itself have level 0. Each holds
a class `Model` with `get_inputs()` and, if it takes arguments, `get_init_inputs()`. A problem is named by its level and
the number its file name begins with (`1/19` is `level1/19_ReLU.py`), or by the whole name where there is no number.
Nothing of a suite is executed here.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.core.parsing import parse
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.problems import make_problem

CLASS = "Model"
"""Name of the class in each file."""
ALL = "all"
REPRESENTATIVE = "representative"
CODE = "dataset.py"
"""Module in which a suite's own code lists them."""
LISTS = ("representative.txt", "representative.json")
"""Files in which a suite names its representative problems."""
DRAWN = 10
"""Problems of each level that are drawn where a suite has no such file."""
DRAW_SEED = 20250607
"""Of the draw, so that everybody draws the same."""
LONGEST = 1 << 20
"""Bytes of a problem's file."""
SHOWN = 5
"""Names that an error lists."""

_LEVEL = re.compile(r"level[ _-]?(\d{1,6})", re.IGNORECASE)
_NUMBER = re.compile(r"0*(\d{1,9})(?![0-9])")


@dataclass(frozen=True)
class Entry:
    """One problem of a suite."""

    level: int
    id: str
    """The number its file name begins with, else the whole name without `.py`."""
    path: str
    """Absolute path of its file."""
    text: str = ""
    error: str = ""
    """Why it cannot be used; empty if it can."""
    drawn: str = ""
    """Of what it was drawn: `10 of 100 of level 1`; empty if it was asked for otherwise."""

    @property
    def name(self) -> str:
        """What it is called: `1/19`."""
        return f"{self.level}/{self.id}"


def discover(folder: Path) -> tuple[Entry, ...]:
    """Return all problems of a suite by level and number; a file that cannot be used is one with an `error`.

    Raises
    ------
    BadInput
        There is no such folder, or no problem in it.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise BadInput("There is no such folder.", path=str(folder), cure="Name the folder of a suite.")
    places = [(0, folder)]
    for child in sorted(folder.iterdir()):
        match = _LEVEL.fullmatch(child.name)
        if match and child.is_dir():
            places.append((int(match[1]), child))
    found = [entry for level, place in places for entry in _of_folder(level, place)]
    if not found:
        raise BadInput(
            "This folder holds no problems.", path=str(folder), cure="A suite has files in level1/, level2/ …"
        )
    return tuple(sorted(found, key=_place))


def select(
    entries: Sequence[Entry], folder: Path, *, levels: Sequence[int] | None = None, subset: str = ALL
) -> tuple[Entry, ...]:
    """Return the problems that are asked for, in the suite's order.

    Parameters
    ----------
    levels
        Only problems of these levels; None is all that there are.
    subset
        `all`, `representative` (the suite's own list, else `draw`), names such as `1/3,2/17`, or a file that lists
        names.

    Raises
    ------
    BadInput
        A level or a problem is not there, or nothing is left.
    """
    there = sorted({entry.level for entry in entries})
    missing = sorted(set(levels or ()) - set(there))
    if missing:
        raise BadInput(
            f"The suite has no level {_joined(missing)}.", cure=f"It has {_joined(there)}.", path=str(folder)
        )
    wanted = [entry for entry in entries if levels is None or entry.level in levels]
    if subset == REPRESENTATIVE and _list_of(folder) is None:
        return draw(wanted)
    if subset != ALL:
        names = _names(subset, folder, there if levels is None else levels)
        known = {entry.name for entry in entries}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise BadInput(f"The suite has no problem {_joined(unknown)}.", cure=_example(entries), path=str(folder))
        wanted = [entry for entry in wanted if entry.name in names]
    if not wanted:
        raise BadInput("No problem is left to run.", cure="Widen --levels or --subset.")
    return tuple(wanted)


def draw(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return `DRAWN` problems of each level, spread over its order; the same ones wherever the files are called alike.

    Suites put problems of a kind next to each other. So each level is cut into as many runs of neighbours, nearly equal
    in length, and one is drawn from each.
    """
    found = []
    for level in sorted({entry.level for entry in entries}):
        own = [entry for entry in entries if entry.level == level]
        count = min(DRAWN, len(own))
        rng = Random(f"{DRAW_SEED}/{level}")
        borders = [place * len(own) // count for place in range(count + 1)]
        places = [rng.randrange(first, last) for first, last in pairwise(borders)]
        found += [replace(own[place], drawn=f"{count} of {len(own)} of level {level}") for place in places]
    return tuple(found)


def _of_folder(level: int, folder: Path) -> Iterable[Entry]:
    files = [path for path in sorted(folder.glob("*.py")) if path.is_file() and path.name[0] not in "_."]
    ids = [_id(path.stem) for path in files]
    often = Counter(ids)
    for path, number in zip(files, ids, strict=True):
        # Two files with the same number keep their whole names.
        yield _entry(level, number if often[number] == 1 else path.stem, path)


def _id(stem: str) -> str:
    match = _NUMBER.match(stem)
    return match[1] if match else stem


def _entry(level: int, number: str, path: Path) -> Entry:
    try:
        text = _read(path)
        problem = make_problem(str(path), text, CLASS)
        if problem.inputs.source is not InputSource.FUNCTIONS:
            raise BadInput("the file has no get_inputs().", path=str(path))
    except StarkError as error:
        return Entry(level, number, str(path), error=error.message)
    return Entry(level, number, str(path), text)


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if len(raw) > LONGEST:
            raise BadInput(f"the file is longer than {LONGEST >> 20} MiB.")
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}.") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BadInput("the file is not text in the encoding it declares.") from error


def _place(entry: Entry) -> tuple[int, bool, int, str]:
    number = entry.id.isdecimal()
    return entry.level, not number, int(entry.id) if number else 0, entry.id


# --- names ---------------------------------------------------------------------------------------------


def _names(subset: str, folder: Path, levels: Sequence[int]) -> frozenset[str]:
    own = _list_of(folder) if subset == REPRESENTATIVE else None
    if own is not None:
        return _listed(own, levels)
    if Path(subset).is_file():
        return _listed(Path(subset), levels)
    return frozenset(_name(part, levels, subset) for part in subset.split(",") if part.strip())


def _list_of(folder: Path) -> Path | None:
    """Return the suite's list: a file of its own, else the module of its code that has it, as KernelBench's does."""
    own = next((folder / name for name in LISTS if (folder / name).is_file()), None)
    if own is not None:
        return own
    above = folder.absolute().parent
    places = [folder / CODE, above / CODE, *sorted(above.glob(f"src/{CODE}")), *sorted(above.glob(f"src/*/{CODE}"))]
    return next((path for path in places if path.is_file() and _of_python(_read(path))), None)


def _listed(path: Path, levels: Sequence[int]) -> frozenset[str]:
    """Return the names in a file: one a line, or JSON, a list of names or numbers by level (`{"1": [19, 23]}`)."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            parts = _of_python(text)
        else:
            parts = _of_json(json.loads(text)) if path.suffix == ".json" else _of_lines(text)
    except (OSError, ValueError) as error:
        raise BadInput(f"The list cannot be read: {error}.", path=str(path)) from error
    if not parts:
        raise BadInput("The list is empty.", path=str(path), cure="Write one problem a line, such as 1/19.")
    return frozenset(_name(part, levels, str(path)) for part in parts)


def _of_lines(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in line.partition("#")[0].replace(",", " ").split()]


def _of_python(text: str) -> list[str]:
    """Return the names in a module's lists that are called representative of a level; its text is read, never run."""
    try:
        body = parse(text).body
    except SyntaxError:
        return []
    found: dict[int, list[str]] = {}
    for one in body:
        target = (
            one.targets[0] if isinstance(one, ast.Assign) else one.target if isinstance(one, ast.AnnAssign) else None
        )
        match = _LEVEL.search(target.id) if isinstance(target, ast.Name) and "represent" in target.id.lower() else None
        value = one.value if isinstance(one, (ast.Assign, ast.AnnAssign)) else None
        if match is None or not isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            continue
        items = [item.value for item in value.elts if isinstance(item, ast.Constant)]
        # A list of file names may stand beside one of numbers; either says the same.
        found[int(match[1])] = [f"{int(match[1])}/{_id(str(item).removesuffix('.py'))}" for item in items]
    return [name for level in sorted(found) for name in found[level]]


def _of_json(data: Any) -> list[str]:
    if isinstance(data, list):
        return [str(part) for part in data]
    if not isinstance(data, dict) or not all(isinstance(value, list) for value in data.values()):
        raise ValueError('it is neither a list nor {"1": [19, 23], …}')
    found = []
    for key, values in data.items():
        match = _LEVEL.fullmatch(key)
        found += [f"{match[1] if match else key}/{value}" for value in values]
    return found


def _name(part: str, levels: Sequence[int], where: str) -> str:
    """Return `1/19` for `1/19`, `level1/019` or, if there is one level only, `19`."""
    first, slash, rest = part.strip().removesuffix(".py").partition("/")
    if not slash:
        if len(levels) != 1:
            raise BadInput(f"{where[:80]}: {part.strip()[:80]!r} names no level.", cure="Write it as 1/19.")
        first, rest = str(levels[0]), first
    match = _LEVEL.fullmatch(first)
    level = match[1] if match else first
    if not level.isdecimal() or not rest:
        raise BadInput(f"{where[:80]}: {part.strip()[:80]!r} names no problem.", cure="Write it as 1/19.")
    return f"{int(level)}/{int(rest) if rest.isdecimal() else rest}"


def _joined(values: Iterable[object]) -> str:
    listed = [str(value) for value in values]
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def _example(entries: Sequence[Entry]) -> str:
    return f"It has {len(entries)} problems, for instance {_joined(entry.name for entry in entries[:3])}."
