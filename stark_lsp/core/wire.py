"""The wire form: each word of `core` as JSON and back, without loss.

Used by the store, by `--json` and by the server's own messages. Unknown keys are refused, so that a
misspelled setting is reported rather than ignored. Non-finite floats travel as strings, since JSON
has none (RFC 8259, section 6).
"""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import Any, TypeVar

from cattrs import Converter
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

T = TypeVar("T")


class WireError(ValueError):
    """A value does not have the wire form of the type it is read as."""


def _float_out(value: float) -> Any:
    return value if math.isfinite(value) else str(value)


def _str_out(value: str) -> str:
    return str(value.value) if isinstance(value, Enum) else value  # our enums are texts


def _float_in(value: Any, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise WireError(f"not a number: {value!r}")
    return float(value)


def _int_in(value: Any, _: type) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WireError(f"not a whole number: {value!r}")
    return value


def _str_in(value: Any, kind: type[str]) -> str:
    if not isinstance(value, str):
        raise WireError(f"not a text: {value!r}")
    return value if kind is str else kind(value)  # our enums are texts and come here too


def _bool_in(value: Any, _: type) -> bool:
    if not isinstance(value, bool):
        raise WireError(f"not true or false: {value!r}")
    return value


def _make_converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook(str, _str_out)
    converter.register_unstructure_hook(float, _float_out)
    converter.register_structure_hook(float, _float_in)
    converter.register_structure_hook(int, _int_in)
    converter.register_structure_hook(str, _str_in)
    converter.register_structure_hook(bool, _bool_in)
    return converter


_converter = _make_converter()


def to_wire(value: Any) -> Any:
    """Return `value` as dicts, lists, strings, numbers, booleans and None."""
    return _converter.unstructure(value)


def from_wire(data: Any, kind: type[T]) -> T:
    """Read `data` as a `kind`.

    Raises
    ------
    WireError
        A key is missing or unknown, or a value has the wrong type; the text names it.
    """
    try:
        return _converter.structure(data, kind)
    except ClassValidationError as error:
        raise WireError(f"{kind.__name__}: {_explain(error)}") from error
    except (ForbiddenExtraKeysError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"{getattr(kind, '__name__', kind)}: {error}") from error


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return the JSON text of a word."""
    return json.dumps(to_wire(value), indent=indent, ensure_ascii=False, allow_nan=False)


def loads(text: str | bytes, kind: type[T]) -> T:
    """Read the JSON text of a word.

    Raises
    ------
    WireError
        The text is not JSON, or not a `kind`.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from error
    return from_wire(data, kind)


def _explain(error: ClassValidationError) -> str:
    """Return the innermost reasons of a cattrs error group as one line."""
    parts: list[str] = []
    for inner in error.exceptions:
        if isinstance(inner, ClassValidationError):
            parts.append(_explain(inner))
            continue
        notes = "; ".join(str(note) for note in getattr(inner, "__notes__", ()))
        parts.append(f"{inner} ({notes})" if notes else str(inner))
    return "; ".join(parts)
