"""Symbols and sections: replacing functions of others, running before it is called, assembling by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..tokens import IDENTIFIER, STRING, Token
from ..words import Refusal, listed

_LIBC = listed(
    "clock_gettime gettimeofday time clock times nanosleep clock_nanosleep malloc calloc realloc free "
    "posix_memalign aligned_alloc memcpy memmove memset memcmp strcmp strncmp strlen strcpy printf fprintf "
    "puts write read open openat close fopen fclose fread fwrite dlopen dlsym dlclose getenv setenv fork "
    "vfork execve exit _exit abort kill signal sigaction pthread_create pthread_join pthread_mutex_lock "
    "pthread_mutex_unlock sched_yield usleep sleep select poll mmap munmap ioctl fcntl send recv sendmsg "
    "recvmsg syscall rand srand random getpid main _init _fini __libc_start_main sendfile readlink stat fstat "
    "lseek dup dup2 pipe getrandom rdtsc qsort sem_post sem_wait futex"
)
"""Functions whose definition would take the place of the C library's."""
_PREFIXES = (
    "cuda",
    "cublas",
    "cudnn",
    "cupti",
    "nvml",
    "nvrtc",
    "nccl",
    "pthread_",
    "__cuda",
    "_Py",
    "_ZN",
    "__libc",
    "__cxa",
    "at_",
    "_dl_",
)
_ATTRIBUTES = {
    "constructor": "runs before it is called",
    "destructor": "runs after it was called",
    "ifunc": "chooses functions while it is loaded",
    "alias": "gives functions other names",
    "weakref": "gives functions other names",
    "init_priority": "runs before it is called",
    "section": "places code in sections of its own",
    "cleanup": "",
    "naked": "assembles by hand",
}
_READS = re.compile(r"\.(?:incbin|include)\b")
"""Directives that read files."""
_SYSTEM = re.compile(
    r"\b(?:syscall|sysenter|cpuid|rdpmc|wr[fg]sbase|iretq)\b|\bint\s+\$?(?:0x80|128)\b|\bsvc\s+#?0"
    r"|(?:^|[\n;:{}|])\s*\.(?:globa?l|section|pushsection|popsection|symver|weak\w*|previous|macro|init_array|set|type)\b"
)
"""Instructions that call the system, directives that make or move symbols; `.global` within an instruction is PTX."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DATA = re.compile(
    r"(?:^|[\n;:{}|])\s*\.(?:word|value|[248]byte|byte|octa|quad|long|int|short|hword|dword|xword|ascii|asciz|string\d*"
    r"|single|double|float|fill|zero|skip|space|org|nops?|dc(?:\.\w)?|dcb(?:\.\w)?|ds|inst|insn|reloc|base64|[su]leb128"
    r"|rept|irpc?|altmacro|equ|eqv|if|text|data|bss|code\d+|intel_syntax|cfi_\w+)\b|(?:^|[\n;:{}|])\s*\.%"
)
"""Directives that place bytes where instructions are expected, or hide them from the reader; PTX has none of these."""
_JUMPS = re.compile(r"@plt|@got|\bcallq?\s+[*%_a-z]|\bjmpq?\s+\*|\bblr?\s+[a-z_]")


def symbols(candidate: Candidate) -> Iterator[Refusal]:
    """Functions that take the place of others', attributes, assembler."""
    for native in candidate.natives:
        yield from symbols_of(native)


def symbols_of(native: Native) -> Iterator[Refusal]:
    """As `symbols`, for one source."""
    for function in native.unit.functions:
        visible = function.outer and (function.extern_c or not function.is_private)
        if visible and not function.words & {"static", "__device__"} and _foreign(function.name):
            yield Refusal(f"Its C++ code defines {function.name}, which is not its own.", native.line(function.at))
    yield from _variables(native)
    tokens = native.unit.tokens
    for at, token in enumerate(tokens):
        if token.kind != IDENTIFIER:
            continue
        if token.text in ("__attribute__", "__attribute"):
            yield from _attributes(native, tokens[at + 1 : at + 40])
        elif token.text in ("constructor", "destructor", "ifunc", "alias", "weakref") and at >= 3:
            if tokens[at - 1].text == "::" and tokens[at - 2].text in ("gnu", "__gnu__", "clang"):
                yield Refusal(f"Its C++ code {_ATTRIBUTES[token.text]} ({token.text}).", native.line(token))
        elif token.text in ("asm", "__asm__", "__asm"):
            yield from _assembler(native, tokens, at)


def _variables(native: Native) -> Iterator[Refusal]:
    """`extern "C"` variables named like functions of others."""
    loose = native.unit.loose
    for before, token in zip(loose, loose[1:]):  # noqa: B905, RUF007 - Python 3.9
        if before.text in ("*", ")") and token.text in ("__malloc_hook", "__free_hook", "environ"):
            yield Refusal(f"Its C++ code changes {token.text}.", native.line(token))


def _foreign(name: str) -> bool:
    if name in _LIBC or name.startswith(_PREFIXES):
        # `cuda_add` is a name of one's own, `cudaAdd` looks like the runtime's.
        return not name.startswith("cuda_") and not (name.startswith("cuda") and name[4:5].islower())
    driver = name.startswith("cu") and name[2:3].isupper()
    python = name.startswith("Py") and (name[2:3].isupper() or name[2:3] == "_") and not name.startswith("PyInit_")
    return driver or python


def _attributes(native: Native, rest: list[Token]) -> Iterator[Refusal]:
    depth = 0
    for token in rest:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return
        word = token.text.strip("_")
        if token.kind == IDENTIFIER and _ATTRIBUTES.get(word):
            yield Refusal(f"Its C++ code {_ATTRIBUTES[word]} ({word}).", native.line(token))


def _assembler(native: Native, tokens: list[Token], at: int) -> Iterator[Refusal]:
    """Inline PTX is fine; system calls, other files and symbol names are not."""
    begin = at
    while begin < len(tokens) and tokens[begin].text != "(":
        begin += 1
        if begin - at > 4:
            return
    depth, texts = 0, []
    for token in tokens[begin:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 or token.text == ":":
            break
        if token.kind == STRING:
            texts.append(token.value)
    # The assembler reads a comment as a blank.
    text = _COMMENT.sub(" ", "".join(texts))
    low = " ".join(text.lower().split())
    if _DATA.search(text.lower()) or (_JUMPS.search(low) and "call.uni" not in low and "{" not in low):
        yield Refusal("Its C++ code holds instructions that cannot be read, in assembler.", native.line(tokens[at]))
    if _READS.search(low) or _SYSTEM.search(text.lower()):
        yield Refusal("Its C++ code calls the system or reads files by assembler.", native.line(tokens[at]))
    inside = any(tokens[at] is part for function in native.unit.functions for part in function.body)
    if text.strip() and text.strip().replace("_", "a").replace("$", "a").replace(".", "a").isalnum() and not inside:
        yield Refusal("Its C++ code gives a function the name of another.", native.line(tokens[at]))
    elif not inside and text.strip():
        yield Refusal("Its C++ code assembles outside of functions.", native.line(tokens[at]))
