"""What the static check refuses: one example for each kind of fact, with its line, its reason and its cure."""

from __future__ import annotations

import pytest

from stark_lsp.integrity import Rule, read

from .texts import HEAD, KERNEL, candidate, native

ORIGINAL = HEAD + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x) * 2\n"

REFUSED = {
    "a process": (Rule.SYSTEM, "import os\nos.system('id')"),
    "a process through another module": (Rule.IMPORTS, "import torch.utils.cpp_extension as c\nc.subprocess.run(['id'])"),
    "a process by an alias": (Rule.SYSTEM, "from os import popen as p\nprint(p)"),
    "a process by getattr": (Rule.SYSTEM, "import os\ngetattr(os, 'system')('id')"),
    "a package of processes": (Rule.IMPORTS, "import subprocess"),
    "a package that the original does not need": (Rule.IMPORTS, "import pandas as pd"),
    "an import by text": (Rule.IMPORTS, "__import__('subprocess')"),
    "an import by text made at run time": (Rule.IMPORTS, "import importlib\nimportlib.import_module('sub' + str(torch))"),
    "a thread": (Rule.PROCESSES, "import threading\nthreading.Thread(target=print).start()"),
    "a bare thread": (Rule.PROCESSES, "import _thread\n_thread.start_new_thread(print, ())"),
    "workers of a loader": (Rule.PROCESSES, "from torch.utils.data import DataLoader\nDataLoader([1], num_workers=2)"),
    "what programs load": (Rule.PROCESSES, "import os\nos.environ['LD_PRELOAD'] = 'x.so'"),
    "a file": (Rule.FILES, "open('x').read()"),
    "a file by pathlib": (Rule.FILES, "import pathlib\npathlib.Path('x').unlink()"),
    "a file of tensors": (Rule.FILES, "torch.load('x')"),
    "a build from files": (Rule.FILES, "from torch.utils.cpp_extension import load\nload('a', sources=['x.cu'])"),
    "the network": (Rule.IMPORTS, "import socket"),
    "the network through torch": (Rule.NETWORK, "torch.hub.load('a', 'b')"),
    "exec": (Rule.TEXT, "exec('1')"),
    "eval as a value": (Rule.TEXT, "list(map(eval, ['1']))"),
    "compile": (Rule.TEXT, "compile('1', 'x', 'eval')"),
    "torch patched": (Rule.PATCHING, "torch.cuda.Event = None"),
    "torch patched by an alias": (Rule.PATCHING, "t = torch.cuda\nt.Event = None"),
    "torch patched by setattr": (Rule.PATCHING, "setattr(torch.cuda, 'Ev' + 'ent', None)"),
    "torch patched by its names": (Rule.PATCHING, "torch.cuda.__dict__['Event'] = None"),
    "a timer patched": (Rule.PATCHING, "import time\ntime.perf_counter = lambda: 0.0"),
    "a builtin patched": (Rule.PATCHING, "import builtins\nbuiltins.len = None"),
    "a method taken away": (Rule.PATCHING, "del torch.Tensor.backward"),
    "a hook on all modules": (Rule.PATCHING, "torch.nn.modules.module.register_module_forward_hook(print)"),
    "torch's operators": (Rule.PATCHING, "lib = torch.library.Library('aten', 'IMPL')"),
    "TF32": (Rule.PRECISION, "torch.backends.cuda.matmul.allow_tf32 = True"),
    "TF32 by setattr": (Rule.PRECISION, "setattr(torch.backends.cudnn, 'allow_tf32', True)"),
    "TF32 by the environment": (Rule.PRECISION, "import os\nos.environ['NVIDIA_TF32_OVERRIDE'] = '1'"),
    "precision of products": (Rule.PRECISION, "torch.set_float32_matmul_precision('high')"),
    "the default type": (Rule.PRECISION, "torch.set_default_dtype(torch.float16)"),
    "determinism": (Rule.PRECISION, "torch.use_deterministic_algorithms(False)"),
    "a frame": (Rule.INTERPRETER, "import sys\nsys._getframe(1)"),
    "a frame by its attribute": (Rule.INTERPRETER, "def g(e):\n    return e.tb_frame"),
    "a frame by getattr": (Rule.INTERPRETER, "def g(e):\n    return getattr(e, 'f_' 'back')"),
    "callers": (Rule.INTERPRETER, "import inspect\ninspect.stack()"),
    "objects of the process": (Rule.INTERPRETER, "import gc\ngc.get_objects()"),
    "the graph of gradients": (Rule.INTERPRETER, "def g(x):\n    return x.grad_fn"),
    "Python by ctypes": (Rule.INTERPRETER, "import ctypes\nctypes.pythonapi.PyRun_SimpleString(b'1')"),
    "the process as a library": (Rule.INTERPRETER, "import ctypes\nctypes.CDLL(None)"),
    "a library of the system": (Rule.SYSTEM, "import ctypes\nctypes.CDLL('libc.so.6')"),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "before"), REFUSED.values(), ids=REFUSED)
def test_a_fact_is_refused_with_line_reason_and_cure(rule: Rule, before: str) -> None:
    text = candidate(before)
    refusal = read(text, "ModelNew").refusal
    assert refusal is not None
    assert refusal.rule is rule, refusal
    assert refusal.reason.endswith(".")
    assert refusal.message == f"{refusal.reason} {rule.cure}"
    assert refusal.line is not None
    assert 3 <= refusal.line <= 2 + len(before.splitlines())


NATIVE = {
    "a process": (Rule.PROCESSES, 'void f() { system("id"); }'),
    "a process of std": (Rule.PROCESSES, 'void f() { std::system("id"); }'),
    "a process as a value": (Rule.PROCESSES, "void f() { auto g = &::fork; g(); }"),
    "a process by a macro": (Rule.PROCESSES, '#define RUN(x) popen(x, "r")\nvoid f() { RUN("id"); }'),
    "a process behind another name": (Rule.PROCESSES, '#define RUN system\nvoid f() { RUN("id"); }'),
    "a thread left behind": (Rule.PROCESSES, "void f() { std::thread([] {}).detach(); }"),
    "a file": (Rule.FILES, 'void f() { fopen("x", "r"); }'),
    "a file that is compared": (Rule.FILES, 'int f(int vector, int b) { return vector < b > open("x", 0); }'),
    "a stream of a file": (Rule.FILES, 'void f() { std::ifstream in("x"); }'),
    "a header of files": (Rule.SYSTEM, "#include <fstream>\nvoid f() {}"),
    "an absolute path": (Rule.FILES, '#include "/etc/passwd"\nvoid f() {}'),
    "an embedded file": (Rule.FILES, 'const char t[] = {\n#embed "x"\n};'),
    "a header that a macro names": (Rule.FILES, "#define H <x>\n#include H\nvoid f() {}"),
    "the network": (Rule.NETWORK, "void f() { socket(2, 1, 0); }"),
    "a header of the network": (Rule.SYSTEM, "#include <sys/socket.h>\nvoid f() {}"),
    "another library": (Rule.SYSTEM, 'void f() { dlopen("x", 1); }'),
    "another library through torch": (Rule.SYSTEM, 'void f() { at::DynamicLibrary l("x"); }'),
    "the system by assembler": (Rule.SYSTEM, 'void f() { asm volatile("mov $1, %rax; syscall"); }'),
    "instructions as data": (Rule.SYSTEM, 'void f() { asm volatile(".byte 0x0f, 0x05"); }'),
    "text run as Python": (Rule.TEXT, 'namespace q = pybind11;\nvoid f() { q::exec("1"); }'),
    "a module of the system": (Rule.IMPORTS, 'void f() { py::module_::import("subprocess"); }'),
    "Python's frames": (Rule.INTERPRETER, "void f() { PyEval_GetFrame(); }"),
    "torch's operators": (Rule.PATCHING, "TORCH_LIBRARY_IMPL(aten, CPU, m) { }"),
    "the clock": (Rule.PATCHING, 'extern "C" int clock_gettime(int, void*) { return 0; }'),
    "TF32": (Rule.PRECISION, "void f() { at::globalContext().setAllowTF32CuBLAS(true); }"),
}


@pytest.mark.parametrize(("rule", "code"), NATIVE.values(), ids=NATIVE)
def test_a_fact_in_cpp_is_refused_at_its_line_of_the_file(rule: Rule, code: str) -> None:
    text = native(code)
    refusal = read(text, "ModelNew").refusal
    assert refusal is not None
    assert refusal.rule is rule, refusal
    assert refusal.line is not None
    first = text.splitlines().index('CODE = r"""') + 2
    assert first <= refusal.line <= first + code.count("\n")


@pytest.mark.parametrize(
    "option", ["-fplugin=x.so", "@options", "-include x", "-ccbin=x", "-Wl,--wrap=clock_gettime", "-B/tmp", "-specs=x"]
)
def test_an_option_that_does_more_than_compile_is_refused(option: str) -> None:
    text = candidate(f"from torch.utils.cpp_extension import load_inline\nFLAGS = ['-O3', {option!r}]\nload_inline('a', 'int a;', extra_cflags=FLAGS)")  # fmt: skip
    refusal = read(text, "ModelNew").refusal
    assert refusal is not None
    assert refusal.rule is Rule.COMPILER
    assert option in refusal.reason


@pytest.mark.parametrize(
    ("classes", "refused"),
    [
        ("class ModelNew(Model):\n    def warm(self):\n        lib().k()\n", True),
        ("class ModelNew(Model):\n    def forward(self, x):\n        lib().k(x)\n        return super().forward(x)\n", True),
        ("class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.o = Model()\n    def forward(self, x):\n        lib().k(x)\n        return self.o(x)\n", True),
        ("class ModelNew(Model):\n    def forward(self, x):\n        if not x.is_cuda:\n            return super().forward(x)\n        return lib().k(x)\n", False),
        ("class ModelNew(Model):\n    def forward(self, x):\n        if x.is_cuda:\n            return lib().k(x)\n        return super().forward(x)\n", False),
        ("class ModelNew(Model):\n    def forward(self, x):\n        return lib().k(x)\n", False),
    ],
)  # fmt: skip
def test_the_original_in_the_place_of_a_kernel_is_refused(classes: str, refused: bool) -> None:
    copy = ORIGINAL.removeprefix(HEAD)
    for name in ("Model", "Renamed"):
        text = (HEAD + KERNEL + copy + classes).replace("Model(", f"{name}(").replace("(Model)", f"({name})")
        refusal = read(text, "ModelNew", ORIGINAL).refusal
        assert (refusal is not None) is refused
        assert refusal is None or refusal.rule is Rule.ORIGINAL


def test_importing_the_original_is_refused() -> None:
    refusals = read(candidate("from project.layers import Model"), "ModelNew", ORIGINAL).refusals
    assert {Rule.IMPORTS, Rule.ORIGINAL} == {one.rule for one in refusals}


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("import triton\n@triton.jit\ndef k(x):\n    pass", "return x"),
        (KERNEL, "return x"),
        (KERNEL.replace('extern "C" void k', "__global__ void k"), "return lib().other(x)"),
    ],
)
def test_a_kernel_that_nothing_launches_is_refused(before: str, body: str) -> None:
    refusal = read(candidate(before, body), "ModelNew").refusal
    assert refusal is not None
    assert refusal.rule is Rule.UNUSED


def test_a_triton_function_beside_one_that_is_launched_may_be_left() -> None:
    before = "import triton\n@triton.jit\ndef k(x):\n    pass\n@triton.jit\ndef left(x):\n    pass"
    assert read(candidate(before, "k[(1,)](x)\n        return x"), "ModelNew").refusal is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import torch\n", "no class ModelNew"),
        ("from torch import ModelNew\n", "no class ModelNew"),
        ("def make():\n    class ModelNew:\n        pass\n", "no class ModelNew"),
        ("import torch.nn as nn\nclass ModelNew(nn.Module):\n    pass\n", "no forward"),
        ("#" * 2_000_001, "too long"),
    ],
)
def test_what_is_no_candidate_is_refused(text: str, words: str) -> None:
    refusal = read(text, "ModelNew").refusal
    assert refusal is not None
    assert words in refusal.reason


def test_what_the_original_does_itself_is_not_held_against_a_candidate() -> None:
    does = "import pandas\nW = torch.load('weights.pt')\ntorch.backends.cuda.matmul.allow_tf32 = True"
    assert len(read(candidate(does), "ModelNew", ORIGINAL).refusals) == 3
    reading = read(candidate(does), "ModelNew", does.replace("import", "import torch\nimport", 1) + "\n")
    assert reading.refusals == ()
    assert reading.notes == ()


def test_what_the_original_imports_from_its_own_package_may_be_named_whole() -> None:
    original = ORIGINAL.replace("class Model", "from .base import Middle\n\n\nclass Model", 1)
    for line, refused in (
        ("from mylib.sub.base import Middle", False),
        ("from .base import Middle", False),
        ("from mylib.sub.base import Other", True),
        ("from subprocess import run", True),
    ):
        found = read(candidate(line), "ModelNew", original)
        assert [one.rule for one in found.refusals] == ([Rule.IMPORTS] if refused else []), line
