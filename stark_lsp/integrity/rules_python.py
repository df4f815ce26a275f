"""What Python code must not do, and what is worth a note."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stark_lsp.integrity.facts import Note, Refusal, Rule, listed
from stark_lsp.integrity.source import Source

IMPORTABLE = listed(
    "torch triton cutlass cute cuda cupy numba cffi pycuda tilelang numpy scipy einops opt_einsum torchvision "
    "__future__ abc array bisect cmath collections contextlib copy ctypes dataclasses datetime decimal "
    "difflib enum errno fractions functools gc glob hashlib heapq importlib inspect io itertools json keyword locale "
    "logging math numbers operator os packaging pathlib platform pprint random re shutil statistics string struct sys "
    "sysconfig tempfile textwrap threading time traceback types typing typing_extensions uuid warnings weakref _thread"
)
"""Packages that a candidate may import; what they may be used for is told below."""
_NOTED = listed("cupy numba cffi pycuda tilelang numpy scipy einops opt_einsum torchvision packaging")
_OS = listed(
    "path environ getenv cpu_count process_cpu_count sched_getaffinity sep linesep name uname getcwd fspath PathLike "
    "pathsep curdir pardir extsep devnull makedirs mkdir getpid which"
)
_PATH_METHODS = listed(
    "open write_text write_bytes read_text read_bytes unlink rename replace symlink_to hardlink_to touch rmdir chmod"
)
_METHODS = listed("tofile write_text write_bytes read_text read_bytes")
_PREFIXES = {
    path: rule
    for rule, paths in {
        Rule.FILES: "builtins.open io.open io.FileIO io.open_code torch.save torch.load torch.from_file torch.package "
        "torch.UntypedStorage.from_file torch.jit.save torch.jit.load torch.serialization numpy.load numpy.save "
        "numpy.savez numpy.memmap numpy.fromfile numpy.loadtxt numpy.savetxt numpy.genfromtxt logging.FileHandler "
        "logging.config tempfile.NamedTemporaryFile tempfile.TemporaryFile tempfile.mkstemp",
        Rule.PROCESSES: "threading.Thread threading.Timer _thread.start_new_thread _thread.start_new "
        "_thread.start_joinable_thread torch.multiprocessing torch.distributed.init_process_group "
        "torch.distributed.rpc",
        Rule.NETWORK: "torch.hub torch.utils.model_zoo logging.handlers",
        Rule.TEXT: "builtins.exec builtins.eval builtins.compile builtins.breakpoint types.FunctionType types.CodeType "
        "torch.utils.benchmark torch._inductor.codecache torch._import_dotted_name importlib.metadata.EntryPoint "
        "torch.fx.graph_module._exec_with_source",
        Rule.INTERPRETER: "sys._getframe sys._current_frames sys._getframemodulename sys.settrace sys.setprofile "
        "sys.modules sys.path sys.meta_path sys.path_hooks sys.addaudithook sys.monitoring sys.last_traceback "
        "threading.settrace threading.setprofile threading._active inspect.stack inspect.currentframe inspect.trace "
        "inspect.getouterframes inspect.getinnerframes gc.get_objects gc.get_referrers gc.get_referents gc.callbacks "
        "traceback.walk_stack traceback.walk_tb traceback.extract_stack traceback.StackSummary logging.currentframe "
        "ctypes.pythonapi ctypes.py_object ctypes.PYFUNCTYPE ctypes._dlopen torch.autograd.graph.saved_tensors_hooks "
        "torch._jit_internal.createResolutionCallbackFromFrame",
        Rule.PATCHING: "torch.set_default_device torch.cuda.memory.change_current_allocator torch.utils.swap_tensors "
        "torch.cuda.memory.CUDAPluggableAllocator torch.cuda.CUDAPluggableAllocator torch.overrides.TorchFunctionMode "
        "torch.utils._python_dispatch.TorchDispatchMode torch.utils.rename_privateuse1_backend",
        Rule.PRECISION: "torch.set_default_dtype torch.set_default_tensor_type torch.use_deterministic_algorithms",
    }.items()
    for path in paths.split()
}
"""Functions of others that no kernel needs, with all that lies below them."""
_HOOKS = "torch.nn.modules.module.register_module_"
_LIBRARIES = listed("ctypes.CDLL ctypes.PyDLL ctypes.cdll.LoadLibrary ctypes.pydll.LoadLibrary torch.ops.load_library")
_SYSTEMS = listed("os sys subprocess socket shutil builtins gc multiprocessing")
"""Modules that others keep under a name of their own."""
_GADGETS = listed(
    "__subclasses__ __globals__ __builtins__ __code__ __closure__ f_globals f_locals f_back f_builtins f_code "
    "gi_frame gi_code cr_frame ag_frame tb_frame tb_next func_globals grad_fn"
)
"""Attributes that lead from a harmless object to the caller's."""
_SETTINGS = ("torch.backends.", "torch._dynamo.config.", "torch._inductor.config.", "torch.jit._", "triton.knobs.")
_TORCHS_OWN = listed("aten prims prim quantized torch c10d profiler _")
_ENVIRONMENT = ("LD_", "GLIBC_", "PYTHON", "CUDA_INJECTION", "NVCC_", "COMPILER_PATH", "GCC_EXEC", "CPATH")
_BUILD = listed("MAX_JOBS CC CXX CFLAGS CXXFLAGS LDFLAGS CUDA_HOME TORCH_CUDA_ARCH_LIST TORCH_EXTENSIONS_DIR")
_TF32 = listed("NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")
_HARMLESS = ("libcu", "libnv", "libamdhip", "libgomp", "libomp", "libiomp", "libmkl", "libm.")
"""Libraries that kernels are known to load by name."""
_NOTES = {
    path: what
    for what, paths in {
        "It changes how many threads torch uses.": "torch.set_num_threads",
        "It changes how the CPU treats tiny numbers.": "torch.set_flush_denormal",
        "It replays a recorded CUDA graph, whose buffers are fixed.": "torch.cuda.CUDAGraph torch.cuda.graph "
        "torch.cuda.make_graphed_callables",
        "It uses CUDA events.": "torch.cuda.Event torch.Event",
        "It looks at the clock.": "time.perf_counter time.time time.monotonic time.perf_counter_ns time.time_ns",
        "It waits.": "time.sleep",
        "It changes the random state.": "torch.manual_seed torch.cuda.manual_seed torch.cuda.manual_seed_all",
        "It runs work on a stream of its own.": "torch.cuda.Stream torch.cuda.stream torch.Stream "
        "torch.cuda.set_stream torch.cuda.ExternalStream",
        "It changes the current device.": "torch.cuda.set_device",
        "It makes a folder.": "os.makedirs os.mkdir tempfile.mkdtemp tempfile.TemporaryDirectory",
        "It reaches memory by address.": "ctypes.memmove ctypes.memset ctypes.string_at ctypes.wstring_at",
        "It switches garbage collection.": "gc.disable gc.freeze gc.set_threshold",
        "It leaves work to be done later.": "torch.jit.fork torch.futures",
    }.items()
    for path in paths.split()
}
_AUTOCAST = listed("torch.autocast torch.amp.autocast")
OTHERS = 5
"""Classes that are named where the one that is wanted is missing."""
_SHAPES = listed("shape size stride numel dtype device data_ptr _version ndim dim")


def candidate(source: Source) -> Iterator[Refusal]:
    """The file defines the class at its top level, and the class or a base of it in the file has a forward."""
    main = source.main
    if main is None:
        lines = [n.lineno for n in source.names.nodes if isinstance(n, ast.Name) and n.id == source.class_name]
        others = [node.name for node in source.tree.body if isinstance(node, ast.ClassDef)][:OTHERS]
        instead = f", but {', '.join(others)}" if others else ""
        what = f"The candidate defines no class {source.class_name}{instead}."
        yield Refusal(Rule.CANDIDATE, what, min(lines, default=None))
        return
    for cls in [main, *source.bases(main)]:
        if source.forward(cls) is not None or source.foreign_bases(cls):
            return
    yield Refusal(Rule.CANDIDATE, f"{source.class_name} has no forward method.", main.lineno)


def imports(source: Source) -> Iterator[Refusal]:
    """Packages other than those that a kernel needs and those that the original imports."""
    for path, line in source.imported:
        root = path.partition(".")[0]
        if root and root not in IMPORTABLE and root not in source.available:
            yield Refusal(Rule.IMPORTS, f"It imports {path}.", line)
    for node in source.calls:
        if source.names.of(node.func) & {"builtins.__import__", "importlib.import_module"}:
            said = source.folder.said(node.args[0]) if node.args else None
            if said is None or said.partition(".")[0] not in IMPORTABLE | source.available:
                what = f"It imports {said}." if said else "It imports a module whose name is made at run time."
                yield Refusal(Rule.IMPORTS, what, node.lineno)


def uses(source: Source) -> Iterator[Refusal]:
    """Functions of others that no kernel needs."""
    for whole, node in source.used:
        path = _through(whole)
        parts = path.split("()")[0].split("[]")[0].split(".")
        if parts[0] not in IMPORTABLE | source.available and path != whole and parts[0] != "builtins":
            yield Refusal(Rule.IMPORTS, f"It uses {parts[0]} through another module.", node.lineno)
        known = next((_PREFIXES[p] for n in range(len(parts), 1, -1) if (p := ".".join(parts[:n])) in _PREFIXES), None)
        known = Rule.PATCHING if path.startswith(_HOOKS) else known
        shown = path.removeprefix("builtins.").split("()")[0]
        if known is not None:
            yield Refusal(known, f"It {known.does} ({shown}).", node.lineno)
        elif parts[0] in ("os", "shutil") and len(parts) > 1 and parts[1] not in _OS:
            yield Refusal(Rule.SYSTEM, f"It uses {shown}.", node.lineno)
        elif parts[0] == "pathlib" and path.rpartition(".")[2] in _PATH_METHODS:
            yield Refusal(Rule.FILES, f"It opens files ({path.rpartition('.')[2]}).", node.lineno)
    for call in source.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            yield Refusal(Rule.FILES, f"It opens files ({call.func.attr}).", call.lineno)
        for word in call.keywords:
            if word.arg == "num_workers" and not (isinstance(word.value, ast.Constant) and not word.value.value):
                yield Refusal(Rule.PROCESSES, "It starts processes that load data.", call.lineno)


def _through(path: str) -> str:
    """Return a path without the modules that another one is only reached through: `random._os.listdir`."""
    parts = path.split(".")
    for at in range(len(parts) - 1, 0, -1):
        if parts[at].lstrip("_") in _SYSTEMS and "()" not in path:
            return ".".join([parts[at].lstrip("_"), *parts[at + 1 :]])
    return path


def interpreter(source: Source) -> Iterator[Refusal]:
    """Attributes that lead to frames, code and the graph of gradients."""
    for node in source.names.nodes:
        name = ""
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.Call) and len(node.args) > 1 and "builtins.getattr" in source.names.of(node.func):
            name = source.folder.said(node.args[1]) or ""
        elif isinstance(node, ast.Name):
            name = node.id if node.id == "__builtins__" else ""
        if name in _GADGETS:
            yield Refusal(Rule.INTERPRETER, f"It uses {name}.", getattr(node, "lineno", None))


def patching(source: Source) -> Iterator[Refusal]:
    """Assigning to attributes of modules and classes of others, and new meanings for torch's operators."""
    for path, node, _ in source.stored:
        if ".__dict__[]" in path or path.startswith("sys.") or path in ("vars()[]", "builtins.vars()[]"):
            yield Refusal(Rule.PATCHING, f"It changes {path.removesuffix('[]')}.", node.lineno)
        elif "()" not in path and "[]" not in path and "." in path and not path.startswith(_SETTINGS):
            yield Refusal(Rule.PATCHING, f"It assigns to {path.removeprefix('builtins.')}.", node.lineno)
    for call in source.calls:
        for path in source.names.of(call.func):
            if path in ("torch.library.Library", "torch.library.impl", "torch.library.register_kernel") and call.args:
                said = source.folder.said(call.args[0]) or ""
                if said.partition("::")[0] in _TORCHS_OWN:
                    what = f"It gives torch's own operators another meaning ({said})."
                    yield Refusal(Rule.PATCHING, what, call.lineno)


def environment(source: Source) -> Iterator[Refusal]:
    """Variables that change what programs load or how everybody computes."""
    for said, line in source.environment:
        if said in _TF32:
            yield Refusal(Rule.PRECISION, f"It sets {said}.", line)
        elif said.startswith(_ENVIRONMENT):
            yield Refusal(Rule.PROCESSES, f"It sets {said}, which changes what programs load.", line)


def precision(source: Source) -> Iterator[Refusal]:
    """A precision of matrix products that is lowered for the whole process."""
    for path, node, value in source.stored:
        if not path.startswith("torch.backends.") or "()" in path:
            continue
        name = path.rpartition(".")[2]
        off = isinstance(value, ast.Constant) and not value.value
        if (name.startswith("allow_") and not off) or (
            name.endswith("precision") and (value is None or source.folder.said(value) != "ieee")
        ):
            yield Refusal(Rule.PRECISION, f"It sets {path}.", node.lineno)
    for call in source.calls:
        paths = source.names.of(call.func)
        given = [*call.args, *(word.value for word in call.keywords)]
        if "torch.set_float32_matmul_precision" in paths and not (given and source.folder.said(given[0]) == "highest"):
            yield Refusal(Rule.PRECISION, "It lowers the precision of matrix products.", call.lineno)


def libraries(source: Source) -> Iterator[Refusal]:
    """Libraries of the system by `ctypes`, in place of its own."""
    for call in source.calls:
        if not source.names.of(call.func) & _LIBRARIES:
            continue
        argument = next(iter([*call.args, *(word.value for word in call.keywords if word.arg == "name")]), None)
        said = source.folder.said(argument) if argument is not None else ""
        if argument is None or (isinstance(argument, ast.Constant) and not argument.value):
            yield Refusal(Rule.INTERPRETER, "It opens its own process as a library.", call.lineno)
        elif said and not said.rpartition("/")[2].startswith(_HARMLESS):
            yield Refusal(Rule.SYSTEM, f"It loads a library of the system ({said[:60]}).", call.lineno)


def original(source: Source) -> Iterator[Refusal]:
    """The original kept, derived from or imported, and called for the result."""
    wanted, main = source.reference_class, source.main
    if not wanted or main is None:
        return
    for path, line in source.imported:
        root, _, last = path.rpartition(".")
        if last == wanted and root.partition(".")[0] not in IMPORTABLE:
            yield Refusal(Rule.ORIGINAL, f"It imports {wanted}.", line)
    bases = source.copies & set(source.bases(main))
    forward = source.forward(main)
    if not source.builds and not source.jit_functions:
        # The original under another name is a plain candidate where it claims no kernel.
        return
    if forward is None:
        if bases:
            yield Refusal(Rule.ORIGINAL, f"It is the original ({wanted}) under another name.", main.lineno)
        return
    results = [node.value for node in ast.walk(forward) if isinstance(node, ast.Return)]
    # Leaving some cases to the original is how an honest one guards its kernel.
    if results and all(_is_original(source, main, value, bool(bases)) for value in results):
        yield Refusal(Rule.ORIGINAL, f"It leaves the work to the original ({wanted}).", forward.lineno)


def _is_original(source: Source, main: ast.ClassDef, value: ast.expr | None, derived: bool) -> bool:
    """Whether an expression calls the original: as a base, by its class, or by an attribute that holds one."""
    if not isinstance(value, ast.Call):
        return False
    called = ast.unparse(value.func).removesuffix(".forward").removesuffix(".__call__")
    names = {cls.name for cls in source.copies}
    kept = {
        ast.unparse(target)
        for node in ast.walk(main)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if ast.unparse(node.value.func) in names
    }
    return (called == "super()" and derived) or called.partition("(")[0] in names or called in kept


def notes(source: Source) -> Iterator[Note]:
    """What is honest at times, and worth knowing."""
    for path, line in source.imported:
        root = path.partition(".")[0]
        if root in _NOTED and root not in source.available:
            yield Note(f"It needs the package {root}, which the original does not.", line)
    for path, node in source.used:
        if path.removesuffix("()") in _NOTES:
            yield Note(_NOTES[path.removesuffix("()")], node.lineno)
    for path, node, _ in source.stored:
        if path.startswith(_SETTINGS) and "()" not in path:
            yield Note(f"It sets {path} for the whole process.", node.lineno)
    for said, line in source.environment:
        if said not in _BUILD:
            yield Note(f"It sets {said or 'a variable'} in the environment.", line)
    for call in source.calls:
        if isinstance(call.func, ast.Attribute) and _halves(source, call):
            yield Note("It computes in a lower precision than the original does.", call.lineno)
        off = any(word.arg == "enabled" and ast.unparse(word.value) == "False" for word in call.keywords)
        if not off and source.names.of(call.func) & _AUTOCAST:
            yield Note("It computes in a lower precision under autocast.", call.lineno)
    yield from _kept(source)
    yield from _ignored(source)


def _ignored(source: Source) -> Iterator[Note]:
    """Arguments that the original's `forward` looks at and the candidate's does not, as a flag that is built in."""
    theirs = source.reference.forward(source.reference.main) if source.reference and source.reference.main else None
    ours = source.forward(source.main) if source.main is not None else None
    if theirs is None or ours is None:
        return
    read, wanted = (
        {node.id for node in ast.walk(one) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for one in (ours, theirs)
    )
    if read & {"locals", "vars", "super"}:
        return
    places = [[*one.args.posonlyargs, *one.args.args][1:] for one in (ours, theirs)]
    pairs = list(zip(*places, strict=False))
    pairs += [(a, b) for a in ours.args.kwonlyargs for b in theirs.args.kwonlyargs if a.arg == b.arg]
    ignored = [a.arg for a, b in pairs if b.arg in wanted and a.arg not in read]
    if ignored:
        yield Note(f"Its forward never looks at {' and '.join(ignored)}, which the original's does.", ours.lineno)


def _halves(source: Source, call: ast.Call) -> bool:
    """Whether a call casts to 16 bits what the original leaves as it is."""
    assert isinstance(call.func, ast.Attribute)
    if any(word in source.reference_text for word in ("half", "float16", "autocast")):
        return False
    if call.func.attr in ("half", "bfloat16") and not call.args:
        return True
    given = [*call.args, *(word.value for word in call.keywords)]
    half = {"torch.float16", "torch.half", "torch.bfloat16"}
    return call.func.attr in ("to", "type") and any(source.names.of(one) & half for one in given)


def _kept(source: Source) -> Iterator[Note]:
    """What is watched, and what is kept by it."""
    keys = {
        node.targets[0].id
        for node in source.names.nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _of_shapes(node.value)
    }
    for node in source.names.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "_version":
            yield Note("It watches whether a tensor was written to (_version).", node.lineno)
        elif isinstance(node, ast.Compare):
            sides = [side.func for side in (node.left, *node.comparators) if isinstance(side, ast.Call)]
            if any(isinstance(side, ast.Attribute) and side.attr == "data_ptr" for side in sides):
                yield Note("It watches where a tensor lies (data_ptr).", node.lineno)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            known = node.slice.id in keys if isinstance(node.slice, ast.Name) else _of_shapes(node.slice)
            if known and _outlives(source, node.value):
                yield Note("It keeps something by the shape or type of a tensor.", node.lineno)


def _outlives(source: Source, node: ast.expr) -> bool:
    """Whether what is stored into is there after the call: an attribute, or a name of the module."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name)
    found = source.names.scopes[node].find(node.id) if isinstance(node, ast.Name) else None
    return found is not None and found[0] is source.names.top and source.names.scopes[node] is not source.names.top


def _of_shapes(key: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in _SHAPES for part in ast.walk(key))
