"""Files, processes, the environment, memory that is not its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import LIBRARIES, Candidate
from ..uses import CALL, IMPORT, STORE
from ..words import Flag, Refusal, listed

_OS_FINE = listed(
    "path environ getenv putenv cpu_count process_cpu_count sched_getaffinity sep linesep name uname getcwd "
    "fspath PathLike pathsep curdir pardir extsep devnull"
)
_OS_NOTED = listed("makedirs mkdir getpid")
_FILES = (
    "builtins.open",
    "io.open",
    "io.FileIO",
    "io.open_code",
    "os.open",
    "torch.save",
    "torch.load",
    "torch.from_file",
    "torch.UntypedStorage.from_file",
    "torch.UntypedStorage._new_shared",
    "torch.package",
    "torch.jit.save",
    "torch.jit.load",
    "numpy.load",
    "numpy.save",
    "numpy.savez",
    "numpy.memmap",
    "numpy.fromfile",
    "numpy.loadtxt",
    "numpy.savetxt",
    "numpy.genfromtxt",
    "logging.FileHandler",
    "tempfile.NamedTemporaryFile",
    "tempfile.TemporaryFile",
    "tempfile.mkstemp",
    "tempfile.SpooledTemporaryFile",
)
_PATH_METHODS = listed(
    "open write_text write_bytes read_text read_bytes unlink rename replace symlink_to hardlink_to touch "
    "rmdir chmod mkdir iterdir glob rglob readlink"
)
_FILE_METHODS = listed("tofile write_text write_bytes read_text read_bytes")
_MEMORY = listed(
    "memmove memset string_at wstring_at pythonapi py_object PYFUNCTYPE from_address addressof _dlopen "
    "CFUNCTYPE_from_address util PyDLL pydll PyObj_FromPtr"
)
_LIBRARY_WORDS = (
    "libc",
    "libdl",
    "libpthread",
    "libpython",
    "libcuda",
    "libcudart",
    "libtorch",
    "libc10",
    "librt.",
    "libm.",
    "ld-linux",
)
_ENVIRONMENT = (
    "LD_",
    "GLIBC_",
    "PYTHON",
    "CUDA_INJECTION",
    "NVCC_PREPEND",
    "NVCC_APPEND",
    "COMPILER_PATH",
    "GCC_EXEC",
    "CPATH",
)
_PRECISION = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")


def files(candidate: Candidate) -> Iterator[Refusal]:
    """Opening files; a candidate needs none but the library it built."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for use in candidate.uses:
        path = use.path.split("[")[0]
        plain = path[:-2] if path.endswith("()") else path
        if plain in _FILES and use.kind != STORE and plain not in ours:
            yield Refusal(f"It opens files ({plain.replace('builtins.', '')}).", use.line)
        elif path.startswith("pathlib.") and path.split(".")[-1] in _PATH_METHODS and path not in ours:
            yield Refusal(f"It opens files ({path.split('.')[-1]}).", use.line)
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILE_METHODS:
            yield Refusal(f"It opens files ({node.func.attr}).", node.lineno)


def processes(candidate: Candidate) -> Iterator[Refusal]:
    """`os` for anything but paths and the environment."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for use in candidate.uses:
        root, _, rest = use.path.partition(".")
        first = rest.split(".")[0].split("(")[0].split("[")[0]
        if root == "os" and first and first not in _OS_FINE | _OS_NOTED and use.path not in ours:
            yield Refusal(
                f"It uses os.{first.replace('?', '…')}: files and processes are none of a kernel's business.", use.line
            )


def environment(candidate: Candidate) -> Iterator[Refusal]:
    """Variables that change what is loaded, compiled or computed."""
    for node in ast.walk(candidate.tree):
        key: ast.expr | None = None
        if (
            isinstance(node, ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and "os.environ" in candidate.names.of(node.value)
        ):
            key = node.slice
        elif (
            isinstance(node, ast.Call)
            and node.args
            and candidate.names.of(node.func)
            & {
                "os.environ.setdefault",
                "os.putenv",
                "os.environ.__setitem__",
            }
        ):
            key = node.args[0]
        elif isinstance(node, ast.Call) and candidate.names.of(node.func) & {"os.environ.update", "os.environ.clear"}:
            for argument in node.args:
                keys = argument.keys if isinstance(argument, ast.Dict) else [argument]
                for item in keys:
                    yield from _variable(candidate, item, getattr(node, "lineno", 1))
            continue
        if key is not None:
            yield from _variable(candidate, key, getattr(node, "lineno", 1))


def _variable(candidate: Candidate, key: ast.expr | None, line: int) -> Iterator[Refusal]:
    said = candidate.folder.fold(key) if key is not None else None
    if said is None or not said.whole:
        yield Refusal("It sets environment variables whose names are only known at run time.", line)
    elif said.value.startswith(_ENVIRONMENT):
        yield Refusal(f"It sets {said.value}, which changes what programs load.", line)
    elif said.value in _PRECISION:
        yield Refusal(f"It sets {said.value}: this lowers the precision of matrix products without saying so.", line)


def memory(candidate: Candidate) -> Iterator[Refusal]:
    """Libraries other than its own, and memory by address."""
    for use in candidate.uses:
        parts = use.path.split(".")
        if parts[0] == "ctypes" and len(parts) > 1:
            name = parts[1].split("(")[0].split("[")[0]
            if name in _MEMORY or parts[-1] in ("from_address", "pythonapi"):
                word = name if name in _MEMORY else parts[-1]
                yield Refusal(f"It reaches memory or libraries that are not its own (ctypes.{word}).", use.line)
            elif parts[1] == "cdll" and len(parts) > 2 and parts[2].split("(")[0] not in ("LoadLibrary", "[]"):
                yield Refusal(f"It loads a library of the system ({parts[2].split('(')[0]}).", use.line)
        if use.kind == CALL and use.path in LIBRARIES and isinstance(use.node, ast.Call):
            yield from _library(candidate, use.node)
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("from_address", "pythonapi", "in_dll"):
            yield Refusal(f"It reaches memory that is not its own ({node.attr}).", node.lineno)


def _library(candidate: Candidate, call: ast.Call) -> Iterator[Refusal]:
    argument = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "name"), None)
    if argument is None or (isinstance(argument, ast.Constant) and not argument.value):
        yield Refusal("It opens its own process as a library.", call.lineno)
        return
    said = candidate.folder.fold(argument)
    value = said.value if said else ""
    if _may_be_none(candidate, argument, 0):
        yield Refusal("It opens its own process as a library.", call.lineno)
    elif value and (value.split("/")[-1].startswith(_LIBRARY_WORDS) or value.startswith(("/proc", "/lib", "/usr"))):
        yield Refusal(f"It loads a library of the system ({value[:60]}).", call.lineno)


def _may_be_none(candidate: Candidate, node: ast.expr, depth: int) -> bool:
    """Whether a library's name may be None; a None among the arguments of what builds it is none."""
    if depth > 8:
        return True
    if isinstance(node, ast.Constant):
        return not node.value
    if isinstance(node, ast.IfExp):
        return _may_be_none(candidate, node.body, depth + 1) or _may_be_none(candidate, node.orelse, depth + 1)
    if isinstance(node, ast.BoolOp):
        return any(_may_be_none(candidate, value, depth + 1) for value in node.values)
    if isinstance(node, ast.NamedExpr):
        return _may_be_none(candidate, node.value, depth + 1)
    if isinstance(node, ast.Name):
        bounds = candidate.scopes.of.get(node, candidate.scopes.top).find(node.id) or []
        values = [bound.source for bound in bounds if isinstance(bound.source, ast.expr)]
        # `path = None` before the build is how many begin; nothing but None is another matter.
        return bool(values) and all(_may_be_none(candidate, value, depth + 1) for value in values)
    return False


def folders(candidate: Candidate) -> Iterator[Flag]:
    """Making folders is harmless, and seldom needed."""
    for use in candidate.uses:
        if use.kind == CALL and (
            use.path in ("os.makedirs", "os.mkdir", "tempfile.mkdtemp", "tempfile.TemporaryDirectory")
        ):
            yield Flag("It makes a folder.", use.line)
        elif use.kind == IMPORT and use.path.split(".")[0] in ("cupy", "numba", "cffi", "pycuda"):
            yield Flag(f"It builds kernels with {use.path.split('.')[0]}, which the judge cannot look into.", use.line)
