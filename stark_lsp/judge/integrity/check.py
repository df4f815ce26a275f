"""The entry points of the static check."""

from __future__ import annotations

import ast

from .candidate import Candidate, Native
from .checks import (
    CHECKS,
    FLAGS,
    native_calls,
    native_includes,
    native_python,
    native_state,
    native_symbols,
    native_system,
)
from .forgoing import without_forgoing
from .names import Tangled
from .native import parse
from .parsing import syntax_tree
from .preprocess import TooMuch
from .replacing import NO_ALTERNATIVES, Alternatives, alternatives_of
from .strings import Text
from .words import Flag, Kernels, Refusal

LONGEST = 2_000_000
"""Characters of the longest file that is read."""


def check(source: str, class_name: str, reference: str = "", reference_class: str = "Model") -> Refusal | None:
    """Return why the candidate is refused, None if nothing speaks against running it.

    A source that does not parse is not refused: loading it reports the syntax error.

    Parameters
    ----------
    source
        Text of the candidate's file.
    class_name
        Its class.
    reference
        Text of the original; without it, copies of the original are not recognised.
    reference_class
        The original's class, possibly dotted.
    """
    try:
        candidate = _read(source, class_name, reference, reference_class)
        if candidate is None:
            return None
        for rule in CHECKS.values():
            found = sorted(rule(candidate), key=lambda refusal: refusal.line or 0)
            if found:
                return found[0]
    except TooMuch as error:
        return Refusal("It is too long to be read, or its macros expand to too much.", error.line)
    except (Tangled, RecursionError, MemoryError):
        return Refusal("It is too tangled to be read.", None)
    return None


def flags(source: str, class_name: str, reference: str = "", reference_class: str = "Model") -> tuple[Flag, ...]:
    """Return what is unusual about a candidate that is not refused, by line, each once.

    Parameters are those of `check`.
    """
    try:
        candidate = _read(source, class_name, reference, reference_class)
        if candidate is None:
            return ()
        found = {flag for look in FLAGS.values() for flag in look(candidate)}
    except (TooMuch, Tangled, RecursionError, MemoryError):
        return ()
    return tuple(sorted(found, key=lambda flag: (flag.line or 0, flag.reason)))


def kernels(source: str) -> Kernels:
    """Return the kernels that a file defines; none for a file that cannot be read."""
    try:
        candidate = _read(source, "", "", "")
        if candidate is None:
            return Kernels((), ())
        return _kernels(candidate)
    except (TooMuch, Tangled, RecursionError, MemoryError):
        return Kernels((), ())


def alternatives(source: str) -> Alternatives:
    """Return the extensions of a file that take each other's place when one does not build."""
    try:
        candidate = _read(source, "", "", "")
        return alternatives_of(candidate) if candidate is not None else NO_ALTERNATIVES
    except (TooMuch, Tangled, RecursionError, MemoryError):
        return NO_ALTERNATIVES


def to_be_judged(source: str) -> str:
    """Return what is run in place of a source: the same, but where a kernel does not build, the error comes out."""
    try:
        candidate = _read(source, "", "", "")
        return without_forgoing(candidate, source) if candidate is not None else source
    except (TooMuch, Tangled, RecursionError, MemoryError):
        return source


def check_native(source: str) -> Refusal | None:
    """Return why one C++ or CUDA source is refused, with a line of this source.

    For what is really handed to a compiler: it may have been put together at run time, where `check` cannot see it.
    """
    try:
        text = Text(source, ((0, _whole(source)),))
        native = Native(text, parse(source))
        for rule in (
            native_includes.includes_of,
            native_symbols.symbols_of,
            native_calls.calls_of,
            native_python.python_calls_of,
            native_system.system_ways_of,
            native_state.kept_of,
        ):
            found = sorted(rule(native), key=lambda refusal: refusal.line or 0)
            if found:
                return found[0]
    except (TooMuch, RecursionError, MemoryError):
        return Refusal("Its macros expand to too much to be read.", None)
    return None


def _whole(source: str) -> ast.Constant:
    """Return the literal that stands for a whole text."""
    return ast.Constant(source, lineno=1, col_offset=0, end_lineno=source.count("\n") + 1, end_col_offset=0)


def _read(source: str, class_name: str, reference: str, reference_class: str) -> Candidate | None:
    """Parse a candidate and its original; None if the candidate does not parse."""
    if len(source) > LONGEST:
        raise TooMuch
    original = None
    if reference:
        try:
            original = Candidate(reference, reference_class.rpartition(".")[2])
        except (SyntaxError, ValueError, Tangled, RecursionError, MemoryError):
            original = None
    try:
        syntax_tree(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Candidate(source, class_name, original, reference_class)


def _kernels(candidate: Candidate) -> Kernels:
    names = [function.name for function in candidate.jit_functions]
    raw = inline = False
    for native in candidate.natives:
        raw = raw or any(function.extern_c for function in native.unit.functions)
        for function in native.unit.functions:
            if function.is_kernel or (function.extern_c and not function.words & {"static"}):
                names.append(function.name)
    for call in candidate.builds:
        words = {word.arg: word.value for word in call.keywords}
        if "functions" in words and not (
            isinstance(words["functions"], ast.Constant) and words["functions"].value is None
        ):
            inline = True
        elif any(path == "torch.utils.cpp_extension.load_inline" for path in candidate.names.of(call.func)):
            module = words.get("is_python_module")
            library = isinstance(module, ast.Constant) and module.value is False
            inline = inline or not library
            raw = raw or library
    if inline:
        # Functions that a binding exports by name.
        for native in candidate.natives:
            for function in native.unit.functions:
                if not function.is_kernel and function.outer and function.name in candidate.words:
                    names.append(function.name)
    raw = raw and bool(candidate.builds) and not (inline and not _calls_libraries(candidate))
    dialects = [
        name for name, there in (("raw", raw), ("inline", inline), ("triton", bool(candidate.jit_functions))) if there
    ]
    return Kernels(tuple(dialects), tuple(dict.fromkeys(names)))


def _calls_libraries(candidate: Candidate) -> bool:
    return any(use.path.startswith("ctypes.CDLL") for use in candidate.uses)
