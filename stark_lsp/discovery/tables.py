"""Inputs written down in TOML: `[[tool.stark.input]]` of `pyproject.toml`, `[[stark.input]]` of `stark.toml`.

[[tool.stark.input]]
class = "models/net.py::Net"        # or "Net" alone
init_args = [512]
init_kwargs = {bias = false}
dtype = "bfloat16"                  # of the weights, where it is not as constructed
autocast = "bfloat16"               # where it is called under torch.autocast
args = [{shape = [8, 512], dtype = "float32", kind = "randn"}]
kwargs = {mask = {shape = [8, 512], dtype = "bool", kind = "ones"}}

Where functions of the file make the inputs, a table with neither args nor kwargs says the rest.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from stark_lsp.core.errors import BadInput
from stark_lsp.core.toml import tomllib

KINDS = ("randn", "rand", "randint", "zeros", "ones", "value")
"""How the values of an input are made."""
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
)  # fmt: skip
WHOLE = DTYPES[4:9]
"""Those of whole numbers."""
DRAWN_FROM = ("rand", "randint")
"""Kinds that are drawn from `low` to `high`; of no kind, floating-point and whole numbers with one of these are."""
WEIGHTS = ("float32", "float64", "float16", "bfloat16")
"""What a class can be converted to."""
AUTOCAST = ("float16", "bfloat16")
"""What calls can be cast to."""
_KEYS = {"class", "init_args", "init_kwargs", "dtype", "autocast", "args", "kwargs"}
_INPUT_KEYS = {"shape", "dtype", "kind", "low", "high", "value", "strides"}


@dataclass(frozen=True)
class FoundTable:
    """A table of inputs."""

    table: dict[str, Any]
    path: str
    """The TOML file."""


def find_tables(path: str) -> list[FoundTable]:
    """Return the tables that may name a class of the file at `path`, first come first; unreadable files have none."""
    found: list[FoundTable] = []
    for toml in toml_files(path):
        try:
            found += _tables(toml)
        except BadInput:
            continue
    return found


def names(table: FoundTable, path: str, qualname: str) -> bool:
    """Whether a table names a class of the file at `path`."""
    wanted = table.table.get("class")
    if not isinstance(wanted, str):
        return False
    file, separator, name = wanted.rpartition("::")
    if name != qualname:
        return False
    return not separator or os.path.realpath(Path(table.path).parent / file) == os.path.realpath(path)


def says_how_alone(table: FoundTable) -> bool:
    """Whether a table says how a class is used, and not what its inputs are."""
    return bool({"dtype", "autocast"} & table.table.keys()) and not {"args", "kwargs"} & table.table.keys()


def check_tables(path: str, qualname: str, *, functions: bool = False) -> None:
    """Check the TOML files a class's inputs may stand in, and its table if there is one.

    Parameters
    ----------
    functions
        Whether functions of the file make the inputs, so that the table need not.

    Raises
    ------
    BadInput
        A file is no TOML or the class's table is not as it must be; the text names the file and the key.
    """
    for toml in toml_files(path):
        for table in _tables(toml):
            if names(table, path, qualname):
                _check(table, functions)
                return


def toml_files(path: str) -> list[Path]:
    """Return the nearest `stark.toml` and the nearest `pyproject.toml`, as far as there are any."""
    found: list[Path] = []
    for name in ("stark.toml", "pyproject.toml"):
        for folder in Path(path).parents:
            if (folder / name).is_file():
                found.append(folder / name)
                break
    return found


def _tables(toml: Path) -> list[FoundTable]:
    try:
        stamp = toml.stat()
        raw = _read(str(toml), stamp.st_mtime_ns, stamp.st_size)
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}.", cure="Make it readable.", path=str(toml)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"is not valid TOML: {error}.", cure="Mend it there.", path=str(toml)) from error
    data = json.loads(raw)
    where = data.get("tool", {}) if toml.name == "pyproject.toml" else data
    stark = where.get("stark", {}) if isinstance(where, dict) else {}
    tables = stark.get("input", []) if isinstance(stark, dict) else []
    if isinstance(tables, dict):
        tables = [tables]
    given = tables if isinstance(tables, list) else []
    return [FoundTable(table, str(toml)) for table in given if isinstance(table, dict)]


@lru_cache(maxsize=32)
def _read(path: str, modified_ns: int, size: int) -> str:
    """Return the file as JSON text: dates become text, and no caller can change what the next one gets."""
    with open(path, "rb") as file:
        return json.dumps(tomllib.load(file), default=str)


def _check(found: FoundTable, functions: bool) -> None:
    table = found.table

    def refuse(message: str, cure: str) -> None:
        raise BadInput(f"the input table of {table['class']} {message}.", cure=cure, path=found.path)

    for key in table.keys() - _KEYS:
        refuse(f"has an unknown key {key!r}", f"Known keys: {', '.join(sorted(_KEYS))}.")
    for key, kind in (("init_args", list), ("args", list), ("init_kwargs", dict), ("kwargs", dict)):
        if key in table and not isinstance(table[key], kind):
            refuse(f"has {key!r} of the wrong type", f"Write a {'list' if kind is list else 'table'}.")
    if table.get("dtype", WEIGHTS[0]) not in WEIGHTS:
        refuse(f"has an unknown dtype {table['dtype']!r}", f"Of weights it is one of {', '.join(WEIGHTS)}.")
    if table.get("autocast", AUTOCAST[0]) not in AUTOCAST:
        refuse(f"has an unknown autocast {table['autocast']!r}", f"It is one of {', '.join(AUTOCAST)}.")
    entries: list[tuple[str, Any]] = [(f"args[{i}]", entry) for i, entry in enumerate(table.get("args", []))]
    entries += [(f"kwargs.{key}", entry) for key, entry in table.get("kwargs", {}).items()]
    if not entries and not functions:
        refuse("has neither args nor kwargs", 'Add for instance args = [{shape = [8, 512], kind = "randn"}].')
    for place, entry in entries:
        if not isinstance(entry, dict):
            refuse(f"has no table at {place}", "Write {shape = [...]}, or {value = ...} for a plain value.")
            continue
        for key in entry.keys() - _INPUT_KEYS:
            refuse(f"has an unknown key {key!r} at {place}", f"Known keys: {', '.join(sorted(_INPUT_KEYS))}.")
        if entry.get("kind", "randn") not in KINDS:
            refuse(f"has an unknown kind {entry['kind']!r} at {place}", f"Known kinds: {', '.join(KINDS)}.")
        if entry.get("dtype", "float32") not in DTYPES:
            refuse(f"has an unknown dtype {entry['dtype']!r} at {place}", f"Known dtypes: {', '.join(DTYPES)}.")
        if entry.get("kind") == "value" or ("kind" not in entry and "value" in entry):
            if "value" not in entry:
                refuse(f"has no value at {place}", "Add value = ....")
            continue
        drawn, ranged = entry.get("kind"), "low" in entry or "high" in entry
        whole = drawn is None and ranged and entry.get("dtype", "float32") in WHOLE
        if ranged and drawn not in (None, *DRAWN_FROM):
            refuse(
                f"has low or high at {place}, which kind {drawn!r} does not use", 'Write kind = "rand" or "randint".'
            )
        if (drawn == "randint" or whole) and "high" not in entry:
            refuse(f"has no high at {place}", "Add high = ..., which is never drawn itself.")
        shape = entry.get("shape")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            refuse(f"has no shape at {place}", "Add shape = [...] of whole numbers.")
            continue
        strides = entry.get("strides", [1] * len(shape))
        if not (
            isinstance(strides, list)
            and len(strides) == len(shape)
            and all(type(stride) is int and stride > 0 for stride in strides)
        ):
            refuse(f"has strides that do not fit its shape at {place}", "Write one whole number above 0 for each size.")
