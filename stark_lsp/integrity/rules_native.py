"""What C++ and CUDA must not do, and what is worth a note: words in the place of a call, headers, kernels."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from stark_lsp.core.parsing import last_name
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
    r"|experimental|tbb|Eigen)/.+|(cuda|cu[A-Zbdfrst]|nv[rtA-Z]|sm_|device_|texture_|surface_|vector_|mkl|hip|oneapi|dnnl|sleef|arm_|cutlass)[\w+./]*"
    r"|\w*intrin\.h"
)
"""Headers of torch, CUDA and CUTLASS, and of the CPU's instructions."""
_CALLS = {
    name: rule
    for rule, names in {
        Rule.PROCESSES: "fork vfork system popen execv execve execvp execvpe execl execlp execle fexecve posix_spawn "
        "posix_spawnp daemon kill killpg waitpid pthread_detach",
        Rule.FILES: "open open64 openat fopen fopen64 freopen fdopen creat unlink mkstemp tmpfile memfd_create "
        "shm_open opendir readdir scandir sendfile mkdir rmdir chmod symlink",
        Rule.NETWORK: "socket socketpair connect getaddrinfo gethostbyname recvfrom sendto recvmsg sendmsg",
        Rule.SYSTEM: "syscall ptrace process_vm_readv process_vm_writev personality prctl setrlimit prlimit unshare "
        "setns ioctl mprotect dlopen dlmopen dlsym dlvsym dl_iterate_phdr sigaction setitimer atexit at_quick_exit",
        Rule.PATCHING: "setenv putenv unsetenv clearenv registerImpl registerFallback addGlobalCallback setAllocator "
        "SetAllocator cudaDeviceReset cudaDeviceSetLimit cuptiSubscribe cuptiActivityEnable",
        Rule.PRECISION: "setAllowTF32CuBLAS setAllowTF32CuDNN setFloat32MatmulPrecision setAllowFP16ReductionCuBLAS "
        "setAllowBF16ReductionCuBLAS setDeterministicAlgorithms set_default_dtype",
    }.items()
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
    r"_Py\w+|Py_(CompileString\w*|AtExit|AddPendingCall|Main|BytesMain|NewInterpreter\w*|Finalize\w*)|PyType_Modified"
    r"|Py(Frame|Run|Sys|Code|GC|Marshal|Unstable|TraceBack|Interpreter|Import)_\w+|PyEval_(Get|Set|Eval)\w+"
    r"|PyObject_(GenericSetAttr|SetAttr\w*|GC_\w+)"
)
_THREADS = listed("thread jthread")
_TEMPLATES = listed(
    "vector array deque list map set unordered_map unordered_set pair tuple optional variant function span bitset "
    "atomic unique_ptr shared_ptr"
)
"""Those of namespace std; `<` behind them never compares."""
_OURS = listed(
    "cudaEventRecord cudaEventElapsedTime cudaEventSynchronize cudaEventQuery cudaDeviceSynchronize cudaMalloc "
    "cudaStreamSynchronize cudaLaunchKernel cudaLaunchKernelExC cudaMemcpy cudaMemcpyAsync cuLaunchKernel "
    "cuLaunchKernelEx clock_gettime clock gettimeofday time malloc calloc realloc free memcpy memset nanosleep "
    "pthread_create dlopen dlsym"
)
"""Functions of others that a library must not define anew."""
_ASSEMBLER = re.compile(
    r"\b(syscall|sysenter|svc)\b|\bint\s+\$?0x80|\.(incbin|include|byte|2byte|4byte|8byte|word|long|quad|inst|short"
    r"|hword|octa|ascii|asciz|globl)\b"
)
_KEYWORDS = listed("return else do case goto throw co_return co_await and or not new delete")
_NOTES = {
    name: what
    for what, names in {
        "It uses CUDA events.": "cudaEventCreate cudaEventCreateWithFlags cudaEventElapsedTime",
        "It allocates device memory outside of torch.": "cudaMalloc cudaMallocAsync",
        "It replays a recorded CUDA graph, whose buffers are fixed.": "cudaGraphInstantiate cudaGraphLaunch",
        "It looks at the clock.": "clock_gettime steady_clock high_resolution_clock",
        "It starts threads of its own.": "pthread_create thrd_create",
        "It runs work on a stream of its own.": "cudaStreamCreate cudaStreamCreateWithFlags getStreamFromPool "
        "cudaStreamCreateWithPriority setCurrentCUDAStream cudaStreamPerThread cuStreamCreate cudaLaunchHostFunc "
        "cudaStreamAddCallback",
        "It pins data in the cache between calls.": "cudaLimitPersistingL2CacheSize cudaAccessPropertyPersisting "
        "cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow",
        "It keeps memory or counters between calls.": "thread_local",
        "It changes how many threads OpenMP uses.": "omp_set_num_threads set_num_threads",
        "It computes in a lower precision than the original does.": "_Float16 __float2half __float2half_rn "
        "__floats2half2_rn __float2bfloat16 __float2bfloat16_rn __floats2bfloat162_rn CUBLAS_COMPUTE_32F_FAST_TF32 "
        "CUBLAS_COMPUTE_32F_FAST_16F CUBLAS_COMPUTE_32F_FAST_16BF",
    }.items()
    for name in names.split()
}


def options(source: Source) -> Iterator[Refusal]:
    """Options of compilers that run programs, read other files or replace functions; builds from files."""
    for call in source.builds:
        if "torch.utils.cpp_extension.load" in source.names.of(call.func):
            yield Refusal(Rule.FILES, "It builds files from elsewhere; a candidate is one file.", call.lineno)
        for word in call.keywords:
            if word.arg in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "nvcc_options"):
                for one in _elements(source, word.value):
                    said = source.folder.said(one) or ""
                    if _OPTION.search(said):
                        yield Refusal(Rule.COMPILER, f"The option {said[:60]} {Rule.COMPILER.does}.", call.lineno)


_OPTION = re.compile(
    r"^@|(^|[\s,])(-fplugin|-plugin|-specs|--specs|-wrapper|-include|--include|-imacros|-ccbin|--compiler-bindir"
    r"|--options-file|-fuse-ld|--wrap|-init|-fini|--defsym|--dynamic-list|-B(?!symbolic|static|dynamic)|-T|-Map|--version-script"
    r"|--audit|-dynamic-linker|-o\b|-l:)"
)


def _elements(source: Source, node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is in a list of options, and in lists that it names."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and source.folder.fold(part) is None:
            found = source.names.scopes[part].find(part.id)
            for value in (found[1] if found else [])[:4]:
                yield from value.elts if isinstance(value, (ast.List, ast.Tuple)) else []
        elif isinstance(part, ast.expr):
            yield part


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
            # A function object: `auto open = [](...) {...};`.
            own |= {tokens[at + 1].text for at in range(len(tokens) - 2) if tokens[at].text == "auto"}
            own |= _containers(tokens)
            threads = {tokens[at + 1].text for at in range(len(tokens) - 1) if tokens[at].text in _THREADS}
            for at, token in enumerate(tokens):
                rule = _call(tokens, at, texts, own, threads) if token.kind == NAME else None
                if rule is not None:
                    yield Refusal(rule, f"Its C++ code {rule.does} ({token.text}).", native.line(token.at))
            yield from _assembler(native, tokens)
            yield from _python(native, tokens)
        for function in unit.functions:
            if function.exported and function.name in _OURS:
                line = native.line(unit.tokens[function.begin].at)
                yield Refusal(Rule.PATCHING, f"Its C++ code gives {function.name} another meaning.", line)


def _containers(tokens: list[Token]) -> set[str]:
    """Return names of variables whose type is a template of C++: `std::vector<uint64_t> open(n);` calls nothing."""
    found: set[str] = set()
    for at in range(2, len(tokens) - 3):
        if tokens[at].text not in _TEMPLATES or tokens[at + 1].text != "<" or tokens[at - 2].text != "std":
            continue
        depth = 0
        for end in range(at + 1, min(at + 60, len(tokens) - 1)):
            text = tokens[end].text
            depth += 1 if text == "<" else -len(text) if text in (">", ">>>") else 0
            if depth <= 0 or text in (";", "{", "}"):
                break
        if depth == 0 and tokens[end + 1].kind == NAME:
            found.add(tokens[end + 1].text)
    return found


def _call(tokens: list[Token], at: int, texts: set[str], own: set[str], threads: set[str]) -> Rule | None:
    """Return which rule a name in its place breaks, None if none."""
    name = tokens[at].text
    before = tokens[at - 1] if at else Token(OTHER, ";", 0)
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    owner = tokens[at - 2].text if before.text == "::" and at > 1 and tokens[at - 2].kind == NAME else ""
    if name in _STREAMS and owner in ("", "std") and before.text not in (".", "->"):
        return Rule.FILES
    if name == "CUBLAS_TF32_TENSOR_OP_MATH":
        return Rule.PRECISION
    if name == "TORCH_LIBRARY_IMPL" and at + 2 < len(tokens) and tokens[at + 2].text in ("aten", "prims", "_"):
        return Rule.PATCHING
    if name == "detach" and before.text in (".", "->"):
        # Of a tensor it is harmless; a thread is left behind.
        return Rule.PROCESSES if tokens[at - 2].text in threads or _makes_thread(tokens, at - 2) else None
    if name == "pthread_create" and "pthread_join" not in texts:
        return Rule.PROCESSES
    if name == "DynamicLibrary":
        return Rule.SYSTEM
    rule = None if name in own else _CALLS.get(name)
    if name in _MEMBERS:
        return rule if after == "(" else None
    if before.text in (".", "->") or owner not in ("", "std"):
        return None
    if after == "(":
        return None if before.kind == NAME and before.text not in _KEYWORDS else rule
    return rule if name in _VALUES and before.text in ("&", "=", "::", ";") and after in (";", ",", ")") else None


def _makes_thread(tokens: list[Token], at: int) -> bool:
    """Whether the `)` at a place ends `std::thread(...)`."""
    depth = 0
    for index in range(at, max(0, at - 2000), -1):
        depth += (tokens[index].text == ")") - (tokens[index].text == "(")
        if depth <= 0:
            return tokens[index - 1].text in _THREADS
    return False


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
    """The interpreter by its C functions, text run by pybind11, and modules by `py::module_::import`."""
    texts = [token.text for token in tokens]
    spaces = {"py", "pybind11"}
    spaces |= {
        texts[at + 1]
        for at in range(len(texts) - 4)
        if texts[at] == "namespace" and "pybind11" in texts[at + 3 : at + 5]
    }
    for at, token in enumerate(tokens):
        owner = texts[at - 2] if at > 1 and texts[at - 1] == "::" else ""
        rule = what = None
        if token.kind == NAME and _PYTHON.fullmatch(token.text):
            rule, what = Rule.INTERPRETER, f"reaches the Python interpreter ({token.text})"
        elif token.text in ("exec", "eval", "eval_file") and owner in spaces:
            rule, what = Rule.TEXT, f"runs text as Python ({token.text})"
        elif token.text == "import" and owner in ("module", "module_") and at + 2 < len(tokens):
            said = texts[at + 2].partition(".")[0] if tokens[at + 2].kind == STRING else ""
            if said not in IMPORTABLE - {"os", "sys", "ctypes", "shutil"}:
                rule, what = Rule.IMPORTS, f"imports {said or 'a module made at run time'}"
        if rule is not None:
            yield Refusal(rule, f"Its C++ code {what}.", native.line(token.at))


def unused(source: Source) -> Iterator[Refusal]:
    """Kernels that nothing launches as far as the text shows; Triton functions beside one that is used may be left."""
    named = Counter(map(last_name, source.names.nodes))
    left = [
        jit for jit in source.jit_functions if named[jit.name] <= sum(last_name(n) == jit.name for n in ast.walk(jit))
    ]
    if len(left) == len(source.jit_functions):
        for jit in left:
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


def notes(source: Source) -> Iterator[Note]:
    """What is honest at times in C++, and sources that cannot be read before they are built."""
    for call in source.builds:
        for argument in source.source_arguments(call):
            # What is handed on by a name was read where it is written.
            named = isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript)) and source.natives
            text = source.folder.fold(argument)
            if text is None and not named:
                yield Note("The source of its kernel is only known at run time.", call.lineno)
            elif text is not None and not text.whole:
                yield Note("A part of its kernel's source is only known at run time.", call.lineno)
    lower = any(word in source.reference_text for word in ("half", "float16", "autocast"))
    for native in source.natives:
        tokens = native.unit.tokens
        for at, token in enumerate(tokens):
            if token.kind != NAME:
                continue
            what = _NOTES.get(token.text, "")
            if token.text in ("thread", "jthread", "async") and at > 1 and tokens[at - 2].text == "std":
                what = "It starts threads of its own."
            elif token.text == "static" and _mutable(tokens, at):
                what = "It keeps memory or counters between calls."
            if what and not (lower and "precision" in what):
                yield Note(what, native.line(token.at))


def _mutable(tokens: list[Token], at: int) -> bool:
    """Whether `static` stands before a variable that can change, rather than before a function or a constant."""
    for token in tokens[at + 1 : at + 30]:
        if token.text in ("const", "constexpr", "inline", "__device__", "(", "__global__", "cast"):
            return False
        if token.text in ("=", ";", "{", "["):
            return True
    return False
