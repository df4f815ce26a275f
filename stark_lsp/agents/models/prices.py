"""Prices: what tokens cost, as data with a source and a date.

The table is `prices.toml` next to this file. A user's own `prices.toml` in the configuration folder (or the file that
`STARK_PRICES` names) adds models, or takes the place of entries. A model that is in neither has no known price: nothing
is guessed, not from a similar name and not from a newer version.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from stark_lsp.agents.models.names import undated
from stark_lsp.core.conversation import Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.toml import tomllib

PRICES_VARIABLE = "STARK_PRICES"
"""Environment variable that names another file of the user's own prices."""
FILE_NAME = "prices.toml"

_FIELDS = ("input", "cache_write", "cache_read", "output")


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens of each kind."""

    input: float
    cache_write: float
    cache_read: float
    output: float
    above: int | None = None
    """Tokens of input above which `long` holds; None where length makes no difference."""
    long: Price | None = None
    """Prices of the whole call where its input is longer than `above`."""

    def cost(self, usage: Usage) -> float:
        """Return what one call cost, in US dollars."""
        read = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
        if self.long is not None and self.above is not None and read > self.above:
            return self.long.cost(usage)
        millionths = (
            usage.input_tokens * self.input
            + usage.cache_write_tokens * self.cache_write
            + usage.cache_read_tokens * self.cache_read
            + usage.output_tokens * self.output
        )
        return millionths / 1e6

    def most(self, usage: Usage) -> float:
        """Return a bound on one call's cost in US dollars: all that is read at the dearest of its prices."""
        read = usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens
        bound = (read * max(self.input, self.cache_write, self.cache_read) + usage.output_tokens * self.output) / 1e6
        if self.long is not None and self.above is not None and read > self.above:
            return max(bound, self.long.most(usage))
        return bound


@dataclass(frozen=True)
class Prices:
    """A price list."""

    models: Mapping[str, Price] = field(default_factory=dict)
    """By name, without the date of a snapshot."""
    source: str = ""
    date: str = ""
    """ISO 8601: when the list was true."""
    everything: Price | None = None
    """The price of any model that is not listed; None where it is unknown."""

    def of(self, model: str) -> Price | None:
        """Return a model's price, None if it is unknown."""
        return self.models.get(model) or self.models.get(undated(model)) or self.everything

    def cost(self, model: str, usage: Usage) -> float | None:
        """Return what a call cost in US dollars, None if the price is unknown."""
        price = self.of(model)
        return None if price is None else price.cost(usage)


def prices_of(kind: str) -> Prices:
    """Return the price list for a kind of model (`registry`).

    A transcript costs nothing. What the user pays for the editor's model is not known, whatever it is called.

    Raises
    ------
    BadInput
        The user's own price list cannot be read.
    """
    if kind == "replay":
        return Prices(everything=Price(0.0, 0.0, 0.0, 0.0))
    return Prices() if kind == "editor" else load()


def own_prices_path() -> Path:
    """Return where the user's own prices are looked for; the file need not exist."""
    chosen = os.environ.get(PRICES_VARIABLE, "").strip()
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_config_path

    return user_config_path("stark-lsp", appauthor=False) / FILE_NAME


def load(own: Path | None = None) -> Prices:
    """Return the built-in price list with the user's own entries over it.

    Parameters
    ----------
    own
        The user's file; None for `own_prices_path()`. It need not exist unless it was named by `STARK_PRICES`.

    Raises
    ------
    BadInput
        The user's file cannot be read or is not a price list.
    """
    text = resources.files("stark_lsp.agents.models").joinpath(FILE_NAME).read_text(encoding="utf-8")
    built_in = read(text, FILE_NAME)
    path = own or own_prices_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if own is None and not os.environ.get(PRICES_VARIABLE, "").strip():
            return built_in
        raise BadInput("There is no such price list.", cure=f"Correct {PRICES_VARIABLE}.", path=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The price list cannot be read: {error}.", cure="Mend or remove it.", path=str(path)) from None
    added = read(text, str(path))
    return Prices({**built_in.models, **added.models}, added.source or built_in.source, added.date or built_in.date)


def read(text: str, path: str) -> Prices:
    """Return the price list that a TOML text holds.

    Raises
    ------
    BadInput
        It is no TOML, or an entry is not a price.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"This price list is not TOML: {error}.", cure="Mend or remove it.", path=path) from None
    entries = table.get("models", {})
    if not isinstance(entries, dict):
        raise BadInput("`models` is not a table.", cure="Write one table `[models.NAME]` for a model.", path=path)
    models = {undated(name): _price(name, entry, path) for name, entry in entries.items()}
    return Prices(models, str(table.get("source", "")), str(table.get("date", "")))


def _price(name: str, entry: Any, path: str) -> Price:
    if not isinstance(entry, dict):
        raise _bad(name, path)
    long = entry.get("long")
    if long is None:
        return _flat(name, entry, path)
    above = long.get("above") if isinstance(long, dict) else None
    if not isinstance(above, int) or isinstance(above, bool) or above < 0:
        raise _bad(name, path)
    return replace(_flat(name, entry, path), above=above, long=_flat(name, long, path))


def _flat(name: str, entry: Mapping[str, Any], path: str) -> Price:
    read, write, cached, output = (_dollars(entry.get(kind), name, path) for kind in _FIELDS)
    return Price(read, write, cached, output)


def _dollars(value: Any, name: str, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise _bad(name, path)
    return float(value)


def _bad(name: str, path: str) -> BadInput:
    cure = f"Give {', '.join(_FIELDS)} in US dollars for a million tokens (and above, in tokens, if there is a long)."
    return BadInput(f"The price of {name[:80]!r} is not complete.", cure=cure, path=path)
