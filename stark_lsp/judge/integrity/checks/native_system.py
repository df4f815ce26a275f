"""C++ that reaches the system in other ways than by calling a function of a known name."""

from __future__ import annotations

from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..tokens import IDENTIFIER, STRING, Token
from ..words import Flag, Refusal, listed
from .native_calls import CALLED
from .native_python import aliases

_VALUES = frozenset(CALLED) - listed("wait clone pause access accept bind listen connect remove unlink rename signal")
"""Functions of the system that are dangerous as values too; the other names mean too many things."""
_PREFIXES = ("__libc_", "_dl_", "_IO_", "__GI_", "_rtld_", "__rtld", "__gthread", "__start_", "__stop_")
_NAMES = {
    "_GLOBAL_OFFSET_TABLE_": "looks into the tables of loaded libraries",
    "_DYNAMIC": "looks into the tables of loaded libraries",
    "__ehdr_start": "looks into the tables of loaded libraries",
    "DynamicLibrary": "opens other libraries",
    "ThreadPool": "starts threads",
    "TaskThreadPool": "starts threads",
    "TaskThreadPoolBase": "starts threads",
    "PTThreadPool": "starts threads",
    "intraop_launch": "starts threads",
    "launch_no_thread_state": "starts threads",
    "intraop_launch_future": "starts threads",
    "__cxa_atexit": "leaves work to be done later",
    "__cxa_thread_atexit": "leaves work to be done later",
    "__cxa_thread_atexit_impl": "leaves work to be done later",
    "on_exit": "leaves work to be done later",
    "set_terminate": "leaves work to be done later",
    "set_new_handler": "leaves work to be done later",
    "basic_ifstream": "reads or writes files",
    "basic_ofstream": "reads or writes files",
    "basic_fstream": "reads or writes files",
    "basic_filebuf": "reads or writes files",
    "MapAllocator": "reads or writes files",
    "sleep_for": "stops the process",
    "sleep_until": "stops the process",
    "getppid": "looks at other processes",
    "dup2": "changes files that are open",
    "dup3": "changes files that are open",
    "backtrace": "looks into the running program",
    "backtrace_symbols": "looks into the running program",
    "getcontext": "jumps out of the call",
    "makecontext": "jumps out of the call",
    "swapcontext": "jumps out of the call",
    "sched_setaffinity": "changes the process",
    "sched_setscheduler": "changes the process",
}
_OF_TORCH = {
    "launch": "starts threads",
    "from_file": "reads or writes files",
    "load": "reads or writes files",
    "save": "reads or writes files",
    "pickle_load": "reads or writes files",
    "pickle_save": "reads or writes files",
    "set_default_dtype": "changes torch for everybody",
}
_SPACES = frozenset({"at", "torch", "c10", "jit"})
_OTHERS = listed(
    "aten prims prim quantized _ torch c10d _c10d_functional c10d_functional profiler inductor mkldnn mkl "
    "mkldnn_prepacked onednn sparse static_runtime cuda rngprims torchvision nvprims xnnpack vulkan rpc debugprims "
    "higher_order mtia _quantized _test symm_mem dist"
)
"""Namespaces of operators that are torch's own."""
_PRAGMAS = listed("redefine_extname weak init fini push_macro pop_macro section dependency comment code_seg init_seg")
_NOTED = {"set_num_threads": "It changes how many threads torch uses."}


def system_ways(candidate: Candidate) -> Iterator[Refusal]:
    """Functions as values, inner names of libraries, registrations, pragmas, in any source."""
    for native in candidate.natives:
        yield from system_ways_of(native)


def system_ways_of(native: Native) -> Iterator[Refusal]:
    """As `system_ways`, for one source."""
    tokens = native.unit.tokens
    own = {function.name for function in native.unit.functions if not function.outer or function.is_private}
    named = {function.name for function in native.unit.functions}
    spaces, opened = aliases(tokens, _SPACES)
    declared = _declared(tokens)
    for at, token in enumerate(tokens):
        if token.kind != IDENTIFIER:
            continue
        why = _why(tokens, at, own | declared)
        before = tokens[at - 1].text if at else ""
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        owner = tokens[at - 2].text if before == "::" and at >= 2 else ""
        if not why and token.text in _OF_TORCH and after in ("(", "<"):
            bare = opened and before not in (".", "->", "::") and token.text in ("launch", "from_file")
            if owner in spaces or (bare and token.text not in named):
                why = _OF_TORCH[token.text]
        if not why and token.text in ("atexit", "at_quick_exit") and after == "(" and before not in (".", "->"):
            why = "leaves work to be done later"
        if why:
            yield Refusal(f"Its C++ code {why} ({token.text}).", native.line(token))
    yield from _registrations(native, tokens)
    yield from _spellings(native)


def _why(tokens: list[Token], at: int, own: set[str]) -> str:
    name = tokens[at].text
    if name in _NAMES and name not in own:
        return _NAMES[name]
    if name.startswith(_PREFIXES):
        return "uses inner parts of the C library"
    if name not in _VALUES:
        return ""
    before = tokens[at - 1].text if at else ""
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if after == "(" or before in (".", "->"):
        return ""
    if before == "::":
        # `::fork` is the system's whatever else has this name; `mine::fork` is not.
        plain = at < 2 or tokens[at - 2].kind != IDENTIFIER or tokens[at - 2].text in ("return", "std")
        return CALLED[name] if plain else ""
    if name in own:
        return ""
    taken = before in ("&", "=", "(", ",", "return", "{", "?", ":", "&&", "||", "!", "*") and after in (
        ";", ",", ")", "}", ":", "?", "&&", "||", "=="
    )  # fmt: skip
    return CALLED[name] if taken else ""


def _declared(tokens: list[Token]) -> set[str]:
    """Return the names that the source gives variables of its own."""
    found: set[str] = set()
    for before, token, after in zip(tokens, tokens[1:], tokens[2:]):  # noqa: B905 - Python 3.9
        typed = before.kind == IDENTIFIER and before.text not in ("return", "else", "case", "goto", "throw", "using")
        ends = after.text in ("=", ";", ",", ")", "[", "{", ":")
        if token.kind == IDENTIFIER and token.text in _VALUES and ends and (typed or before.text in (">", "*&")):
            found.add(token.text)
    return found


def _registrations(native: Native, tokens: list[Token]) -> Iterator[Refusal]:
    """Other meanings for operators of torch."""
    spaces = {
        tokens[at + 2].text
        for at, token in enumerate(tokens[:-2])
        if token.text in ("TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT") and tokens[at + 1].text == "("
    }
    for at, token in enumerate(tokens[:-2]):
        if token.text in ("TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL"):
            space = tokens[at + 2].text
            foreign = space in _OTHERS or (token.text == "TORCH_LIBRARY_IMPL" and space not in spaces)
            if tokens[at + 1].text != "(" or foreign:
                yield Refusal(f"Its C++ code changes torch for everybody ({token.text}).", native.line(token))
        elif (
            token.text == "Library"
            and tokens[at + 1].text == "::"
            and tokens[at + 2].text in ("IMPL", "DEF", "FRAGMENT")
        ):
            yield Refusal("Its C++ code changes torch for everybody (Library).", native.line(token))


def _spellings(native: Native) -> Iterator[Refusal]:
    """Pragmas that rename functions, and ways of writing that a reader takes for something else."""
    for line in native.unit.pragmas:
        words = [part.text for part in line]
        if len(words) > 1 and (words[1] in _PRAGMAS or "redefine_extname" in words):
            yield Refusal(f"Its C++ code gives names another meaning (#pragma {words[1]}).", native.line(line[0]))
    tokens = native.unit.tokens
    for at, token in enumerate(tokens[:-2]):
        if token.text == "_Pragma" and tokens[at + 2].kind == STRING:
            words = tokens[at + 2].value.split()
            if words[:1] and words[0] in _PRAGMAS:
                yield Refusal(f"Its C++ code gives names another meaning (#pragma {words[0]}).", native.line(token))
        elif token.text == "?" and tokens[at + 1].text == "?" and tokens[at + 1].start == token.end:
            yield Refusal("Its C++ code is written in trigraphs.", native.line(token))
    for first, second in zip(tokens, tokens[1:]):  # noqa: B905, RUF007 - Python 3.9
        between = native.unit.text[first.end : second.start]
        if between.endswith("\\") and second.kind == IDENTIFIER and second.text[0] in "uU":
            yield Refusal("Its C++ code spells names by numbers of characters.", native.line(second))
    begin = native.unit.text.find("??/")
    if begin >= 0 and tokens:
        # Also in a comment: it would go on in the next line.
        where = next((token for token in tokens if token.start >= begin), tokens[-1])
        yield Refusal("Its C++ code is written in trigraphs.", native.line(where))


def thread_counts(candidate: Candidate) -> Iterator[Flag]:
    """Settings of torch that are honest at times."""
    for native in candidate.natives:
        for token in native.unit.tokens:
            if token.kind == IDENTIFIER and token.text in _NOTED:
                yield Flag(_NOTED[token.text], native.line(token))
                return
