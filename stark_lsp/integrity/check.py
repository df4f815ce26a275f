"""The entry point of the static check."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import lru_cache

from stark_lsp.core.parsing import LONGEST
from stark_lsp.integrity import builds, rules_native, rules_python
from stark_lsp.integrity.facts import Note, Reading, Refusal, Rule, Told
from stark_lsp.integrity.source import Source

RULES: tuple[Callable[[Source], Iterator[Refusal]], ...] = (
    rules_python.candidate,
    rules_python.patching,
    rules_python.precision,
    rules_python.imports,
    rules_python.uses,
    rules_python.interpreter,
    rules_python.environment,
    rules_python.libraries,
    rules_python.original,
    rules_native.options,
    rules_native.includes,
    rules_native.calls,
    rules_native.unused,
)
"""What refuses, in the order in which it is told."""
NOTES: tuple[Callable[[Source], Iterator[Note]], ...] = (rules_python.notes, rules_native.notes, builds.notes)
"""What only notes."""
_OWN_RULES = (Rule.CANDIDATE, Rule.UNUSED, Rule.ORIGINAL)
"""What is not excused by the original's doing the same."""


def read(
    source: str, class_name: str, reference: str = "", reference_class: str = "Model", *, lower: bool = False
) -> Reading:
    """Return what speaks against a candidate, what is worth a note, and what the judge is told of it.

    What the original does itself is not held against it. A source that is not Python is not refused: loading it
    reports the syntax error.

    Parameters
    ----------
    source
        Text of the candidate's file.
    class_name
        Its class.
    reference
        Text of the original; without it, what the original does is not known.
    reference_class
        The original's class, possibly dotted.
    lower
        Whether the original is called in a lower precision than its text says: converted, or under autocast.
    """
    if len(source) > LONGEST:
        return Reading(Told(source), (Refusal(Rule.LENGTH, "It is too long to be read.", None),))
    try:
        original, facts, unusual = _original(reference, reference_class.rpartition(".")[2])
        file = Source(source, class_name, original)
        notes = [note for note in _notes(file, unusual) if not (lower and "precision" in note.message)]
        return Reading(_told(file), _refusals(file, facts), tuple(notes))
    except SyntaxError:
        return Reading(Told(source))
    except (RecursionError, MemoryError):
        return Reading(Told(source), (), (Note("It is nested too deep to be read before it is run.", None),))


def told(source: str) -> Told:
    """Return what the judge is told of a source that is not checked, such as a file after an edit."""
    try:
        return _told(Source(source, "")) if len(source) <= LONGEST else Told(source)
    except (SyntaxError, RecursionError, MemoryError):
        return Told(source)


def _told(file: Source) -> Told:
    return Told(builds.to_be_judged(file), _kernels(file), builds.alternatives(file))


@lru_cache(maxsize=4)
def _original(text: str, class_name: str) -> tuple[Source | None, frozenset[tuple[Rule, str]], frozenset[str]]:
    """Read the original and what is found in it; nothing if it is not known or cannot be read."""
    with contextlib.suppress(SyntaxError, RecursionError, MemoryError):
        if text and len(text) <= LONGEST:
            source = Source(text, class_name)
            facts = frozenset((one.rule, one.reason) for rule in RULES for one in rule(source))
            return source, facts, frozenset(note.reason for look in NOTES for note in look(source))
    return None, frozenset(), frozenset()


def _refusals(file: Source, excused: frozenset[tuple[Rule, str]]) -> tuple[Refusal, ...]:
    found: dict[tuple[Rule, str], Refusal] = {}
    for rule in RULES:
        for one in sorted(rule(file), key=lambda one: one.line or 0):
            if one.rule in _OWN_RULES or (one.rule, one.reason) not in excused:
                found.setdefault((one.rule, one.reason), one)
    return tuple(found.values())


def _notes(file: Source, excused: frozenset[str]) -> tuple[Note, ...]:
    found: dict[str, Note] = {}
    for note in sorted((note for look in NOTES for note in look(file)), key=lambda note: note.line or 0):
        if note.reason not in excused:
            found.setdefault(note.reason, note)
    return tuple(found.values())


def _kernels(file: Source) -> tuple[str, ...]:
    """Return the names of `@triton.jit` functions, `__global__` functions and functions that a library exports."""
    names = [function.name for function in file.jit_functions]
    bound = any(word.arg == "functions" for call in file.builds for word in call.keywords)
    for native in file.natives:
        for function in native.unit.functions:
            if function.kernel or function.exported or (bound and function.outer and function.name in file.words):
                names.append(function.name)
    return tuple(dict.fromkeys(names))
