"""The static check on any text: it never raises, and takes time in proportion to the length of the text."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stark_lsp.integrity import read, told
from stark_lsp.integrity.native import NAME, STRING
from stark_lsp.integrity.native import read as read_native

PIECES = [
    "#include <x>", "#define A B", "#define F(x, ...) x##y #x __VA_ARGS__", "A", "F(1, (2, 3))", "\n", "\\\n", " ", '"', "'", "R\"(", ")\"", "//",
    "/*", "*/", "{", "}", "(", ")", ";", "<<<", ">>>", "extern \"C\"", "__global__", "void f", "asm", "template <", ">", "::", "u8R\"a(", ")a\"",
    "1'000", "0x1p-3", "##", "#", "%:", "<:", "static int n", "=", "++", "struct", "namespace n", "operator()", "\0", "é", "\u2028", "?", "system",
    "std", "thread", ".", "detach()", "import", "TORCH_LIBRARY_IMPL(", "&", "to",
]  # fmt: skip
PROGRAMS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
TEXTS = st.text(max_size=200) | PROGRAMS
PYTHON = [
    "import torch", "import os as o", "from torch import cuda", "t = torch.cuda", "x = [t, o]", "(y := x[0])", "def f(a, b=t): return a(b)", "f(f, x)",
    "class ModelNew(Base):\n    a = 1\n    def forward(self, x):\n        self.a = x\n        return self.a", "class Base: pass",
    "ModelNew = Base", "setattr(t, 'E' + s, f)", "s = s + 'a'", "s = f'{s}{t}'", "g = lambda m: g(m)", "g(g)(t).z = 1", "for i in x: i.q = i",
    "del t.q", "try:\n    load_inline('a', s)\nexcept E as e:\n    pass", "with f() as t: t", "o.environ['A'] = s", "x = {t: o, **x}", "[i for i in x if i]",
    "getattr(getattr, 'x')", "globals()['t'].a = 1", "load_inline('a', [s])", "async def h(): await h()", "@f\ndef k(): yield k",
    "match x:\n    case 1: pass", "x: int", "global_ = '''#include <x>\n{;}'''", "t.a += 1", "(t, *x), y = x", "print(1)(2)(3)",
    "from torch.utils.cpp_extension import load_inline", "o.environ.update({**x}, a=1)", "def w():\n    global t\n    t = t.u", "s.replace(s, s)", "''.join([s, s])",
    "s % t", "s.format(s)", "import x.y.z", "from . import q", "load_inline()", "setattr()", "__import__()", "ctypes.CDLL()",
]  # fmt: skip
MODULES = st.lists(st.sampled_from(PYTHON), max_size=14).map("\n".join)
ORDINARY = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@ORDINARY
@given(TEXTS | MODULES)
@example("x = " + "(" * 300)
@example("\0")
@example("x = 1" + " + 1" * 5000)
@example("a" + ".a" * 5000)
@example("x = '" + "\\ud800" + "'")
@example("class ModelNew(ModelNew): pass")
def test_any_text_is_read(text: str) -> None:
    reading = read(text, "ModelNew", text)
    assert all(one.reason and (one.line is None or one.line >= 1) for one in (*reading.refusals, *reading.notes))
    assert told(text) == reading.told


@ORDINARY
@given(MODULES, PROGRAMS)
def test_any_kernel_in_any_module_is_read(module: str, code: str) -> None:
    text = f"{module}\nCODE = {code!r}\nimport torch.utils.cpp_extension as c\nc.load_inline('n', [CODE])\n"
    lines = text.count("\n") + 1
    reading = read(text, "ModelNew", module)
    assert all(one.line is None or 1 <= one.line <= lines for one in (*reading.refusals, *reading.notes))


@ORDINARY
@given(TEXTS)
def test_tokens_stand_where_they_say(text: str) -> None:
    tokens = read_native(text).tokens
    assert [token.at for token in tokens] == sorted({token.at for token in tokens})
    assert all(text.startswith(token.text, token.at) for token in tokens if token.kind == NAME)


LETTERS = st.text("abcdefgh", min_size=1, max_size=6).map(lambda word: f"secret_{word}")
FRAMES = ["//{}\n", "/*{}*/", '"{}"', 'R"x({})x"', "'{}'", "/*\n{}\n*/", '"\\"{}"', "//\\\n{}\n"]


@ORDINARY
@given(st.lists(st.tuples(st.sampled_from(FRAMES), LETTERS)))
def test_what_strings_and_comments_say_is_no_name(parts: list[tuple[str, str]]) -> None:
    text = " name ".join(["", *(frame.replace("{}", word) for frame, word in parts), ""])
    tokens = read_native(text).tokens
    assert not [token for token in tokens if token.kind == NAME and token.text.startswith("secret_")]
    assert sum(token.text == "name" for token in tokens) == len(parts) + 1
    assert sum(token.kind == STRING for token in tokens) == sum('"' in frame for frame, _ in parts)


LONG = {
    "names": "x = torch.a.b\n",
    "aliases": "y = x\nx = y\n",
    "texts": "s = 'a' + s + f'{s}'\n",
    "attributes": "t.a.b.c = getattr(t, 'a')\n",
    "keys": "def f(x):\n    K[x.shape] = K[x.dtype]\n",
    "compared": "a < b < c < (d < e)\n",
    "tries": "try:\n    M = load_inline('a', 'b')\nexcept E:\n    pass\n",
    "kernels": "@triton.jit\ndef k(x):\n    return x\n",
    "classes": "class A(B):\n    def forward(self, x):\n        return self.o(x)\n",
    "options": "load_inline('a', 'b', extra_cflags=['-O3', F])\n",
}
LONG_NATIVE = {
    "braces": "{",
    "closed braces": "}",
    "parentheses": "f(",
    "comments": "/* ",
    "raw strings": 'R"x(',
    "strings": '"a ',
    "directives": "\n#define A(x) \\\n",
    "functions": "void f() { g(); }\n",
    "headers": "template <class T> void ",
    "threads": "std::thread t; t.detach();\n",
    "ends": ")",
    "assembler": 'asm("a" "b"\n',
    "kernels": "__global__ void k() {}\n",
    "blanks": "   \n",
}


def seconds(text: str) -> float:
    begin = time.process_time()
    read(text, "ModelNew")
    return time.process_time() - begin


def grows_with_the_length(short: str, long: str) -> bool:
    """Whether a text of eight times the length takes about that many times as long; sixty-four if it were its square.

    What looks bad may be due to whatever else the machine does, and is measured again.
    """
    return any(seconds(long) < 24 * seconds(short) + 0.1 for _ in range(3))


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG)
def test_time_grows_with_the_length(piece: str) -> None:
    head = "import torch, triton\nfrom torch.utils.cpp_extension import load_inline\n"
    assert grows_with_the_length(head + piece * 200, head + piece * 1600)


@pytest.mark.parametrize("piece", LONG_NATIVE.values(), ids=LONG_NATIVE)
def test_time_grows_with_the_length_of_a_kernel(piece: str) -> None:
    head = "from torch.utils.cpp_extension import load_inline\n"
    assert grows_with_the_length(*(f"{head}M = load_inline('a', {piece * count!r})" for count in (1000, 8000)))
