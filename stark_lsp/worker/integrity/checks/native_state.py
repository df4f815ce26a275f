"""What a library keeps between calls: tensors, counters."""

from __future__ import annotations

from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..tokens import IDENTIFIER, NUMBER, Token
from ..words import Flag, Refusal, listed

_DEVICE = listed("__device__ __constant__ __shared__ constexpr const inline_")
_NUMBERS = listed("int long short unsigned size_t int64_t int32_t uint64_t uint32_t uint8_t bool char atomic auto")
_NO_VARIABLE = listed("using typedef template struct class extern namespace public private enum # return friend")
"""Words that begin a statement which declares no variable."""


def kept_tensors(candidate: Candidate) -> Iterator[Refusal]:
    """Static or global tensors, and counters that decide."""
    for native in candidate.natives:
        yield from kept_of(native)


def kept_of(native: Native) -> Iterator[Refusal]:
    """As `kept_tensors`, for one source."""
    for name, declaration in _statics(native):
        words = {token.text for token in declaration}
        if words & {"Tensor", "TensorBase", "IValue", "StorageImpl", "Storage"}:
            yield Refusal("Its C++ code keeps a tensor between calls; results must be new ones.", native.line(name))
        elif words & _NUMBERS and "bool" not in words and _counts(native, name.text):
            yield Refusal("Its C++ code counts its calls and behaves by their number.", native.line(name))


def kept_memory(candidate: Candidate) -> Iterator[Flag]:
    """Static pointers: room that is reused from call to call."""
    for native in candidate.natives:
        for name, declaration in _statics(native):
            words = [token.text for token in declaration]
            if (
                "*" in words
                and not {"char", "Tensor"} & set(words)
                and "(" not in words
                and "cudaMalloc" in native.text.value
            ):
                yield Flag("Its C++ code keeps memory between calls.", native.line(name))


def _statics(native: Native) -> Iterator[tuple[Token, list[Token]]]:
    """Yield name and declaration of every variable that outlives a call."""
    unit = native.unit
    statement: list[Token] = []
    for token in unit.loose:
        if token.text in (";", "{", "}"):
            yield from _declared(statement)
            statement = []
        else:
            statement.append(token)
    for function in unit.functions:
        if function.words & {"__device__", "__global__"}:
            continue
        statement = []
        for token in function.body:
            if token.text in (";", "{", "}"):
                if any(part.text in ("static", "thread_local") for part in statement[:3]):
                    yield from _declared(statement)
                statement = []
            else:
                statement.append(token)


def _declared(statement: list[Token]) -> Iterator[tuple[Token, list[Token]]]:
    words = [token.text for token in statement]
    if not statement or _DEVICE & set(words) or words[0] in _NO_VARIABLE:
        return
    end = next((i for i, word in enumerate(words) if word in ("=", "(")), len(words))
    if end < len(words) and words[end] == "(" and "=" not in words:
        # A function's declaration, or an object made with arguments.
        inside = words[end + 1 : end + 2]
        if not inside or inside[0] == ")" or statement[end + 1].kind != NUMBER:
            return
    named = [token for token in statement[:end] if token.kind == IDENTIFIER]
    if len(named) >= 2 and len(words) > 1:
        yield named[-1], statement[:end]


_COMPARISONS = ("<", ">", "==", "!=", ">=", "<=", "%")


def _counts(native: Native, name: str) -> bool:
    """Whether a variable grows, and is looked at in a comparison or remainder."""
    grows = looked = False
    for function in native.unit.functions:
        if function.words & {"__device__", "__global__"}:
            continue
        words = ["", "", *(token.text for token in function.body), "", "", ""]
        for at in range(2, len(words) - 3):
            if words[at] != name:
                continue
            far, before, after, further = words[at - 2], words[at - 1], words[at + 1], words[at + 2]
            if "++" in (before, after):
                grows = True
                looked = looked or further in _COMPARISONS or far in _COMPARISONS
            grows = grows or after == "+=" or (after, further) == (".", "fetch_add")
            grows = grows or (after, further, words[at + 3]) == ("=", name, "+")
            looked = looked or after in (*_COMPARISONS, "&", "?") or before in _COMPARISONS
    return grows and looked
