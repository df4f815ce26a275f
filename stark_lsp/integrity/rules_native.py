"""What C++ and CUDA must not do, and what is worth a note: words in the place of a call, headers, kernels."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from stark_lsp.integrity.facts import Note, Refusal, Rule, listed
from stark_lsp.integrity.native import NAME, OTHER, STRING, Function, Token
from stark_lsp.integrity.rules_python import IMPORTABLE
from stark_lsp.integrity.source import Native, Source

HEADERS = listed(
    "algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes "
    "climits cmath compare complex concepts condition_variable cstdarg cstddef cstdint cstdio cstdlib cstring ctime "
    "deque exception execution expected format forward_list functional future initializer_list iomanip ios iosfwd "
    "iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric optional "
    "ostream pthread.h queue random ranges ratio regex semaphore set shared_mutex source_location span sstream stack "
    "stdexcept stop_token streambuf string string_view system_error thread tuple type_traits typeindex typeinfo "
    "unordered_map unordered_set utility valarray variant vector version assert.h ctype.h errno.h fenv.h float.h "
    "inttypes.h limits.h math.h stdalign.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h tgmath.h "
    "time.h complex.h malloc.h alloca.h omp.h cpuid.h cblas.h mma.h math_constants.h math_functions.h vector_types.h "
    "vector_functions.h builtin_types.h host_defines.h driver_types.h channel_descriptor.h library_types.h "
    "cooperative_groups.h Python.h sched.h bits/stdc++.h"
)
_FAMILIES = re.compile(
    r"(torch|ATen|c10|caffe2|pybind11|cub|thrust|cuda|cooperative_groups|cutlass|cute|nv|crt|oneapi|nvtx3|hip|device"
    r"|experimental)/.+|(cuda|cu[A-Zbdfrs]|nv[rtA-Z]|sm_|device_|mkl|hip|oneapi|dnnl|sleef|arm_|cutlass)[\w+./]*"
    r"|\w*intrin\.h"
)
"""Headers of torch, CUDA and CUTLASS, and of the CPU's instructions."""
_CALLS: dict[str, tuple[Rule, str]] = {
    name: (rule, what)
    for rule, what, names in (
        (
            Rule.PROCESSES,
            "starts or ends processes",
            "fork vfork system popen execv execve execvp execvpe execl execlp execle fexecve posix_spawn posix_spawnp "
            "daemon kill killpg clone clone3 waitpid",
        ),
        (
            Rule.FILES,
            "opens files",
            "open open64 openat fopen fopen64 freopen fdopen creat unlink mkstemp tmpfile memfd_create shm_open "
            "opendir readdir scandir sendfile mkdir rmdir chmod symlink",
        ),
        (
            Rule.NETWORK,
            "reaches the network",
            "socket socketpair connect getaddrinfo gethostbyname recvfrom sendto recvmsg sendmsg io_uring_setup",
        ),
        (
            Rule.SYSTEM,
            "calls the system",
            "syscall ptrace process_vm_readv process_vm_writev personality prctl setrlimit prlimit unshare setns ioctl "
            "mprotect dlopen dlmopen dlsym dlvsym dl_iterate_phdr sigaction setitimer atexit at_quick_exit",
        ),
        (
            Rule.PATCHING,
            "changes what others see",
            "setenv putenv unsetenv clearenv registerImpl registerFallback addGlobalCallback setAllocator "
            "SetAllocator cudaDeviceReset cudaDeviceSetLimit cuptiSubscribe cuptiActivityEnable",
        ),
        (
            Rule.PRECISION,
            "changes how everybody computes",
            "setAllowTF32CuBLAS setAllowTF32CuDNN setFloat32MatmulPrecision setAllowFP16ReductionCuBLAS "
            "setAllowBF16ReductionCuBLAS setDeterministicAlgorithms set_default_dtype",
        ),
    )
    for name in names.split()
}
"""Functions, refused where they are called as the system's."""
_MEMBERS = listed(
    "registerImpl registerFallback setAllowTF32CuBLAS setAllowTF32CuDNN setFloat32MatmulPrecision "
    "setAllowFP16ReductionCuBLAS setAllowBF16ReductionCuBLAS setDeterministicAlgorithms setAllocator"
)
"""Those of them that are called on an object or in a namespace."""
_VALUES = listed("fork vfork system popen execv execve execvp posix_spawn dlopen dlsym syscall")
_STREAMS = listed("ifstream ofstream fstream wifstream wofstream filebuf")
_PYTHON = re.compile(
    r"_Py\w+|Py_(CompileString\w*|AtExit|AddPendingCall|Main|BytesMain|NewInterpreter\w*|Finalize\w*)"
    r"|Py(Frame|Run|Sys|Code|GC|Marshal|Unstable|TraceBack|Interpreter|Import)_\w+|PyEval_(Get|Set|Eval)\w+"
    r"|PyObject_(GenericSetAttr|SetAttr\w*|GC_\w+)|PyDict_SetItemString|PyModule_AddObject\w*|PyType_Modified"
)
_OURS = re.compile(
    r"(cuda|cupti)(Event|Stream|Launch|Device|Malloc|Memcpy|Graph)\w*|cu(Launch|Event|Stream|Mem|Ctx)\w*|Py[A-Z_]\w*"
    r"|clock_gettime|clock|gettimeofday|time|malloc|calloc|realloc|free|memcpy|memset|pthread_\w+|dl(open|sym)|nanosleep"
)
"""Functions of others that a library must not define anew."""
_ASSEMBLER = re.compile(
    r"\b(syscall|sysenter|svc)\b|\bint\s+\$?0x80|\.(incbin|include|byte|2byte|4byte|8byte|word|long|quad|inst|short"
    r"|hword|octa|ascii|asciz|globl)\b"
)
_KEYWORDS = listed("return else do case goto throw co_return co_await and or not new delete")
_NOTES = {
    name: what
    for what, names in (
        ("It measures its own time.", "cudaEventElapsedTime"),
        ("It uses CUDA events.", "cudaEventCreate cudaEventCreateWithFlags"),
        ("It allocates device memory outside of torch.", "cudaMalloc cudaMallocAsync"),
        ("It replays a recorded CUDA graph, whose buffers are fixed.", "cudaGraphInstantiate cudaGraphLaunch"),
        ("It looks at the clock.", "clock_gettime steady_clock high_resolution_clock"),
        ("It starts threads of its own.", "pthread_create thrd_create"),
        (
            "It runs work on a stream of its own.",
            "cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority getStreamFromPool "
            "setCurrentCUDAStream cudaStreamPerThread cuStreamCreate cudaLaunchHostFunc cudaStreamAddCallback",
        ),
        (
            "It pins data in the cache between calls.",
            "cudaLimitPersistingL2CacheSize cudaStreamAttributeAccessPolicyWindow "
            "cudaLaunchAttributeAccessPolicyWindow cudaAccessPropertyPersisting",
        ),
        ("It keeps memory or counters between calls.", "thread_local"),
        ("It changes how many threads OpenMP uses.", "omp_set_num_threads set_num_threads"),
        (
            "It computes in a lower precision than the original does.",
            "_Float16 __float2half __float2half_rn __floats2half2_rn __float2bfloat16 __float2bfloat16_rn "
            "__floats2bfloat162_rn CUBLAS_COMPUTE_32F_FAST_TF32 CUBLAS_COMPUTE_32F_FAST_16F "
            "CUBLAS_COMPUTE_32F_FAST_16BF",
        ),
    )
    for name in names.split()
}


# ---- refusals -----------------------------------------------------------------------------------


def options(source: Source) -> Iterator[Refusal]:
    """Options of compilers that run programs, read other files or replace functions; builds from files."""
    for call in source.builds:
        if "torch.utils.cpp_extension.load" in source.names.of(call.func):
            yield Refusal(Rule.FILES, "It builds files from elsewhere; a candidate is one file.", call.lineno)
        for word in call.keywords:
            if word.arg in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "nvcc_options"):
                said = [source.folder.said(one) for one in _elements(source, word.value)]
                for text in said:
                    if text and _OPTION.search(text):
                        yield Refusal(
                            Rule.COMPILER, f"The option {text[:60]} does more than compile.", word.value.lineno
                        )
            elif word.arg == "extra_include_paths":
                for one in _elements(source, word.value):
                    place = source.folder.said(one) or ""
                    if place.startswith(("/proc", "/dev", "/home", "/root", "/etc", "~", "..")):
                        yield Refusal(Rule.FILES, f"It includes files from {place[:60]}.", word.value.lineno)


_OPTION = re.compile(
    r"^@|(^|[\s,])(-fplugin|-plugin|-specs|--specs|-wrapper|-include|--include|-imacros|-ccbin|--compiler-bindir"
    r"|--options-file|-fuse-ld|--wrap|-init|-fini|--defsym|--dynamic-list|-run|--run|-B|-T|-Map|--version-script"
    r"|--audit|-dynamic-linker|-save-temps|-fdump|-x\b|-o\b|-l:)"
)


def _elements(source: Source, node: object) -> list[ast.expr]:
    stack: list[object] = [node]
    found: list[ast.expr] = []
    while stack and len(found) < 200:
        one = stack.pop()
        if isinstance(one, (ast.List, ast.Tuple)):
            stack += one.elts
        elif isinstance(one, ast.BinOp) and source.folder.fold(one) is None:
            stack += [one.left, one.right]
        elif isinstance(one, ast.IfExp):
            stack += [one.body, one.orelse]
        elif isinstance(one, ast.Name) and source.folder.fold(one) is None:
            bound = source.names.scopes[one].find(one.id) if one in source.names.scopes else None
            values = [value for value in (bound[1] if bound else []) if isinstance(value, (ast.List, ast.Tuple))]
            stack += values[:4]
        elif isinstance(one, ast.expr):
            found.append(one)
    return found


def includes(source: Source) -> Iterator[Refusal]:
    """Headers other than those of C++, torch, CUDA and CUTLASS."""
    for native in source.natives:
        for include in native.unit.includes:
            name, line = include.name, native.line(include.at)
            if include.embeds:
                yield Refusal(Rule.FILES, "Its C++ code embeds a file (#embed).", line)
            elif not name or ".." in name.split("/"):
                yield Refusal(Rule.FILES, f"Its C++ code includes {name or 'what a macro names'}.", line)
            elif name not in HEADERS and not _FAMILIES.fullmatch(name):
                reason = f"Its C++ code includes {name[:80]}, which is no header of C++, torch, CUDA or CUTLASS."
                yield Refusal(Rule.FILES if name.startswith("/") else Rule.SYSTEM, reason, line)


def calls(source: Source) -> Iterator[Refusal]:
    """Functions of the system, of Python and of torch that no kernel needs."""
    for native in source.natives:
        unit = native.unit
        own = {function.name for function in unit.functions} | unit.defined
        for tokens in (unit.tokens, unit.macros):
            texts = {token.text for token in tokens if token.kind == NAME}
            for at, token in enumerate(tokens):
                if token.kind != NAME:
                    continue
                found = _call(tokens, at, texts, own)
                if found is not None:
                    yield Refusal(found[0], f"Its C++ code {found[1]} ({token.text}).", native.line(token.at))
            yield from _assembler(native, tokens)
            yield from _python(native, tokens)
        for function in unit.functions:
            if function.exported and _OURS.fullmatch(function.name) and not function.name.startswith("PyInit_"):
                line = native.line(unit.tokens[function.begin].at)
                yield Refusal(Rule.PATCHING, f"Its C++ code gives {function.name} another meaning.", line)


def _call(tokens: list[Token], at: int, texts: set[str], own: set[str]) -> tuple[Rule, str] | None:
    """Return what is wrong with a name in its place, None if nothing."""
    name = tokens[at].text
    before = tokens[at - 1] if at else Token(OTHER, ";", 0)
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    owner = tokens[at - 2].text if before.text == "::" and at > 1 and tokens[at - 2].kind == NAME else ""
    if name in _STREAMS and owner in ("", "std") and before.text not in (".", "->"):
        return Rule.FILES, "opens files"
    if name == "CUBLAS_TF32_TENSOR_OP_MATH":
        return Rule.PRECISION, "changes how everybody computes"
    if name == "TORCH_LIBRARY_IMPL" and at + 2 < len(tokens) and tokens[at + 2].text in ("aten", "prims", "_"):
        return Rule.PATCHING, "gives torch's own operators another meaning"
    if name == "detach" and after == "(" and before.text in (".", "->") and texts & {"thread", "jthread", "pthread_t"}:
        # Of a tensor it is harmless; of a thread it leaves it behind.
        return (Rule.PROCESSES, "leaves a thread behind") if _is_thread(tokens, at - 2) else None
    if name == "pthread_detach" or (name == "pthread_create" and "pthread_join" not in texts):
        return Rule.PROCESSES, "leaves a thread behind"
    if name == "DynamicLibrary":
        return Rule.SYSTEM, "opens other libraries"
    if name not in _CALLS or name in own:
        return None
    if name in _MEMBERS:
        return _CALLS[name] if after == "(" else None
    if before.text in (".", "->") or owner not in ("", "std"):
        return None
    if after == "(":
        declared = before.kind == NAME and before.text not in _KEYWORDS
        return None if declared else _CALLS[name]
    if name in _VALUES and before.text in ("&", "=", "::", ";") and after in (";", ",", ")"):
        return _CALLS[name]
    return None


def _is_thread(tokens: list[Token], at: int) -> bool:
    """Whether what stands at a place is a thread: `std::thread(...)`, or a name declared as one."""
    if tokens[at].text == ")":
        depth = 0
        while at >= 0:
            depth += (tokens[at].text == ")") - (tokens[at].text == "(")
            at -= 1
            if depth == 0:
                break
        return any(tokens[index].text in ("thread", "jthread") for index in range(max(0, at - 1), at + 1))
    return any(
        tokens[index].text == tokens[at].text and tokens[index - 1].text in ("thread", "jthread")
        for index in range(1, at)
    )


def _assembler(native: Native, tokens: list[Token]) -> Iterator[Refusal]:
    """Inline PTX is fine; system calls, other files, and instructions as data are not."""
    for at, token in enumerate(tokens):
        if token.kind != NAME or token.text not in ("asm", "__asm__", "__asm"):
            continue
        said = []
        for part in tokens[at + 1 : at + 400]:
            if part.text in (":", ";") and part.kind == OTHER:
                break
            if part.kind == STRING:
                said.append(part.text)
        if _ASSEMBLER.search(re.sub(r"/\*.*?\*/|//[^\n]*", " ", "".join(said).lower(), flags=re.DOTALL)):
            reason = "Its C++ code calls the system, or holds what cannot be read, in assembler."
            yield Refusal(Rule.SYSTEM, reason, native.line(token.at))


def _python(native: Native, tokens: list[Token]) -> Iterator[Refusal]:
    """The interpreter by its C functions, and modules by `py::module_::import`."""
    for at, token in enumerate(tokens):
        if token.kind != NAME:
            continue
        line = native.line(token.at) if _PYTHON.match(token.text) or token.text in ("exec", "eval", "import") else 0
        owner = tokens[at - 2].text if at > 1 and tokens[at - 1].text == "::" else ""
        if _PYTHON.fullmatch(token.text):
            yield Refusal(Rule.INTERPRETER, f"Its C++ code reaches the Python interpreter ({token.text}).", line)
        elif token.text in ("exec", "eval", "eval_file") and owner:
            yield Refusal(Rule.TEXT, f"Its C++ code runs text as Python ({token.text}).", line)
        elif token.text == "import" and owner in ("module", "module_") and at + 2 < len(tokens):
            said = tokens[at + 2].text if tokens[at + 2].kind == STRING else ""
            if said.partition(".")[0] not in IMPORTABLE or said.partition(".")[0] in ("os", "sys", "ctypes", "shutil"):
                yield Refusal(Rule.IMPORTS, f"Its C++ code imports {said or 'a module made at run time'}.", line)


def unused(source: Source) -> Iterator[Refusal]:
    """Kernels that nothing launches as far as the text shows."""
    named = Counter(map(_named, source.names.nodes))
    for jit in source.jit_functions:
        if named[jit.name] <= sum(_named(node) == jit.name for node in ast.walk(jit)):
            yield Refusal(Rule.UNUSED, f"The kernel {jit.name} is never launched.", jit.lineno)
    if source.makes_names or not source.natives:
        return
    mentioned: Counter[str] = Counter()
    functions: list[tuple[Native, Function]] = []
    for native in source.natives:
        unit = native.unit
        mentioned.update(token.text for tokens in (unit.tokens, unit.macros) for token in tokens if token.kind == NAME)
        for function in unit.functions:
            functions.append((native, function))
            body = unit.tokens[function.begin : function.end]
            mentioned[function.name] -= sum(token.text == function.name for token in body)
        if "##" in native.text.value or not native.text.whole:
            return
    exported = [one for one in functions if one[1].exported]
    for native, function in functions:
        if function.kernel and not mentioned[function.name] and function.name not in source.words:
            line = native.line(native.unit.tokens[function.begin].at)
            yield Refusal(Rule.UNUSED, f"The kernel {function.name} is never launched.", line)
    if exported and not any(mentioned[one.name] or one.name in source.words for _, one in exported):
        native, function = exported[0]
        line = native.line(native.unit.tokens[function.begin].at)
        yield Refusal(Rule.UNUSED, f"Nothing calls the kernel {function.name}.", line)


def _named(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


# ---- notes --------------------------------------------------------------------------------------


def notes(source: Source) -> Iterator[Note]:
    """What is honest at times in C++, and sources that cannot be read before they are built."""
    for call in source.builds:
        for argument in source.source_arguments(call):
            if source.folder.fold(argument) is None:
                yield Note("The source of its kernel is only known at run time.", call.lineno)
    lower = any(word in source.reference_text for word in ("half", "float16", "autocast"))
    for native in source.natives:
        tokens = native.unit.tokens
        for at, token in enumerate(tokens):
            if token.kind != NAME:
                continue
            what = _NOTES.get(token.text, "")
            after = tokens[at + 1].text if at + 1 < len(tokens) else ""
            if token.text in ("thread", "jthread", "async") and at > 1 and tokens[at - 2].text == "std":
                what = "It starts threads of its own."
            elif token.text == "static" and _mutable(tokens, at):
                what = "It keeps memory or counters between calls."
            elif token.text in ("kHalf", "kBFloat16") and _cast(tokens, at):
                what = "It computes in a lower precision than the original does."
            if what and not (lower and "precision" in what) and not (what.endswith("time.") and after != "("):
                yield Note(what, native.line(token.at))


def _mutable(tokens: list[Token], at: int) -> bool:
    """Whether `static` stands before a variable that can change, rather than before a function or a constant."""
    for token in tokens[at + 1 : at + 30]:
        if token.text in ("const", "constexpr", "inline", "__device__", "(", "__global__", "cast"):
            return False
        if token.text in ("=", ";", "{", "["):
            return True
    return False


def _cast(tokens: list[Token], at: int) -> bool:
    """Whether a type stands in `.to(...)`."""
    near = [token.text for token in tokens[max(0, at - 6) : at]]
    return "to" in near and "(" in near[near.index("to") :]
