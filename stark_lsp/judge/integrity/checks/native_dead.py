"""Kernels that are there to be seen, and never run."""

from __future__ import annotations

from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..native import Function
from ..tokens import IDENTIFIER
from ..words import Refusal


def dead_kernels(candidate: Candidate) -> Iterator[Refusal]:
    """A `__global__` function that nothing launches; a library of which nothing is called."""
    if not candidate.builds:
        return
    functions: list[tuple[Native, Function]] = [
        (native, function) for native in candidate.natives for function in native.unit.functions
    ]
    if not functions:
        return
    mentioned: set[str] = set(candidate.words)
    for native, function in functions:
        mentioned |= function.mentions - {function.name}
        mentioned |= native.unit.roots
    kernels = [(native, function) for native, function in functions if function.is_kernel]
    for native, function in kernels:
        if function.name not in mentioned:
            yield Refusal(f"The kernel {function.name} is never launched.", native.line(function.at))
    live = _live(candidate, functions)
    exported = [(n, f) for n, f in functions if f.extern_c or f.is_kernel]
    if kernels and not any(function.name in live for _, function in kernels):
        native, function = kernels[0]
        yield Refusal(f"Nothing calls what launches the kernel {function.name}.", native.line(function.at))
    elif exported and not any(function.name in live for _, function in functions):
        native, function = exported[0]
        yield Refusal(f"The kernel {function.name} is never called.", native.line(function.at))


def _live(candidate: Candidate, functions: list[tuple[Native, Function]]) -> set[str]:
    """Return the functions that the Python part, a binding, or the loading of the library leads to."""
    by_name: dict[str, set[str]] = {}
    start: set[str] = set(candidate.words)
    for native, function in functions:
        by_name.setdefault(function.name, set()).update(function.mentions)
        start |= native.unit.roots
    # Bindings and functions named in a list of text: `functions=["a, b"]` or joined names.
    for word in list(candidate.words):
        start |= set(word.replace(",", " ").split())
    live: set[str] = set()
    queue = [name for name in start if name in by_name]
    while queue:
        name = queue.pop()
        if name in live:
            continue
        live.add(name)
        queue += [other for other in by_name[name] if other in by_name and other not in live]
    return live


def identifiers(native: Native) -> set[str]:
    """Return all identifiers of a source."""
    return {token.text for token in native.unit.tokens if token.kind == IDENTIFIER}
