"""Which inputs belong to which class.

In this order:

1. `get_inputs_for_<Class>()` and `get_init_inputs_for_<Class>()` of the file.
2. `get_inputs()` and `get_init_inputs()` of the file (KernelBench format). They belong to the class `Model`
   if there is one, else to the only class that no other class of the file uses.
3. A `[[tool.stark.input]]` table of the nearest `pyproject.toml`, or `[[stark.input]]` of the nearest
   `stark.toml`, whose `class` names it.

In the name of a function, the dots of a nested class become underscores: `get_inputs_for_Outer_Block`; the last
part alone will do as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from stark_lsp.core.problem import InputSpec, Span
from stark_lsp.core.status import InputSource
from stark_lsp.discovery.tables import find_table

_WORD = re.compile(r"[^\W\d]\w*")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass
class InputRules:
    """The rule above for all classes of one file."""

    path: str | None
    """Absolute path of the file, or None."""
    functions: dict[str, Span]
    """Functions at module level and their lines."""
    bound: frozenset[str]
    """Every name bound at module level."""
    classes: dict[str, Span]
    """Module classes that can be reached by name, and their lines."""
    masked: str
    """The text without strings and comments, line for line."""

    def inputs_of(self, qualname: str) -> InputSpec:
        """Return where the inputs of a class come from."""
        own = self._own("get_inputs_for_", qualname)
        own_init = self._own("get_init_inputs_for_", qualname)
        shared = "get_inputs" in self.bound and self.owner == qualname
        if own or shared:
            init = own_init
            if init is None and self.owner == qualname and "get_init_inputs" in self.bound:
                init = "get_init_inputs"
            return InputSpec(InputSource.FUNCTIONS, own or "get_inputs", init)
        if self.path is not None:
            found = find_table(self.path, qualname)
            if found is not None:
                return InputSpec(InputSource.TABLE, table=found.table, table_path=found.path)
        return InputSpec()

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
        if len(self.classes) == 1:
            return next(iter(self.classes))
        unused = self.unused
        return unused[0] if len(unused) == 1 else None

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """The classes that no other class of the file uses, directly or through the file's functions."""
        lines = _LINE_END.split(self.masked)
        named: dict[str, list[str]] = {}
        for name in self.classes:
            named.setdefault(name.rpartition(".")[2], []).append(name)
        interesting = named.keys() | self.functions.keys()
        words = {
            name: interesting & set(_WORD.findall("\n".join(lines[span.start : span.end + 1])))
            for name, span in {**self.functions, **self.classes}.items()
        }
        used: set[str] = set()
        for name, span in self.classes.items():
            seen: set[str] = set()
            reached = set(words[name])
            while fresh := (reached & self.functions.keys()) - seen:
                seen |= fresh
                for function in fresh:
                    reached |= words[function]
            for word in reached & named.keys():
                for other in named[word]:
                    place = self.classes[other]
                    around = place.start <= span.start and span.end <= place.end
                    if not around:  # neither itself nor the class it stands in
                        used.add(other)
        return tuple(name for name in self.classes if name not in used)
