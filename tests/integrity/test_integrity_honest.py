"""Honest code is never refused: whatever looks like a cheat is a note at most."""

from __future__ import annotations

import pytest

from stark_lsp.integrity import read

from .honest_native import FINE
from .texts import HEAD, KERNEL, candidate, native

PYTHON = {
    "a rotary table kept by its shape": (
        "TABLES = {}",
        "key = (x.shape[-1], x.dtype, str(x.device))\nif key not in TABLES:\n    TABLES[key] = torch.arange(key[0])\nreturn x + TABLES[key]",
    ),
    "a rotary table on the module": (
        "",
        "if self.table is None or self.table.shape[0] < x.shape[1]:\n    self.table = torch.outer(torch.arange(x.shape[1]), self.freq)\nreturn x * self.table",
    ),
    "an integer launch configuration in a dict": (
        "CONFIG = {}",
        "n = x.numel()\nif n not in CONFIG:\n    CONFIG[n] = ((n + 255) // 256, 256)\nreturn x * CONFIG[n][0]",
    ),
    "a hash of shape and type": ("PLANS = {}", "key = hash((x.shape, x.dtype))\nPLANS.setdefault(key, 64)\nreturn x"),
    "a cached kernel": (
        "KERNELS = {}",
        "f = KERNELS.get(x.dtype)\nif f is None:\n    f = KERNELS[x.dtype] = torch.compile(torch.relu)\nreturn f(x)",
    ),
    "packed weights that watch _version": (
        "",
        "seen = (self.weight._version, self.weight.data_ptr())\nif self.seen != seen:\n    self.packed, self.seen = self.weight.t().contiguous(), seen\nreturn x @ self.packed",
    ),
    "kernel names by f-strings": (
        KERNEL + "SUFFIX = {torch.float32: 'f32'}",
        "return getattr(lib(), f'launch_{SUFFIX[x.dtype]}')(x)",
    ),
    "a delegating __getattr__": (
        "class Lazy:\n    def __getattr__(self, name):\n        return getattr(self.made(), name)",
        "return x",
    ),
    "prototypes assigned where it launches": (
        KERNEL + "READY = {}\ndef launch(x):\n    library = lib()\n    if 'k' not in READY:\n        library.k.argtypes = [ctypes.c_void_p]\n        library.k.restype = None\n        READY['k'] = library.k\n    READY['k'](x)",
        "launch(x.data_ptr())\nreturn x",
    ),
    "native text by f-strings and +": (
        "from torch.utils.cpp_extension import load_inline\nBLOCK = 256\nCODE = f'#include <torch/extension.h>\\n' + f'constexpr int N = {BLOCK};\\n' + 'at::Tensor run(at::Tensor x) {{ return x; }}'\nM = load_inline('made', [CODE], functions=['run'])",
        "return M.run(x)",
    ),
    "an error text that names a device file": ("", "if x.numel() > 1e12:\n    raise RuntimeError('see /dev/shm and /proc/meminfo')\nreturn x"),
    "a counter": ("", "self.calls += 1\nreturn x"),
    "the last input watched": ("", "if self.last is not x:\n    self.last = x\nreturn x + 1"),
    "a lock and thread locals": ("import _thread, threading\nONE = _thread.allocate_lock()\nLOCK = threading.Lock()\nLOCAL = threading.local()", "with LOCK:\n    return x"),
    "a stream": ("", "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    return x + 1"),
    "settings of torch": ("torch.backends.cudnn.benchmark = True\ntorch._inductor.config.max_autotune = True", "return x"),
    "more precision": ("torch.backends.cuda.matmul.allow_tf32 = False\ntorch.set_float32_matmul_precision('highest')", "return x"),
    "compilers chosen": ("import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'\nos.environ.setdefault('CXX', 'g++')", "return x"),
    "where things are": ("import os\nHERE = os.path.join(os.environ.get('CUDA_HOME', '/usr/local/cuda'), 'include')", "return x"),
    "what there is": ("import importlib.util\nimport sys\nHAS = importlib.util.find_spec('triton') is not None and sys.version_info > (3, 9)", "return x"),
    "an optional package": ("try:\n    import triton\nexcept ImportError:\n    triton = None", "return x"),
    "signatures": ("import inspect\nNAMES = inspect.signature(torch.add) if False else ()", "return x"),
    "names of one's own": ("time = 3\nclass Clock:\n    pass\nclock = Clock()\nclock.perf_counter = time", "return x"),
    "parameters named like modules": ("def add(torch, time):\n    torch.value = time.now = 1\n    return torch", "return x"),
    "words in texts": ("TEXT = 'exec(), sys._getframe and torch.cuda.Event = None are words; open(x)'", "return x"),
    "methods named like builtins": ("import re\nP = re.compile('a')\nmodel = nn.Linear(2, 2).eval()\nclass Box:\n    def open(self):\n        return 1\nBox().open()", "return x"),
    "an operator of one's own": ("OP = torch.library.custom_op('mine::add', mutates_args=()) if False else None", "return x"),
    "a library of operators of one's own": ("LIB = torch.library.Library('mine', 'DEF')\nLIB.define('f(Tensor x) -> Tensor')", "return x"),
    "settings by name": ("", "for name, value in {'a': 1}.items():\n    setattr(self, name, value)\nreturn x"),
    "an attribute by name": ("import torch.nn.functional as F", "return getattr(F, self.kind)(x)"),
    "a subclass of autograd's": ("class Fused(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.scale = 2\n        return x", "return Fused.apply(x)"),
    "no gradient needed": ("", "if torch.is_grad_enabled() and x.requires_grad:\n    return x + 1\nreturn x"),
    "an object freed at its end": ("import weakref\nclass Scratch:\n    def __init__(self, lib):\n        weakref.finalize(self, print)", "return x"),
    "a library of CUDA": ("import ctypes\nRT = ctypes.CDLL('libcudart.so.12')", "return x"),
    "traceback in a message": ("import traceback\ntry:\n    import triton\nexcept Exception:\n    TEXT = traceback.format_exc()", "return x"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "body"), PYTHON.values(), ids=PYTHON)
def test_honest_python_is_not_refused(before: str, body: str) -> None:
    assert read(candidate(before, body), "ModelNew").refusals == ()


NATIVE = {
    **FINE,
    "a scratch tensor": "#include <torch/extension.h>\nstatic at::Tensor scratch;\nat::Tensor run(at::Tensor x) { if (!scratch.defined() || scratch.numel() < x.numel()) scratch = at::empty_like(x); return x + scratch; }",
    "scratch of each thread": "#include <vector>\nstatic thread_local std::vector<float> scratch;\nextern \"C\" void run(long n) { scratch.resize(n); }",
    "scratch of a unique_ptr": "#include <memory>\nstatic std::unique_ptr<float[]> scratch;\nextern \"C\" void run(long n) { scratch.reset(new float[n]); }",
    "an index of work": "#include <atomic>\nextern \"C\" void run(long n) { static std::atomic<long> next{0}; next = 0; for (long i; (i = next.fetch_add(1)) < n;) {} }",
    "an error text that names a device file": 'extern "C" int run() { const char* text = "no /dev/nvidia0, see /proc/driver"; return text[0]; }',
    "words in comments and texts": '// system("x"); dlopen\n/* fork(); */ extern "C" const char* run() { return "call system() and fork()"; }',
    "threads that are joined": '#include <thread>\nextern "C" void run() { std::thread t([] {}); t.join(); }',
    "a tensor that is detached": "#include <torch/extension.h>\n#include <thread>\nat::Tensor run(at::Tensor x) { std::thread t([] {}); t.join(); return x.detach(); }",
    "functions of one's own": 'static float signal(float x) { return x; }\nstatic int open(int a) { return a; }\nextern "C" float run() { return signal(1) + open(2); }',
    "lambdas of one's own": 'extern "C" int run() { auto connect = [](int a) { return a; }; return connect(1); }',
    "variables of one's own": '#include <vector>\nextern "C" long run(long n) { std::vector<std::pair<long, int>> open(n); return open.size(); }',
    "names in namespaces": "namespace n { int clock_gettime(int, void*) { return 0; } int kill(int a) { return a; } }\nint run() { return n::kill(1); }",
    "methods of one's own": 'struct Kernel { static int exec(int a) { return a; } };\nextern "C" int run() { return Kernel::exec(1); }',
    "a launcher's name": 'extern "C" int cudaLaunchSoftmax(int a) { return a; }\nextern "C" int run() { return cudaLaunchSoftmax(1); }',
    "streams of CUDA": "#include <c10/cuda/CUDAStream.h>\nvoid run() { auto s = at::cuda::getStreamFromPool(); }",
    "assembler of PTX": r'__device__ void run(float* x) { asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(x[0]) : "l"(x)); }',
}  # fmt: skip


@pytest.mark.parametrize("code", NATIVE.values(), ids=NATIVE)
def test_honest_cpp_is_not_refused(code: str) -> None:
    # What defines only parts of a kernel may leave them unused.
    refusals = [one for one in read(native(code), "ModelNew").refusals if one.rule.name != "UNUSED"]
    assert refusals == []


@pytest.mark.parametrize(
    ("before", "body", "words"),
    [
        ("KEPT = {}", "KEPT[x.shape] = 1\nreturn x", "shape or type"),
        ("", "if self.weight._version != self.seen:\n    pass\nreturn x", "_version"),
        ("", "if self.at == x.data_ptr():\n    pass\nreturn x", "data_ptr"),
        ("import numpy", "return x", "package numpy"),
        ("", "return x.half().float()", "lower precision"),
        ("torch.backends.cudnn.benchmark = True", "return x", "for the whole process"),
        ("import os\nos.environ['MINE'] = '1'", "return x", "environment"),
        ("S = torch.cuda.Stream()", "return x", "stream of its own"),
        ("import time\nT = time.perf_counter()", "return x", "clock"),
        (
            "from torch.utils.cpp_extension import load_inline\nM = load_inline('a', make())",
            "return M.f(x)",
            "only known at run time",
        ),
        (
            "from torch.utils.cpp_extension import load_inline\nM = load_inline('a', 'int CALL;'.replace('CALL', make()))",
            "return M.f(x)",
            "A part of its kernel's source",
        ),
        (
            "from torch.utils.cpp_extension import load_inline\nM = load_inline('a', f'#include <cmath>{make()}')",
            "return M.f(x)",
            "A part of its kernel's source",
        ),
        (
            "from torch.utils.cpp_extension import load_inline\ntry:\n    M = load_inline('a', 'int a;')\nexcept Exception:\n    M = None",
            "return M.f(x)",
            "goes on without it",
        ),
    ],
)
def test_what_is_unusual_is_a_note_at_its_line(before: str, body: str, words: str) -> None:
    reading = read(candidate(before, body), "ModelNew")
    assert reading.refusals == ()
    assert [words in note.reason for note in reading.notes].count(True) == 1
    assert all(note.line and note.message.startswith(f"Line {note.line}: ") for note in reading.notes)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("static int n; int run() { return n++; }", "between calls"),
        ("thread_local float scratch[8]; float run() { return scratch[0]; }", "between calls"),
        ("static const int n = 3; static int two() { return 2; } int run() { return n; }", ""),
        ("void run() { cudaStream_t s; cudaStreamCreate(&s); }", "stream of its own"),
        ("void run() { std::thread t([] {}); t.join(); }", "threads of its own"),
        ("void run(float* x) { __half h = __float2half(x[0]); }", "lower precision"),
        ("void run(at::Tensor x) { if (x.scalar_type() == at::kHalf) return; }", ""),
    ],
)
def test_what_is_unusual_in_cpp_is_a_note(code: str, words: str) -> None:
    reading = read(native(code), "ModelNew")
    assert reading.refusals == ()
    assert len(reading.notes) == bool(words)
    assert all(words in note.reason for note in reading.notes)


def test_what_the_original_does_is_no_note_either() -> None:
    does = "S = torch.cuda.Stream()\nH = torch.ones(1).half()"
    assert len(read(candidate(does), "ModelNew", HEAD).notes) == 2
    assert read(candidate(does), "ModelNew", HEAD + does).notes == ()


@pytest.mark.parametrize(
    ("forward", "ignored"),
    [
        ("self, x, causal=True, *, mask=None):\n        return x.tril() if causal else x", "mask"),
        ("self, y, flag=True, *, mask=None):\n        return y.tril()", "flag and mask"),  # by place, not by name
        ("self, x, causal=True, *, mask=None):\n        return plain(**locals())", ""),
        ("self, x, causal=True, *, mask=None):\n        return x * mask if causal else x", ""),
        ("self, *given, **named):\n        return plain(*given, **named)", ""),
    ],
)
def test_arguments_that_only_the_original_looks_at_are_a_note(forward: str, ignored: str) -> None:
    head = "import torch\n\n\nclass {}(torch.nn.Module):\n    def forward({}\n"
    whole = "self, x, causal=True, *, mask=None):\n        x = x.tril() if causal else x\n        return x * mask"
    notes = read(head.format("ModelNew", forward), "ModelNew", head.format("Model", whole), "Model").notes
    told = [f"Its forward never looks at {ignored}, which the original's does."] if ignored else []
    assert [note.reason for note in notes] == told


def test_a_lower_precision_is_no_note_where_the_original_is_called_in_one() -> None:
    text = candidate("", "return x.half().float()")
    assert [note.message for note in read(text, "ModelNew").notes]
    assert not read(text, "ModelNew", lower=True).notes


@pytest.mark.parametrize(("last", "noted"), [("lock.release()", False), ("return None", True)])
def test_a_lock_around_a_build_goes_on_without_nothing(last: str, noted: bool) -> None:
    before = "from torch.utils.cpp_extension import load_inline\nimport threading\nlock = threading.Lock()\n"
    before += f"def build():\n    try:\n        return load_inline('a', 'int a;')\n    finally:\n        {last}\n"
    reading = read(candidate(before, "return build().f(x)"), "ModelNew")
    assert any("goes on without it" in note.reason for note in reading.notes) is noted
