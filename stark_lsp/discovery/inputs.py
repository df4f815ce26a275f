"""Which inputs belong to which class.

In this order:

1. `get_inputs_for_<Class>()` and `get_init_inputs_for_<Class>()` of the file.
2. `get_inputs()` and `get_init_inputs()` of the file (KernelBench format). They belong to the class `Model`
   if there is one, else to the only class that no other class of the file uses. A class that is called the new one
   of another, as an accepted proposal is, takes nothing away from it: `ModelNew`, `BlockNew` beside `Block`.
3. A `[[tool.stark.input]]` table of the nearest `pyproject.toml`, or `[[stark.input]]` of the nearest
   `stark.toml`, whose `class` names it. One that has neither `args` nor `kwargs` says how the class of such functions
   is used: its `dtype` and `autocast`.

In the name of a function, the dots of a nested class become underscores: `get_inputs_for_Outer_Block`; the last
part alone will do as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from stark_lsp.core.problem import InputSpec, Span
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.tables import FoundTable, find_tables, names, says_how_alone

_NEW = re.compile(r"New\d*$")


@dataclass
class InputRules:
    """The rule above for all classes of one file."""

    path: str | None
    """Absolute path of the file, or None."""
    functions: frozenset[str]
    """Functions at module level."""
    bound: frozenset[str]
    """Every name bound at module level."""
    classes: dict[str, Span]
    """Module classes that can be reached by name, and their lines."""
    words: Callable[[str], frozenset[str]]
    """Names that are used in one of those functions or classes."""

    def inputs_of(self, qualname: str) -> InputSpec:
        """Return where the inputs of a class come from."""
        own = self._own("get_inputs_for_", qualname)
        own_init = self._own("get_init_inputs_for_", qualname)
        shared = "get_inputs" in self.bound and self.owner == qualname
        if own or shared:
            init = own_init
            if init is None and self.owner == qualname and "get_init_inputs" in self.bound:
                init = "get_init_inputs"
            how = self._table(qualname)
            if how is not None and says_how_alone(how):
                return InputSpec(InputSource.FUNCTIONS, own or "get_inputs", init, how.table, how.path)
            return InputSpec(InputSource.FUNCTIONS, own or "get_inputs", init)
        found = self._table(qualname)
        return InputSpec() if found is None else InputSpec(InputSource.TABLE, table=found.table, table_path=found.path)

    def _table(self, qualname: str) -> FoundTable | None:
        """Return the table that names a class, None where there is none."""
        return next((table for table in self.tables if names(table, self.path or "", qualname)), None)

    @cached_property
    def tables(self) -> list[FoundTable]:
        """The tables that may name a class."""
        return find_tables(self.path) if self.path is not None else []

    def _own(self, prefix: str, qualname: str) -> str | None:
        for suffix in (qualname.replace(".", "_"), qualname.rpartition(".")[2]):
            if prefix + suffix in self.bound:
                return prefix + suffix
        return None

    @cached_property
    def owner(self) -> str | None:
        """The class that `get_inputs()` belongs to."""
        if "Model" in self.classes:
            return "Model"
        if len(self.originals) == 1:
            return next(iter(self.originals))
        unused = self.unused
        return unused[0] if len(unused) == 1 else None

    @cached_property
    def originals(self) -> dict[str, Span]:
        """The classes without those that are another one's new version; all, if there are no others."""
        found = {name: span for name, span in self.classes.items() if not self._new(name)}
        return found or self.classes

    def _new(self, name: str) -> bool:
        old = _NEW.sub("", name)
        return old != name and (old.rpartition(".")[2] == "Model" or old in self.classes)

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """The originals that no other one of the file uses, directly or through the file's functions."""
        named: dict[str, list[str]] = {}
        for name in self.originals:
            named.setdefault(name.rpartition(".")[2], []).append(name)
        interesting = self.functions | named.keys()
        words = {name: interesting & self.words(name) for name in (*self.functions, *self.originals)}
        used: set[str] = set()
        for name, span in self.originals.items():
            seen: set[str] = set()
            reached = set(words[name])
            while fresh := (reached & self.functions) - seen:
                seen |= fresh
                for function in fresh:
                    reached |= words[function]
            for word in reached & named.keys():
                for other in named[word]:
                    place = self.originals[other]
                    around = place.start <= span.start and span.end <= place.end
                    if not around:  # neither itself nor the class it stands in
                        used.add(other)
        return tuple(name for name in self.originals if name not in used)
