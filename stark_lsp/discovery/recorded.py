"""What was recorded of a class in a run, as a `stark.input` table or, where a table cannot say it, as functions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stark_lsp.core.editing import keep_ends
from stark_lsp.core.errors import BadInput
from stark_lsp.core.toml import tomllib
from stark_lsp.discovery.imports import arranged
from stark_lsp.discovery.tables import DTYPES

Described = Mapping[str, Any]
"""A value as `judge/inputs/record.py` describes it."""


class NoTable(Exception):
    """A table cannot say it; `str()` says what."""


def input_table(header: str, name: str, call: Described, comment: str) -> str:
    """Return the text of a table for one recorded call.

    Raises
    ------
    NoTable
        An argument is something that a table cannot describe.
    """
    lines = [f"# {comment}", f"[[{header}]]", f"class = {_toml(name)}"]
    init = call.get("init") or {}
    if init.get("args"):
        lines.append(f"init_args = {_toml([_plain(value, 'a constructor argument') for value in init['args']])}")
    if init.get("kwargs"):
        made = {key: _plain(value, f"the constructor argument {key}") for key, value in init["kwargs"].items()}
        lines.append(f"init_kwargs = {_toml(made)}")
    lines += _how(call)
    if call["args"]:
        entries = [f"    {_toml(_entry(value, f'argument {index + 1}'))}," for index, value in enumerate(call["args"])]
        lines += ["args = [", *entries, "]"]
    if call["kwargs"]:
        made = {key: _entry(value, f"the argument {key}") for key, value in call["kwargs"].items()}
        lines.append(f"kwargs = {_toml(made)}")
    return "\n".join(lines) + "\n"


def _how(call: Described) -> list[str]:
    """Return what a table says of how a class is used."""
    autocast = [f"autocast = {_toml(call['autocast'])}"] if call.get("autocast") else []
    # Without autocast the dtype of weights is taken from the inputs.
    inferred = set() if autocast else _floating([call["args"], call["kwargs"]])
    if call.get("dtype") and {call["dtype"]} != inferred | {"float32"}:
        return [f"dtype = {_toml(call['dtype'])}", *autocast]
    return autocast


def table_beside(header: str, name: str, call: Described) -> str:
    """Return the table that goes with `functions`, which cannot say how a class is used; empty if there is no need."""
    how = _how(call)
    return "\n".join([f"[[{header}]]", f"class = {_toml(name)}", *how]) + "\n" if how else ""


def _floating(described: Any) -> set[str]:
    """Return the floating-point dtypes of all tensors in a description."""
    if isinstance(described, Mapping):
        dtype = described.get("dtype")
        found = {dtype} if isinstance(dtype, str) and dtype.lstrip("b").startswith("float") else set()
        return found.union(*map(_floating, described.values()))
    return set().union(*map(_floating, described)) if isinstance(described, list) else set()


def _plain(value: Described, what: str) -> Any:
    if "value" in value and value["value"] is not None:
        return value["value"]
    if "list" in value or "tuple" in value:
        return [_plain(item, what) for item in value.get("list", value.get("tuple"))]
    if "dict" in value:
        return {key: _plain(item, what) for key, item in value["dict"].items()}
    raise NoTable(f"{what} is {_said(value)}")


def _said(value: Described) -> str:
    if "enum" in value:
        return str(value["enum"])
    if "object" in value:
        return f"a {value['object']}"
    return str(
        value.get("other") or ("a tensor" if "tensor" in value else "None" if "value" in value else "no plain value")
    )


def _entry(value: Described, what: str) -> dict[str, Any]:
    if "tensor" not in value:
        return {"value": _plain(value, what)}
    tensor = value["tensor"]
    if tensor["dtype"] not in DTYPES:
        raise NoTable(f"{what} is a tensor of dtype {tensor['dtype']}")
    entry: dict[str, Any] = {"shape": tensor["shape"], "dtype": tensor["dtype"], **_values(tensor)}
    if tensor.get("strides") and all(stride > 0 for stride in tensor["strides"]):
        entry["strides"] = tensor["strides"]
    return entry


def _values(tensor: Described) -> dict[str, Any]:
    """Return how values like those that were seen are made."""
    low, high = tensor.get("low"), tensor.get("high")
    if tensor["dtype"] == "bool":
        return {"kind": "zeros" if high is False else "ones"}
    if tensor["dtype"].startswith("complex") or low is None or high is None:
        return {"kind": "randn"}
    if re.match("u?int", tensor["dtype"]):
        return {"kind": "randint", "low": int(low), "high": int(high) + 1}
    if low == high and low in (0, 1):
        return {"kind": "ones" if low else "zeros"}
    return {"kind": "rand", "low": float(low), "high": float(high)} if low >= 0 and high > low else {"kind": "randn"}


def _toml(value: Any) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_toml(item)}' for key, item in value.items())}}}"
    return repr(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def functions(name: str, suffix: str, call: Described, comment: str) -> str:
    """Return `get_inputs` and `get_init_inputs` for one recorded call."""
    home, init = call.get("module", ""), call.get("init") or {"args": [], "kwargs": {}}
    texts = []
    for function, one in (("get_inputs", call), ("get_init_inputs", init)):
        said = {**one, "args": _reachable(one["args"], home), "kwargs": _reachable(one["kwargs"], home)}
        returned = _arguments(said)
        needed = _imports([said["args"], said["kwargs"]], home)
        if "torch." in returned and not call.get("torch", True):
            needed.add("import torch")
        importing = "".join(f"    {line}\n" for line in arranged(needed) if line) + "\n" * bool(needed)
        texts.append(f"def {function}{suffix}():\n{importing}    return {returned}\n")
    return f"# {comment}\n" + "\n\n".join(texts)


def _reachable(described: Any, home: str) -> Any:
    """Return a description in which nothing is of a class that the script defines, unless that has ours too."""
    if isinstance(described, list):
        return [_reachable(one, home) for one in described]
    if not isinstance(described, Mapping):
        return described
    if described.get("module") == "__main__" != home:
        return {"other": f"{_said(described)}, which the script defines"}
    return {key: _reachable(value, home) for key, value in described.items()}


def _imports(described: Any, home: str) -> set[str]:
    """Return the imports of classes that stand in other modules than `home`."""
    if isinstance(described, list):
        return set().union(*(_imports(one, home) for one in described))
    if not isinstance(described, Mapping):
        return set()
    found = _imports(list(described.values()), home)
    if "module" in described and described["module"] != home:
        name = described.get("object") or described["enum"]
        found.add(f"from {described['module']} import {name.partition('.')[0]}")
    return found


def _arguments(call: Described) -> str:
    args, kwargs = call["args"], call["kwargs"]
    names = call.get("names") or ()
    if kwargs and len(names) == len(args):
        args, kwargs = [], {**dict(zip(names, args, strict=True)), **kwargs}
    if kwargs and not args:
        text = "{" + ", ".join(f'"{key}": {_code(value)}' for key, value in kwargs.items()) + "}"
    else:
        text = f"[{', '.join(_code(value) for value in args)}]"
    unsaid = [said for value in args or kwargs.values() for said in _unsaid(value)]
    notes = [f"each ... in turn: {', '.join(unsaid)}"] if unsaid else []
    notes += [f"a list cannot say what is passed by name too: {', '.join(kwargs)}"] if args and kwargs else []
    return f"{text}  # {'; '.join(notes)}" if notes else text


def _unsaid(value: Described) -> list[str]:
    """Return what code cannot say of a value, in the order in which `...` stands for it."""
    if "other" in value:
        return [value["other"]]
    named = [*value.get("dict", {}).values(), *value.get("fields", {}).values()]
    return [said for one in (*value.get("list", ()), *value.get("tuple", ()), *named) for said in _unsaid(one)]


def _code(value: Described) -> str:
    if "tensor" in value:
        tensor = value["tensor"]
        made, shape, dtype = _values(tensor), tuple(tensor["shape"]), f"dtype=torch.{tensor['dtype']}"
        if made["kind"] == "randint":
            return f"torch.randint({made['low']}, {made['high']}, {shape}, {dtype})"
        if made["kind"] == "rand":
            return f"torch.rand({shape}, {dtype}) * {made['high'] - made['low']!r} + {made['low']!r}"
        return f"torch.{made['kind']}({shape}, {dtype})"
    if "list" in value:
        return f"[{', '.join(_code(item) for item in value['list'])}]"
    if "tuple" in value:
        return f"({', '.join(_code(item) for item in value['tuple'])}{',' if len(value['tuple']) == 1 else ''})"
    if "dict" in value:
        return "{" + ", ".join(f"{key!r}: {_code(item)}" for key, item in value["dict"].items()) + "}"
    if "object" in value:
        return f"{value['object']}({', '.join(f'{key}={_code(item)}' for key, item in value['fields'].items())})"
    if "code" in value or "enum" in value:
        return str(value.get("code") or value["enum"])
    return repr(value["value"]) if "value" in value else "..."


def with_table(text: str, header: str, name: str, table: str, path: str) -> str:
    """Return the text of a TOML file with a table added, or put in the place of the one for the same class.

    All else stays as it is, comments and order included.

    Raises
    ------
    BadInput
        The file is no TOML, or the class's table is written in a way that cannot be replaced by text.
    """
    before = _parse(text, path)
    kept = [entry for entry in _entries(before, header) if entry.get("class") != name]
    replaced = _replaced(text, header, name, table) if len(kept) != len(_entries(before, header)) else None
    if replaced is None:
        joint = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        replaced = f"{text}{joint}{table}"
    if "\r\n" in text:
        replaced = re.sub(r"\r?\n", "\r\n", replaced)
    try:
        after: dict[str, Any] | None = tomllib.loads(replaced)
    except tomllib.TOMLDecodeError:
        after = None
    mine = tomllib.loads(table)
    added = _entries(mine, header)[0]
    others = [entry for entry in _entries(after or {}, header) if entry != added]
    if after is None or others != kept or _without(before, header) != _without(after, header):
        raise BadInput(
            f"the input table of {name} cannot be put in by text.",
            cure=f"Put this in by hand:\n{table}",
            path=path,
        )
    return replaced


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"is not valid TOML: {error}.", cure="Mend it there.", path=path) from error


def _entries(data: Mapping[str, Any], header: str) -> list[dict[str, Any]]:
    found: Any = data
    for part in header.split("."):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return list(found) if isinstance(found, list) else [found] if isinstance(found, dict) and found else []


def _without(data: Mapping[str, Any], header: str) -> dict[str, Any]:
    """Return the data without the tables of that header, and without tables that only held it."""
    copy: dict[str, Any] = json.loads(json.dumps(data, default=str))

    def cut(holder: Any, name: str, *inner: str) -> None:
        if isinstance(holder, dict) and name in holder:
            if inner:
                cut(holder[name], *inner)
            if not inner or holder[name] == {}:
                holder.pop(name)

    cut(copy, *header.split("."))
    return copy


def _replaced(text: str, header: str, name: str, table: str) -> str | None:
    """Return the text with the class's table replaced, None if its place is not found."""
    lines = keep_ends(text)
    opening = re.compile(rf"\s*\[\[\s*{re.escape(header)}\s*\]\]")
    starts = [number for number, line in enumerate(lines) if opening.match(line)]
    for start in starts:
        end = start + 1
        while end < len(lines) and not (
            re.match(r"\s*\[", lines[end]) and not lines[end].lstrip().startswith(f"[{header}.")
        ):
            end += 1
        for last in range(end, start, -1):  # what stands between two tables may belong to the next one
            block = "".join(lines[start:last])
            try:
                entries = _entries(tomllib.loads(block), header)
            except tomllib.TOMLDecodeError:
                continue
            if len(entries) == 1 and entries[0].get("class") == name:
                while last > start and (not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#")):
                    last -= 1
                begin = start - 1 if start and lines[start - 1].startswith("# Recorded ") else start
                return "".join([*lines[:begin], table, *lines[last:]])
            break
    return None
