"""Candidates that break in every way, and a problem to judge them on.

Most of the harm is done in C, so that it is the process, not Python, that has to be dealt with. What the static check
refuses would never run; these are written so that it does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, InputSource
from stark_lsp.core.status import VerdictStatus as Status

RUN_S = 3.0
BUILD_S = 15.0
MEMORY_BYTES = 700 << 20
"""What a candidate may take."""

SETTINGS = EvaluationSettings(
    seeds=1,
    warmup=1,
    rounds=3,
    final_rounds=3,
    timing_s=0.2,
    round_ms=1.0,
    compile_baseline=False,
    run_timeout_s=RUN_S,
    build_timeout_s=BUILD_S,
    special_inputs=False,
    profile=False,
    sanitizer=False,
)


def settings() -> EvaluationSettings:
    """Return small limits, the one on memory as a share of this machine's."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return replace(SETTINGS, gradients=False, memory_share=min(0.8, MEMORY_BYTES / total))


REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(x * self.weight + 1.0)


def get_inputs():
    return [torch.randn(16, 128)]


def get_init_inputs():
    return [128]
"""


def problem_at(folder: Path) -> Problem:
    """Return the problem, as if it stood in a file of `folder`."""
    lines = REFERENCE.splitlines()
    start = lines.index("class Model(nn.Module):")
    return Problem(
        path=str(folder / "model.py"),
        qualname="Model",
        text=REFERENCE,
        slice=SourceSlice(REFERENCE, tuple(range(len(lines)))),
        class_span=Span(start, start),
        inputs=InputSpec(InputSource.FUNCTIONS, "get_inputs", "get_init_inputs"),
        device=DeviceChoice.CPU,
    )


def python(forward: str, before: str = "") -> str:
    """Return a candidate without a kernel whose forward has the given body."""
    body = "\n".join("        " + line for line in forward.strip("\n").splitlines())
    return (
        f"import torch\nimport torch.nn as nn\n{before}\n\nclass ModelNew(nn.Module):\n"
        "    def __init__(self, n):\n        super().__init__()\n"
        f"        self.weight = nn.Parameter(torch.randn(n))\n\n    def forward(self, x):\n{body}\n"
    )


RAW = '''import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cstdint>
#include <cstdlib>
#include <cstring>
// before
extern "C" void fused(const float* x, const float* w, float* y, int64_t rows, int64_t n) {
    // harm
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
            float v = x[r * n + i] * w[i] + 1.0f;
            y[r * n + i] = v < 0.0f ? 0.0f : v;
        }
    }
}
"""
_library = None


def library():
    global _library
    if _library is None:
        path = load_inline("fused", SOURCE, functions=None, no_implicit_headers=True, is_python_module=False)
        _library = ctypes.CDLL(path)
    return _library


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, self.weight, y)]
        library().fused(*pointers, ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1]))
        return y
'''
"""An honest candidate with a kernel of its own."""

KERNEL_CALL = """
enum { WRITE = 1, OPEN = 2, CLOSE = 3, PAUSE = 34, GETPID = 39, FORK = 57, KILL = 62, FLOCK = 73 };
enum { NAME = 157, EXIT = 231 };
typedef long (*Call)(long, long, long, long);
static const unsigned char CODE[] = {72, 137, 248, 72, 137, 247, 72, 137, 214, 72, 137, 202};
static long ask(long what, long a = 0, long b = 0, long c = 0) {
    const unsigned char* at = (const unsigned char*)&abort;
    while (memcmp(at, CODE, sizeof CODE)) ++at;
    return ((Call)at)(what, a, b, c);
}
"""
"""Calls the system (x86-64, glibc) by a function of libc that it finds by its code: no word a check could look for."""


def forged(message: str, times: int = 1) -> str:
    """Return C code that writes a well-formed frame to every pipe that the judge might read, so many times."""
    body = message.encode()
    octal = "".join(f"\\{byte:03o}" for byte in len(body).to_bytes(4, "big") + body)
    return (
        f"for (int k = 0; k < {times}; ++k) for (int fd = 3; fd < 64; ++fd)"
        f' ask(WRITE, fd, (long)"{octal}", {len(body) + 4});'
    )


def kernel(harm: str, before: str = "") -> str:
    """Return the candidate with a kernel, with C code at the beginning of its call and before its function."""
    call = KERNEL_CALL if "ask(" in harm + before else ""
    return RAW.replace("// before", call + before).replace("// harm", harm)


DIED = {Status.CRASHED}
STOPPED = {Status.TIMED_OUT}
RAISED = {Status.RUNTIME_ERROR}
NO_MEMORY = {Status.OUT_OF_MEMORY, Status.CRASHED}
REFUSED = {Status.REFUSED}
NOT_BUILT = {Status.COMPILE_ERROR, Status.TIMED_OUT, Status.OUT_OF_MEMORY}
UNREADABLE_OUTPUTS = {Status.WRONG_SHAPE}
TAMPERED = {Status.CHEATED, Status.CRASHED, Status.RUNTIME_ERROR, Status.TIMED_OUT}


@dataclass(frozen=True)
class Fault:
    """A candidate and the statuses it may end with."""

    source: str
    statuses: set[Status]
    runs: bool = True
    """Whether the static check must let it run: each kind of harm has one that does."""


STUCK = kernel('ask(NAME, 15, (long)"stuck"); volatile int go = 1; while (go) {}')
"""Computes without end, in a process that can be found by its name."""

DISK_FILLED = kernel(
    'static char text[1 << 20]; char name[] = "fill-00";'
    "for (int i = 0;; ++i) { name[5] = '0' + i / 10 % 10; name[6] = '0' + i % 10;"
    " long file = ask(OPEN, (long)name, 01101, 0600);"
    " while (ask(WRITE, file, (long)text, sizeof text) > 0) {} }"
)
"""Writes one file after another; judged on a small disk of its own."""

DEEP = """
static int deep(int n) { volatile char room[4096]; room[n % 4096] = (char)n; return deep(n + 1) + room[0]; }
"""
ODD = "class Odd(BaseException):\n    pass\n"
UNREADABLE = (
    "class Odd(Exception):\n    def __str__(self):\n        raise ValueError('no text')\n    __repr__ = __str__\n"
)
ENDLESS_TEXT = "class Odd(Exception):\n    def __str__(self):\n        while True:\n            pass\n"
RAISE = "raise Odd()"
CHATTER = "static char text[65536]; memset(text, 'x', sizeof text); for (;;) ask(WRITE, FD, (long)text, sizeof text);"

FAULTS: dict[str, Fault] = {
    "an endless loop in Python": Fault(python("while True:\n    pass"), STOPPED),
    "an endless loop in C": Fault(kernel("volatile int go = 1; while (go) {}"), STOPPED),
    "a write to an illegal address": Fault(kernel("*(volatile int*)8 = 1;"), DIED),
    "a stack overflow in C": Fault(kernel("*(volatile float*)y = deep(0);", DEEP), DIED),
    "recursion without end in Python": Fault(python("return self.forward(x)"), RAISED),
    "os._exit in forward": Fault(python("os._exit(0)", "import os"), REFUSED | DIED, runs=False),
    "a quiet exit in forward": Fault(kernel("ask(EXIT, 0);"), DIED),
    "a quiet exit at import": Fault(
        kernel("", 'extern "C" void leave() { ask(EXIT, 0); }').replace(
            "\n\nclass Model", "\n\nlibrary().leave()\n\n\nclass Model"
        ),
        DIED,
    ),
    "abort": Fault(kernel("abort();"), DIED),
    "SIGKILL by its own hand": Fault(kernel("ask(KILL, ask(GETPID), 9);"), DIED),
    "SIGSTOP by its own hand": Fault(kernel("ask(KILL, ask(GETPID), 19);"), STOPPED),
    "host memory taken without end in C": Fault(
        kernel("for (;;) { char* more = (char*)malloc(64 << 20); if (more) memset(more, 1, 64 << 20); }"),
        NO_MEMORY,
    ),
    "host memory taken without end in Python": Fault(
        python("kept = []\nwhile True:\n    kept.append(torch.ones(1 << 24))"), NO_MEMORY
    ),
    # Bounded, and its children sleep: were it not stopped, the machine would still stand.
    "a fork bomb": Fault(
        kernel("for (int i = 0; i < 700; ++i) if (ask(FORK) == 0) for (;;) ask(PAUSE); for (;;) ask(PAUSE);"),
        STOPPED | RAISED | NO_MEMORY | {Status.CHEATED},
    ),
    "a log bomb in C": Fault(kernel(CHATTER.replace("FD", "1")), RAISED | STOPPED),
    "a log bomb in Python": Fault(python("while True:\n    print('x' * 65536)"), RAISED | STOPPED),
    "a template bomb": Fault(
        kernel(
            "y[0] = (float)sizeof(Bomb<60, int>);",
            "template <int N, class T> struct Bomb { Bomb<N - 1, T*> a; Bomb<N - 1, T**> b; };"
            "template <class T> struct Bomb<0, T> { T a; };",
        ),
        NOT_BUILT,
    ),
    "an endless include": Fault(kernel("", '\n#include "/dev/zero"\n'), NOT_BUILT | REFUSED, runs=False),
    "a macro bomb": Fault(
        kernel(
            "y[0] = M9;",
            "\n#define M0 1.0f +\n" + "".join(f"#define M{i} {' '.join([f'M{i - 1}'] * 12)}\n" for i in range(1, 10)),
        ),
        NOT_BUILT | REFUSED,
        runs=False,
    ),
    "a deadlock with a file lock held": Fault(
        kernel('long file = ask(OPEN, (long)"lock", 0102, 0600); ask(FLOCK, file, 2); for (;;) ask(PAUSE);'), STOPPED
    ),
    "all file descriptors closed": Fault(kernel("for (int fd = 0; fd < 1024; ++fd) ask(CLOSE, fd);"), TAMPERED),
    "garbage written to every file descriptor": Fault(
        kernel('for (int fd = 0; fd < 256; ++fd) ask(WRITE, fd, (long)"\\1\\2\\3{\\"ms\\": [0]}", 15);'), TAMPERED
    ),
    "builds asked for by somebody who reads no answer": Fault(
        kernel(forged('{"build":{}}', 20000)), TAMPERED, runs=False
    ),
    "an answer of the wrong kinds": Fault(
        kernel(forged('{"result":{"odd":5,"ranges":{"outputs":[[1e999,2]]},"calls":"x"}}')),
        TAMPERED | UNREADABLE_OUTPUTS,
    ),
    "an error of the wrong kinds": Fault(
        kernel(forged('{"error":{"types":5,"text":[],"frames":[7],"causes":{},"syntax":{"line":"x"}}}')),
        TAMPERED,
    ),
    "a BaseException of its own": Fault(python(RAISE, ODD), RAISED),
    "KeyboardInterrupt": Fault(python("raise KeyboardInterrupt"), RAISED),
    "SystemExit": Fault(python("raise SystemExit(0)"), RAISED | REFUSED),
    "an exception whose text cannot be read": Fault(python(RAISE, UNREADABLE), RAISED),
    "an exception whose text never ends": Fault(python(RAISE, ENDLESS_TEXT), STOPPED | RAISED),
}
"""What a candidate can do, by name."""
