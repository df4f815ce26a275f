"""What the static check refuses, and what it must leave alone."""

from __future__ import annotations

import pytest

from stark_lsp.judge.integrity import CHECKS, check, check_native, flags, kernels

FORWARD = "    def forward(self, x):\n        return x\n"
HEAD = "import torch\nimport torch.nn as nn\n"
CLASS = f"class ModelNew(nn.Module):\n{FORWARD}"


def candidate(before: str = "", body: str = "return x", init: str = "") -> str:
    """Return a candidate with statements before its class, in its constructor and in its forward."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    made = "".join(f"        {line}\n" for line in init.splitlines())
    start = f"    def __init__(self):\n        super().__init__()\n{made}" if init else ""
    return f"{HEAD}{before}\n\n\nclass ModelNew(nn.Module):\n{start}    def forward(self, x):\n{lines}"


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn as nn\nclass ModelNew(nn.Module):\n" + FORWARD,
        "from torch.nn import Module\nclass Base(Module):\n" + FORWARD + "class ModelNew(Base):\n    pass\n",
        "import torch.nn as nn\nif True:\n    class ModelNew(nn.Module):\n    " + FORWARD.replace("\n", "\n    "),
        "import torch.nn as nn\nclass ModelNew(nn.Linear):\n    '''pass, exec, torch.cuda.Event'''\n",
        "import torch.nn as nn\ndef f(self, x):\n    return x\nclass ModelNew(nn.Module):\n    forward = f\n",
    ],
)
def test_honest_sources_pass(source: str) -> None:
    assert check(source, "ModelNew") is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch\n", "no class ModelNew"),
        ("from elsewhere import ModelNew\n", "no class ModelNew"),
        ("def make():\n    class ModelNew:\n        pass\n", "no class ModelNew"),
        ("import torch.nn as nn\nclass ModelNew(nn.Module):\n    pass\n", "no forward"),
    ],
)
def test_sources_without_the_class_or_its_forward_are_refused(source: str, words: str) -> None:
    refusal = check(source, "ModelNew")
    assert refusal is not None
    assert words in refusal.reason


def test_a_source_that_does_not_parse_is_left_to_loading() -> None:
    assert check("def (", "ModelNew") is None
    assert flags("def (", "ModelNew") == ()
    assert kernels("def (") == ((), ())


@pytest.mark.parametrize(
    "before",
    [
        "t = torch.cuda\nt.Event = None",
        "getattr(torch, 'cuda').Event = None",
        "setattr(torch.cuda, 'Event', None)",
        "setattr(getattr(torch, 'cu' + 'da'), 'E' 'vent', None)",
        "globals()['torch'].cuda.Event = None",
        "vars(torch)['cuda'].Event = None",
        "torch.__dict__['cuda'].Event = None",
        "(c := torch.cuda).Event = None",
        "from torch import cuda as c\nc.Event = None",
        "import torch.cuda as c\nc.Event, x = None, 1",
        "for m in (torch.cuda, torch.nn):\n    m.Event = None",
        "for m in [torch.cuda]:\n    setattr(m, 'Event', None)",
        "def patch(module):\n    module.Event = None\npatch(torch.cuda)",
        "def give():\n    return torch.cuda\ngive().Event = None",
        "(lambda m: setattr(m, 'Event', None))(torch.cuda)",
        "box = {'c': torch.cuda}\nbox['c'].Event = None",
        "class Box:\n    c = torch.cuda\nBox.c.Event = None",
        "import operator\noperator.attrgetter('cuda')(torch).Event = None",
        "del torch.cuda.Event",
        "torch.cuda.Event.elapsed_time = lambda self, other: 0.0",
        "import contextlib\nwith contextlib.nullcontext(torch.cuda) as c:\n    c.Event = None",
    ],
)
def test_a_patch_is_seen_through_aliases(before: str) -> None:
    refusal = check(candidate(before), "ModelNew")
    assert refusal is not None, before
    assert refusal.line is not None
    assert refusal.line >= 3


@pytest.mark.parametrize(
    "before",
    [
        "torch.backends.cudnn.benchmark = True",
        "torch.backends.cuda.matmul.allow_tf32 = False",
        "torch.set_float32_matmul_precision('highest')",
        "torch._inductor.config.max_autotune = True",
        "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'\nos.environ['CXX'] = 'g++'",
        "import os\nos.environ.setdefault('CUDA_HOME', os.path.join('/usr', 'local', 'cuda'))",
        "import inspect\nnames = inspect.signature(torch.add) if False else ()",
        "import sys\nNEW = sys.version_info >= (3, 10)",
        "try:\n    import triton\nexcept ImportError:\n    triton = None",
        "import warnings\nwarnings.filterwarnings('ignore')",
        "import gc\ngc.collect()",
        "import importlib.util\nHAS = importlib.util.find_spec('triton') is not None",
        "import functools\nrun = functools.partial(torch.add, alpha=2)",
        "time = 3\n\nclass Clock:\n    pass\n\nclock = Clock()\nclock.perf_counter_of = time",
        "def add(torch_like, cuda):\n    cuda.value = 1\n    return torch_like",
        "TEXT = 'sys.modules, exec(), __globals__ and torch.cuda.Event = None are words here'",
        "step = torch.compile(lambda x: x + 1)",
        "import re\nPATTERN = re.compile('a+')\nmodel = nn.Linear(2, 2).eval()",
        "from dataclasses import dataclass\n\n@dataclass\nclass Shape:\n    rows: int = 0",
        "custom = torch.library.custom_op('mine::add', lambda x: x, mutates_args=()) if False else None",
    ],
)
def test_settings_probes_and_words_are_left_alone(before: str) -> None:
    assert check(candidate(before), "ModelNew") is None
    assert flags(candidate(before), "ModelNew") == ()


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("self.mask = None", "if self.mask is None:\n    self.mask = torch.ones(3)\nreturn x * self.mask"),
        ("self.register_buffer('count', torch.zeros(1))", "self.count.add_(1)\nreturn x"),
        ("self.p = nn.Parameter(torch.zeros(3))", "return self.p"),
        ("self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)", "return self.b(self.a(x))"),
        (
            "self.kernels = {}",
            "f = self.kernels.get(x.dtype)\nif f is None:\n    f = self.kernels[x.dtype] = torch.compile(torch.relu)\nreturn f(x)",
        ),
        ("self.table = nn.Parameter(torch.zeros(9, 2))", "return self.table[x]"),
        ("", "y = x.data_ptr() % 16 == 0\nreturn x if y else x.clone()"),
        ("self.scratch = torch.empty(8)", "torch.relu(x, out=self.scratch) if False else None\nreturn x + 1"),
        ("self.sizes = []", "out = []\nfor i in range(3):\n    out.append(x * i)\nreturn torch.stack(out)"),
    ],
)
def test_honest_state_is_left_alone(init: str, body: str) -> None:
    assert check(candidate(init=init, body=body), "ModelNew") is None


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("self.c = {}", "k = x.data_ptr()\nif k in self.c:\n    return self.c[k]\nself.c[k] = y = x + 1\nreturn y"),
        ("self.c = {}", "return self.c.setdefault((x.data_ptr(), x._version), x + 1)"),
        ("self.c = {}", "self.c[f'{x.data_ptr()}'] = x + 1\nreturn x + 1"),
        (
            "self.p = 0",
            "if self.p == x.data_ptr():\n    return self.y\nself.p = x.data_ptr()\nself.y = x + 1\nreturn self.y",
        ),
        (
            "import weakref\nself.c = weakref.WeakKeyDictionary()",
            "if x not in self.c:\n    self.c[x] = x + 1\nreturn self.c[x]",
        ),
        ("self.x = None", "if self.x is x:\n    return self.y\nself.x, self.y = x, x + 1\nreturn self.y"),
        ("self.n = 0", "self.n = self.n + 1\nreturn x + 1 if self.n < 9 else x"),
        ("self.n = [0]", "self.n[0] += 1\nif self.n[0] % 2:\n    return x\nreturn x + 1"),
        ("self.out = torch.empty(4)", "torch.add(x, 1, out=self.out)\nreturn self.out.view(2, 2)"),
        ("self.y = None", "self.y = y = x + 1\nreturn y if x.sum() else self.y"),
        ("", "ModelNew.n = getattr(ModelNew, 'n', 0) + 1\nreturn x if ModelNew.n > 9 else x + 1"),
        ("", "if not hasattr(type(self), 'y'):\n    type(self).y = x + 1\nreturn type(self).y"),
    ],
)
def test_answers_from_memory_are_refused(init: str, body: str) -> None:
    refusal = check(candidate(init=init, body=body), "ModelNew")
    assert refusal is not None
    assert refusal.line is not None


REFERENCE = (
    HEAD
    + "import torch.nn.functional as F\n\nclass Model(nn.Module):\n    def forward(self, x):\n        h = F.relu(x)\n        return h * 2\n"
)
KERNEL = (
    "import ctypes\nfrom torch.utils.cpp_extension import load_inline\n"
    "CODE = 'extern \"C\" void k(float* x) { x[0] = 1; }'\n"
    "def lib():\n    return ctypes.CDLL(load_inline('k', CODE, is_python_module=False))\n"
)


def with_kernel(classes: str) -> str:
    return HEAD + KERNEL + classes


COPY = "class Old(nn.Module):\n    def forward(self, value):\n        '''As before.'''\n        out: torch.Tensor = torch.nn.functional.relu(value)\n        return out * 2\n"


@pytest.mark.parametrize(
    ("classes", "refused"),
    [
        (COPY + "class ModelNew(Old):\n    def warm(self):\n        lib().k()\n", True),
        (COPY + "class ModelNew(Old):\n    def forward(self, x):\n        lib().k(x)\n        return super().forward(x)\n", True),
        (
            COPY + "class ModelNew(Old):\n    def forward(self, x):\n        if not x.is_cuda:\n            return super().forward(x)\n"
            "        return lib().k(x)\n",
            False,
        ),
        (COPY + "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.o = Old()\n"
         "    def forward(self, x):\n        return self.o(x) if x.numel() else lib().k(x)\n", True),
        (COPY.replace("* 2", "* 3") + "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
         "        self.o = Old()\n    def forward(self, x):\n        return lib().k(self.o(x))\n", False),
        (COPY.replace("Old", "ModelNew"), True),
    ],
)  # fmt: skip
def test_the_original_in_disguise_is_refused_where_kernels_are_claimed(classes: str, refused: bool) -> None:
    assert (check(with_kernel(classes), "ModelNew", REFERENCE) is not None) is refused


def test_the_original_renamed_is_a_plain_candidate() -> None:
    assert check(REFERENCE.replace("Model(", "ModelNew("), "ModelNew", REFERENCE) is None
    assert check(HEAD + COPY + "class ModelNew(Old):\n    pass\n", "ModelNew", REFERENCE) is None


def test_what_the_original_does_itself_is_not_held_against_a_candidate() -> None:
    with_file = "W = torch.load('weights.pt')\ntorch.backends.cuda.matmul.allow_tf32 = True\n"
    reference = REFERENCE + with_file
    assert check(HEAD + with_file + CLASS, "ModelNew", reference) is None
    assert check(HEAD + with_file + CLASS, "ModelNew", REFERENCE) is not None


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("static inline float signal(float x) { return x; }\nfloat f(float x) { return signal(x); }", False),
        ("struct Reader { float read(int i) const { return i; } };\nfloat f(Reader r) { return r.read(1); }", False),
        ("__global__ void k(float* x) { asm volatile(\"ld.global.nc.f32 %0, [%1];\" : \"=f\"(x[0]) : \"l\"(x)); }", False),
        ("#define system nothing\nvoid nothing(const char*) {}\nvoid f() { system(\"x\"); }", False),
        ("// system(\"x\"); dlopen\n/* fork() */ const char* t = \"call system() and fork()\";", False),
        ("void f() { ::system(\"x\"); }", True),
        ("void f() { sys\\\ntem(\"x\"); }", True),
        ("#define A(x, y) x##y\nvoid f() { A(sys, tem)(\"x\"); }", True),
        ("#define B A\n#define A system\nvoid f() { B(\"x\"); }", True),
        ("%:include \"/etc/passwd\"", True),
        ("#  include   <sys/mman.h>", True),
        ("#include <torch/extension.h>\n#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n#include <vector>", False),
        ("#include \"mine.h\"", True),
        ("extern \"C\" { int clock_gettime(int, void*) { return 0; } }", True),
        ("namespace n { int clock_gettime(int, void*) { return 0; } }", False),
        ("extern \"C\" int cuda_add(int a) { return a; }", False),
        ("extern \"C\" int cudaLaunchKernel(int a) { return a; }", True),
        ("[[gnu::constructor]] void f() {}", True),
        ("asm(\".globl x\");", True),
        ("void f() { std::thread t([] {}); }", True),
        ("void f() { py::exec(\"1\"); }", True),
        ("static int n; void f() { if (n++ > 3) return; }", True),
        ("static bool done; void f() { if (!done) { done = true; } }", False),
        ("__device__ unsigned count; __global__ void k() { if (atomicInc(&count, 3) == 3) count = 0; }", False),
        ("const char* where = R\"(/proc/self/mem)\";", True),
        ("#embed \"/etc/passwd\"", True),
    ],
)  # fmt: skip
def test_a_source_is_read_as_a_compiler_reads_it(code: str, refused: bool) -> None:
    found = check_native(code)
    assert (found is not None) is refused, found
    if found is not None:
        assert found.line is not None
        assert 1 <= found.line <= code.count("\n") + 1


def test_a_refusal_in_a_kernel_names_the_line_of_the_file() -> None:
    source = HEAD + 'CODE = r"""\nint a;\nvoid f() {\n    fork();\n}\n"""\n' + CLASS
    refusal = check(source, "ModelNew")
    assert refusal is not None
    assert source.splitlines()[refusal.line - 1].strip() == "fork();"  # type: ignore[operator]


def test_notes_name_what_is_unusual_and_do_not_refuse() -> None:
    source = candidate("import einops\nimport os\nos.makedirs('build', exist_ok=True)", "return x.half().float()")
    assert check(source, "ModelNew", REFERENCE) is None
    reasons = " ".join(flag.reason for flag in flags(source, "ModelNew", REFERENCE))
    assert "einops" in reasons
    assert "folder" in reasons
    assert "lower precision" in reasons


def test_kernels_are_named_in_their_dialects() -> None:
    triton = "import triton\nimport triton.language as tl\n@triton.autotune([], key=[])\n@triton.jit\ndef add(x):\n    pass\n"
    assert kernels(triton) == (("triton",), ("add",))
    assert kernels(HEAD + KERNEL) == (("raw",), ("k",))
    inline = "from torch.utils.cpp_extension import load_inline as build\nM = build('m', 'float f(float x) { return x; }', functions=['f'])\n"
    assert kernels(inline) == (("inline",), ("f",))
    assert kernels(HEAD + CLASS) == ((), ())


def test_what_is_too_tangled_is_refused_rather_than_passed() -> None:
    bomb = "\n".join(f"#define A{i + 1} " + f"A{i} " * 9 for i in range(12))
    refusal = check(candidate(f'CODE = r"""\n#define A0 x\n{bomb}\nint x[] = {{A12}};\n"""'), "ModelNew")
    assert refusal is not None
    deep = check(candidate("x = " + "-" * 3000 + "1"), "ModelNew")
    assert deep is None or "tangled" in deep.reason


def test_every_check_has_a_name_of_its_own() -> None:
    assert len(CHECKS) == len(set(CHECKS.values()))
