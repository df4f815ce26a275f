"""What C++ and CUDA sources may call: nothing of processes, threads, files, other streams, the interpreter."""

from __future__ import annotations

from collections.abc import Iterator

from ..candidate import Candidate, Native
from ..tokens import IDENTIFIER, NUMBER, STRING, Token
from ..words import Flag, Refusal

_ANYWHERE = {
    "starts threads": (
        "pthread_create pthread_self pthread_kill pthread_atfork thrd_create jthread packaged_task "
        "_beginthread clone3 set_thread_area"
    ),
    "starts or ends processes": (
        "vfork posix_spawn posix_spawnp popen pclose execv execve execvp execl execlp execle execvpe fexecve "
        "daemon waitpid _exit _Exit quick_exit at_quick_exit abort_handler_s prctl setrlimit prlimit unshare "
        "setns"
    ),
    "calls the system by itself": (
        "syscall __syscall ptrace process_vm_readv process_vm_writev personality bpf perf_event_open ioctl"
    ),
    "opens other libraries": (
        "dlopen dlsym dlmopen dlvsym dladdr dlclose dl_iterate_phdr RTLD_NEXT RTLD_DEFAULT link_map r_debug _r_debug"
    ),
    "reads or writes files": (
        "fopen fopen64 freopen fdopen openat open64 creat ifstream ofstream fstream filebuf wifstream "
        "wofstream memfd_create shm_open mkstemp tmpfile tmpnam fmemopen opendir readdir scandir sendfile"
    ),
    "changes how memory is mapped": (
        "mmap mmap64 munmap mprotect mremap shmat shmget userfaultfd pkey_mprotect remap_file_pages madvise"
    ),
    "reaches the network": (
        "socket socketpair getaddrinfo gethostbyname recvfrom sendto recvmsg sendmsg epoll_create io_uring_setup"
    ),
    "handles signals": (
        "sigaction sigprocmask setjmp longjmp sigsetjmp siglongjmp setitimer timer_create raise_signal "
        "__libc_start_main"
    ),
    "changes the environment": ("setenv putenv unsetenv clearenv environ __environ"),
    "makes or uses other streams": (
        "cudaStreamCreate cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamNonBlocking "
        "cudaStreamPerThread getStreamFromPool getStreamFromExternal setCurrentCUDAStream cuStreamCreate "
        "cuStreamCreateWithPriority CU_STREAM_NON_BLOCKING CU_STREAM_PER_THREAD cudaLaunchHostFunc "
        "cudaStreamAddCallback cuLaunchHostFunc cudaGraphLaunch cudaGraphAddHostNode cudaStreamFireAndForget "
        "cudaStreamGraphTailLaunch cudaStreamGraphFireAndForget CUDA_API_PER_THREAD_DEFAULT_STREAM"
    ),
    "pins data in the cache between calls": (
        "cudaLimitPersistingL2CacheSize cudaStreamSetAttribute cudaStreamAttributeAccessPolicyWindow "
        "cudaAccessPropertyPersisting cudaLaunchAttributeAccessPolicyWindow accessPolicyWindow "
        "cuStreamSetAttribute cudaMemAdvise cuMemAdvise cudaMemPrefetchAsync "
        "CU_LIMIT_PERSISTING_L2_CACHE_SIZE CU_ACCESS_PROPERTY_PERSISTING cudaCtxResetPersistingL2Cache"
    ),
    "changes the device for everybody": (
        "cudaDeviceReset cudaDeviceSetLimit cudaSetDeviceFlags cudaIpcOpenMemHandle cudaIpcGetMemHandle "
        "cudaIpcGetEventHandle cudaIpcOpenEventHandle cuCtxCreate cuCtxDestroy cuDevicePrimaryCtxReset "
        "cuCtxSetLimit cuCtxPushCurrent cuGetProcAddress cudaGetDriverEntryPoint "
        "cudaGetDriverEntryPointByVersion cuIpcOpenMemHandle cudaDeviceEnablePeerAccess cudaDeviceSetMemPool "
        "cudaProfilerStart cudaProfilerStop cuptiSubscribe cuptiActivityEnable nvmlInit nvmlInit_v2 "
        "cuptiEnableCallback cudaHostRegister cudaMemPoolSetAttribute cudaDeviceSetCacheConfig"
    ),
    "reaches the memory of torch behind its back": (
        "CUDACachingAllocator setAllocator SetAllocator CUDAAllocator getChunk recordStream raw_delete "
        "raw_alloc emptyCache cudaPointerGetAttributes cuMemGetAddressRange cuMemGetAddressRange_v2 "
        "cudaMemGetInfo_"
    ),
    "changes torch for everybody": (
        "RegisterOperators setAllowTF32CuBLAS setAllowTF32CuDNN setFloat32MatmulPrecision "
        "globalContext setAllowFP16ReductionCuBLAS registerDispatchKey addGlobalCallback "
        "addThreadLocalCallback pushGlobalCallback set_default_dtype setFlushDenormal Dispatcher "
        "setDeterministicAlgorithms set_default_tensor_type registerImpl PythonDispatcherTLS "
        "setBenchmarkCuDNN_ TorchDispatchModeTLS"
    ),
    "lowers the precision of matrix products without saying so": (
        "CUBLAS_TF32_TENSOR_OP_MATH CUBLAS_COMPUTE_32F_FAST_TF32 CUBLAS_COMPUTE_32F_FAST_16F "
        "CUBLAS_COMPUTE_32F_FAST_16BF CUBLAS_TENSOR_OP_MATH CUBLAS_GEMM_DEFAULT_TENSOR_OP_ "
        "CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION"
    ),
}
ANYWHERE = {name: why for why, names in _ANYWHERE.items() for name in names.split()}
"""Names that mean one thing only, and what that does."""
_CALLED = {
    "starts or ends processes": "fork system clone kill killpg wait",
    "reads or writes files": "open read write pread pwrite readv writev access unlink rename remove chmod",
    "reaches the network": "connect listen accept bind",
    "handles signals": "signal raise alarm sigqueue",
    "stops the process": "pause sleep usleep nanosleep",
}
CALLED = {name: why for why, names in _CALLED.items() for name in names.split()}
"""Names that may also mean something harmless: refused when called as a function of the system."""
_STD = {
    "thread": "starts threads",
    "async": "starts threads",
    "system": "starts or ends processes",
    "raise": "handles signals",
    "signal": "handles signals",
    "atexit": "leaves work to be done later",
}
_NOTED = {
    "cudaEventElapsedTime": "It measures its own time.",
    "cudaEventCreate": "It uses CUDA events.",
    "cudaMalloc": "It allocates device memory outside of torch.",
    "cudaMallocAsync": "It allocates device memory outside of torch.",
    "cudaGraphInstantiate": "It replays a recorded CUDA graph, whose buffers are fixed.",
    "clock_gettime": "It looks at the clock.",
    "steady_clock": "It looks at the clock.",
    "high_resolution_clock": "It looks at the clock.",
    "tf32": "It computes in a lower precision than the original does.",
}


_TYPES = ("void", "int", "float", "double", "bool", "char", "long", "unsigned", "auto", "size_t", "int64_t", "Tensor")


def calls(candidate: Candidate) -> Iterator[Refusal]:
    """Forbidden names in any source."""
    for native in candidate.natives:
        yield from calls_of(native)


def calls_of(native: Native) -> Iterator[Refusal]:
    """As `calls`, for one source."""
    tokens = native.unit.tokens
    own = {function.name for function in native.unit.functions if not function.outer or function.is_private}
    inside = {id(token) for function in native.unit.functions for token in function.body}
    for at, token in enumerate(tokens):
        if token.kind == IDENTIFIER:
            why = _why(tokens, at, own, id(token) in inside)
            if why:
                yield Refusal(f"Its C++ code {why} ({token.text}).", native.line(token))
        elif token.kind == STRING:
            for place in ("/proc/", "/dev/", "/sys/", "/etc/", "/home/", "/root/"):
                if place in token.value and not _in_printf(tokens, at):
                    yield Refusal(f"Its C++ code names {place}.", native.line(token))
        elif token.text == "<<<":
            yield from _launch(native, tokens, at)


def _why(tokens: list[Token], at: int, own: set[str], inside: bool) -> str:
    name = tokens[at].text
    before = tokens[at - 1].text if at else ""
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    member = before in (".", "->")
    owner = tokens[at - 2].text if before == "::" and at >= 2 and tokens[at - 2].kind == IDENTIFIER else ""
    if name in ANYWHERE and not (member and name in ("emptyCache", "socket", "environ")) and name not in own:
        return ANYWHERE[name]
    if owner == "std":
        return _STD.get(name, "")
    if name in CALLED and after == "(" and not member and owner == "" and name not in own:
        return "" if _declares(tokens, at, inside) else CALLED[name]
    return ""


def _declares(tokens: list[Token], at: int, inside: bool) -> bool:
    """Whether a name before `(` is declared rather than called: `float signal(...)`, but not `return read(...)`.

    A word before it may be all that is left of a branch that is never compiled: in the body of a function, only words
    that are surely types count.
    """
    before = tokens[at - 1] if at else None
    if before is None or (inside and before.kind == IDENTIFIER and before.text not in _TYPES):
        return False
    if before.kind == IDENTIFIER:
        return before.text not in ("return", "else", "do", "case", "goto", "throw", "co_return")
    return before.text in ("&", "*") and at > 1 and tokens[at - 2].text in ("auto", "void", "int", "float")


def _in_printf(tokens: list[Token], at: int) -> bool:
    near = {token.text for token in tokens[max(0, at - 4) : at]}
    return at >= 2 and tokens[at - 1].text in ("(", ",") and bool(near & {"printf", "fprintf"})


def _launch(native: Native, tokens: list[Token], at: int) -> Iterator[Refusal]:
    """The fourth argument of a launch must be a stream that was given."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[at + 1 : at + 400]:
        if token.text == ">>>" and depth == 0:
            break
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    if len(arguments) < 4:
        return
    stream = arguments[3]
    numbers = [token for token in stream if token.kind == NUMBER and token.text.strip("uUlL") not in ("0", "0x0")]
    called = any(token.text == "(" for token in stream) and any(token.text.startswith("get") for token in stream)
    if numbers and not called:
        reason = "Its C++ code launches on a stream of its own; kernels must go to the current stream."
        yield Refusal(reason, native.line(stream[0]))


def noted(candidate: Candidate) -> Iterator[Flag]:
    """What is honest at times, and worth a note."""
    seen: set[str] = set()
    for native in candidate.natives:
        for token in native.unit.tokens:
            words = _NOTED.get(token.text) if token.kind == IDENTIFIER else None
            if words and words not in seen:
                seen.add(words)
                yield Flag(words, native.line(token))
