"""What a library keeps between calls: tensors, containers, counters, objects that run code of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..candidate import Candidate, Native
from ..native import Function
from ..records import Record, records_of
from ..tokens import IDENTIFIER, NUMBER, Token
from ..words import Flag, Refusal, listed

_DEVICE = listed("__device__ __constant__ __shared__ constexpr inline_")
_TENSORS = listed("Tensor TensorBase IValue StorageImpl Storage TensorImpl MaybeOwned TensorList")
_NUMBERS = listed("int long short unsigned size_t int64_t int32_t uint64_t uint32_t uint8_t bool char atomic auto")
_WHOLE = listed(
    "int long short unsigned size_t ssize_t int64_t int32_t uint64_t uint32_t uintptr_t intptr_t ptrdiff_t atomic "
    "atomic_long atomic_int atomic_uintptr_t atomic_size_t"
)
_BOXES = listed(
    "vector map unordered_map set unordered_set multimap unordered_multimap deque list forward_list array_ queue "
    "stack priority_queue string basic_string valarray any function optional variant shared_ptr unique_ptr weak_ptr "
    "pair tuple flat_hash_map SmallVector ArrayRef_ Dict List OrderedDict LRUCache string_ bitset_"
)
_TABLES = listed("map unordered_map array pair tuple vector optional unique_ptr")
_SMALL = listed(
    "std const int bool unsigned long size_t int32_t int64_t uint32_t uint64_t c10 at DeviceIndex once_flag cuda "
    "static thread_local inline volatile hash less tuple char_ Device ScalarType"
)
"""What may be kept in a table: numbers about devices and kernels, never data."""
_HANDLES = ("cublas", "cudnn", "cusparse", "cusolver", "cufft", "curand", "cudaDevice", "cudaFunc", "CU", "cudaOcc")
_FILLS = listed(
    "push_back emplace_back push_front resize assign insert_range append memcpy copy copy_n swap data reserve"
)
_NO_VARIABLE = listed("using typedef template struct class extern namespace public private enum # return friend union")
"""Words that begin a statement which declares no variable."""
_MAKES = listed("new make_shared make_unique make_optional make_any make_pair")
_ADDRESSES = listed("new reinterpret_cast uintptr_t intptr_t data_ptr malloc calloc realloc mutable_data_ptr bit_cast")
_TENSOR_SPACES = ("torch", "at")


class Variable(NamedTuple):
    """A variable that outlives a call."""

    name: Token
    declared: list[Token]
    """What stands before its initialiser."""
    value: list[Token]
    """Its initialiser."""
    function: Function | None
    """The function it is in; None for one of a namespace."""


def kept_tensors(candidate: Candidate) -> Iterator[Refusal]:
    """Static or global tensors and containers, and counters that decide."""
    for native in candidate.natives:
        yield from kept_of(native)


def kept_of(native: Native) -> Iterator[Refusal]:
    """As `kept_tensors`, for one source."""
    records = records_of(native.unit)
    yield from _objects(native, records)
    heavy = _heavy(records)
    users = _users(native)
    for one in _variables(native):
        words = {token.text for token in one.declared}
        line = native.line(one.name)
        if words & _TENSORS:
            yield Refusal("Its C++ code keeps a tensor between calls; results must be new ones.", line)
        elif _keeps_data(users, one, words, heavy):
            yield Refusal("Its C++ code keeps data between calls; results must be new ones.", line)
        elif words & _WHOLE and "*" not in words and _holds_address(users, one):
            yield Refusal("Its C++ code keeps an address between calls, as a number.", line)
        elif words & _NUMBERS and "bool" not in words and "const" not in words and _counts(users, one.name.text):
            yield Refusal("Its C++ code counts its calls and behaves by their number.", line)


def kept_memory(candidate: Candidate) -> Iterator[Flag]:
    """Static pointers: room that is reused from call to call."""
    makes = ("cudaMalloc", "malloc", "calloc", "aligned_alloc", "new")
    for native in candidate.natives:
        words = {token.text for token in native.unit.tokens if token.kind == IDENTIFIER}
        for one in _variables(native):
            declared = [token.text for token in one.declared]
            plain = "*" in declared and not {"char", "Tensor"} & set(declared) and "(" not in declared
            if plain and (words & set(makes) or "cudaMalloc" in native.text.value):
                yield Flag("Its C++ code keeps memory between calls.", native.line(one.name))


Users = dict[str, list[Function]]


def _users(native: Native) -> Users:
    """Return for each name the functions of the host that mention it."""
    found: Users = {}
    for function in native.unit.functions:
        if not function.words & {"__device__", "__global__"}:
            for name in function.mentions:
                found.setdefault(name, []).append(function)
    return found


def _variables(native: Native) -> Iterator[Variable]:
    """Yield every variable that outlives a call."""
    unit = native.unit
    for statement in _statements(unit.loose):
        # Members belong to their objects, unless they are static.
        member = bool(statement) and id(statement[0]) in unit.members
        if not member or any(part.text == "static" for part in statement[:3]):
            yield from _declared(statement, None)
    for function in unit.functions:
        if function.words & {"__device__", "__global__"}:
            continue
        for statement in _statements(function.body):
            if any(part.text in ("static", "thread_local") for part in statement[:3]):
                yield from _declared(statement, function)


def _statements(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the statements of a text; braces of an initialiser belong to theirs."""
    statement: list[Token] = []
    depth = 0
    for token in tokens:
        last = statement[-1] if statement else None
        if token.text == "{" and (depth or (last is not None and _initialises(statement, last))):
            depth += 1
        elif token.text == "}" and depth:
            depth -= 1
        elif depth == 0 and token.text in (";", "{", "}"):
            yield statement
            statement = []
            continue
        statement.append(token)
    yield statement


def _initialises(statement: list[Token], last: Token) -> bool:
    if statement[0].text in _NO_VARIABLE or len(statement) < 2:
        return False
    kept = any(part.text in ("static", "thread_local") for part in statement[:3])
    return last.text in ("=", "]", ")") if not kept else last.text not in (":",)


def _declared(statement: list[Token], function: Function | None) -> Iterator[Variable]:
    # The beginning is enough: what is declared stands before the initialiser.
    words = [token.text for token in statement[:400]]
    if not statement or _DEVICE & set(words) or words[0] in _NO_VARIABLE:
        return
    end = next((i for i, word in enumerate(words) if word in ("=", "(", "{") and not _in_angles(words, i)), len(words))
    before = {token.text for token in statement[:end]}
    if end < len(words) and words[end] == "(" and "=" not in words:
        # A function's declaration, or an object made with arguments.
        inside = words[end + 1 : end + 2]
        if function is None and (not inside or inside[0] == ")" or statement[end + 1].kind != NUMBER):
            return
    if "const" in before and not before & (_TENSORS | {"auto"}) and function is None:
        return
    named = [token for token in statement[:end] if token.kind == IDENTIFIER]
    if len(named) >= 2 and len(words) > 1:
        yield Variable(named[-1], statement[:end], statement[end + 1 :], function)


def _in_angles(words: list[str], at: int) -> bool:
    return words[:at].count("<") > words[:at].count(">") + 2 * words[:at].count(">>")


# ---- data -----------------------------------------------------------------------------------------


def _heavy(records: list[Record]) -> set[str]:
    """Return the classes of the source that hold containers, tensors, or others that do."""
    found: set[str] = set()
    for _ in range(3):
        for record in records:
            if {token.text for token in record.body} & (_BOXES | _TENSORS | found) and record.name:
                found.add(record.name)
    return found


def _keeps_data(users: Users, one: Variable, words: set[str], heavy: set[str]) -> bool:
    """Whether a variable is a container, or made in its first call, and no constant table or cached property."""
    value = {token.text for token in one.value}
    if words & heavy or ("auto" in words and value & heavy):
        return "const" not in words or one.function is not None
    if "auto" in words:
        return bool(value & _MAKES) or bool(value & {"decltype"}) or _first_inputs(one, value)
    if "decltype" in words or words & {"any", "function", "shared_ptr", "weak_ptr"} - _spaced(one.declared, "cuda"):
        return _first_inputs(one, value) or "const" not in words
    boxes = words & _BOXES
    if not boxes:
        return "*" in words and bool(value & _MAKES) and bool(value & (_BOXES | heavy | _TENSORS))
    if "const" in words:
        return _first_inputs(one, value)
    if boxes <= _TABLES and all(_is_small(token.text) for token in one.declared if token is not one.name):
        return "vector" in boxes and _filled(users, one.name.text) and not _handles(words)
    return one.name.text in users or _first_inputs(one, value) or "*" in words


def _spaced(tokens: list[Token], space: str) -> set[str]:
    """Return the names that a namespace qualifies: `cuda::std::function` is none of the host's."""
    return {tokens[at + 2].text for at, token in enumerate(tokens[:-2]) if token.text == space}


def _is_small(word: str) -> bool:
    return word in _SMALL or word in _TABLES or not word[:1].isalpha() or word.startswith(_HANDLES)


def _handles(words: set[str]) -> bool:
    return any(word.startswith(_HANDLES) for word in words) or "once_flag" in words


def _first_inputs(one: Variable, value: set[str]) -> bool:
    """Whether an initialiser depends on what the function was first called with, other than by device and dtype."""
    if one.function is None:
        return False
    about = {"device", "get_device", "device_index", "index", "getCurrentCUDAStream", "scalar_type", "dtype"}
    given = {token.text for token in one.function.header if token.kind == IDENTIFIER and token is not one.function.at}
    return bool(value & (given - {"const", "int", "float", "std", "static", "at", "torch", "Tensor", "c10"})) and not (
        value & about
    )


def _filled(users: Users, name: str) -> bool:
    """Whether numbers are put into a variable one by one or in one go, rather than one for each device."""
    for function in users.get(name, []):
        words = [token.text for token in function.body]
        for at, word in enumerate(words[:-2]):
            if word == name and words[at + 1] in (".", "->") and words[at + 2] in _FILLS - {"resize", "reserve"}:
                return True
    return False


def _holds_address(users: Users, one: Variable) -> bool:
    """Whether a whole number is given an address."""
    if {token.text for token in one.value} & (_ADDRESSES - {"uintptr_t", "intptr_t"}):
        return True
    name = one.name.text
    for function in users.get(name, []):
        for statement in _statements(function.body):
            words = [token.text for token in statement]
            at = next((i for i, word in enumerate(words[:-1]) if word == name and words[i + 1] == "="), None)
            if at is None:
                stores = [
                    i for i, word in enumerate(words[:-3]) if word == name and words[i + 2] in ("store", "exchange")
                ]
                at = stores[0] if stores else None
            if at is not None and set(words[at + 1 :]) & _ADDRESSES:
                return True
    return False


# ---- counters -------------------------------------------------------------------------------------

_COMPARISONS = ("<", ">", "==", "!=", ">=", "<=", "%")


def _counts(users: Users, name: str) -> bool:
    """Whether a variable grows, and is looked at in a comparison, a condition or a remainder."""
    grows = looked = False
    for function in users.get(name, []):
        words = ["", "", *(token.text for token in function.body), "", "", ""]
        for at in range(2, len(words) - 3):
            if words[at] != name:
                continue
            far, before, after, further = words[at - 2], words[at - 1], words[at + 1], words[at + 2]
            if {"++", "--"} & {before, after}:
                grows = True
                looked = looked or further in _COMPARISONS or far in _COMPARISONS
            grows = grows or after in ("+=", "-=", "^=") or (after, further) in ((".", "fetch_add"), (".", "fetch_sub"))
            grows = grows or (after == "=" and name in words[at + 2 : _end(words, at)])
            looked = looked or after in (*_COMPARISONS, "&", "?") or before in _COMPARISONS or _in_condition(words, at)
    return grows and looked


def _end(words: list[str], at: int) -> int:
    """Return the index of the `;` that ends a statement."""
    return next((index for index in range(at, min(len(words), at + 64)) if words[index] == ";"), at + 64)


def _in_condition(words: list[str], at: int) -> bool:
    """Whether a word stands in the parentheses of `if`, `while` or `switch`."""
    depth = 0
    for index in range(at - 1, max(0, at - 40), -1):
        if words[index] in (";", "{", "}"):
            return False
        depth += (words[index] == ")") - (words[index] == "(")
        if depth < 0:
            depth = 0
            if words[index - 1] in ("if", "while", "switch", "constexpr"):
                return True
    return False


# ---- objects that run code ------------------------------------------------------------------------


def _objects(native: Native, records: list[Record]) -> Iterator[Refusal]:
    """Objects of a namespace, or static ones, whose constructor or destructor runs statements."""
    running = {record.name for record in records if record.runs and record.name}
    why = "Its C++ code runs when it is loaded or unloaded, by an object with a constructor or destructor."
    for record in records:
        if record.runs and record.after and (not record.local or record.static):
            yield Refusal(why, native.line(record.at))
    for statement in _statements(native.unit.loose):
        if _is_object(statement, running):
            yield Refusal(why, native.line(statement[0]))
    for one in _variables(native):
        declared = {token.text for token in one.declared if token is not one.name}
        if one.function is not None and "*" not in declared and declared & running:
            yield Refusal(why, native.line(one.name))


def _is_object(statement: list[Token], running: set[str]) -> bool:
    """Whether a statement is `Type name`, `Type name = ...`, `Type name{...}`, not the declaration of a function."""
    skipped = ("static", "inline", "thread_local", "const", "struct", "class", "union")
    words = [token.text for token in statement if token.text not in skipped]
    if len(words) < 2 or words[0] in _NO_VARIABLE or {"operator", "return", "&", "~"} & set(words):
        return False
    if "=" in words and words[0] in (*running, "auto") and running & set(words):
        return "*" not in words[: words.index("=")] or "new" in words
    if words[0] not in running or not words[1][:1].isidentifier():
        return False
    if len(words) == 2 or words[2] in ("{", "["):
        return True
    # `Type name(int)` declares a function, `Type name(3)` makes an object.
    return words[2] == "(" and len(words) > 3 and not words[3][:1].isalpha() and words[3] != ")"
