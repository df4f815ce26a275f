"""The tokenizer and the static check on any text."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stark_lsp.judge.integrity import check, check_native, flags, kernels
from stark_lsp.judge.integrity.preprocess import TooMuch, preprocess
from stark_lsp.judge.integrity.tokens import CHARACTER, HEADER, IDENTIFIER, STRING, tokenize

PIECES = [
    "#include <x>", "#define A B", "#define F(x, ...) x##y #x __VA_ARGS__", "A", "F(1, (2, 3))", "\n", "\\\n", " ", '"', "'", "R\"(", ")\"", "//",
    "/*", "*/", "{", "}", "(", ")", ";", "<<<", ">>>", "extern \"C\"", "__global__", "void f", "asm", "template <", ">", "::", "u8R\"a(", ")a\"",
    "1'000", "0x1p-3", "##", "#", "%:", "<:", "static int n", "=", "++", "struct", "namespace n", "operator()", "\0", "é", "\u2028", "?", "system",
]  # fmt: skip
PROGRAMS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
TEXTS = st.text(max_size=200) | PROGRAMS
PYTHON = [
    "import torch", "import os as o", "from torch import cuda", "t = torch.cuda", "x = [t, o]", "(y := x[0])", "def f(a, b=t): return a(b)", "f(f, x)",
    "class ModelNew(Base):\n    a = 1\n    def forward(self, x):\n        self.a = x\n        return self.a", "class Base: pass",
    "ModelNew = Base", "setattr(t, 'E' + s, f)", "s = s + 'a'", "s = f'{s}{t}'", "g = lambda m: g(m)", "g(g)(t).z = 1", "for i in x: i.q = i",
    "del t.q", "try:\n    f()\nexcept E as e:\n    pass", "with f() as t: t", "o.environ['A'] = s", "x = {t: o, **x}", "[i for i in x if i]",
    "getattr(getattr, 'x')", "globals()['t'].a = 1", "load_inline('a', [s])", "async def h(): await h()", "@f\ndef k(): yield k",
    "match x:\n    case 1: pass", "x: int", "global_ = '''#include <x>\n{;}'''", "t.a += 1", "(t, *x), y = x", "print(1)(2)(3)",
]  # fmt: skip
MODULES = st.lists(st.sampled_from(PYTHON), max_size=14).map("\n".join)
ORDINARY = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@ORDINARY
@given(TEXTS)
@example('"')
@example("\\")
@example('R"(')
@example("#include <")
def test_tokens_are_where_they_say(text: str) -> None:
    end = 0
    for token in tokenize(text):
        assert token.start >= end
        assert token.end > token.start
        end = token.end
        written = text[token.start : token.end]
        if "\\" not in written and "%" not in written and ":" not in written and "<" not in written:
            assert written == token.text
    assert end <= len(text)


@ORDINARY
@given(TEXTS)
def test_between_tokens_there_are_only_blanks_and_comments(text: str) -> None:
    end = 0
    for token in [*tokenize(text), None]:
        gap = text[end : token.start if token is not None else len(text)]
        if "/" not in gap:
            assert gap.strip(" \t\r\n\v\f\\") == ""
        end = token.end if token is not None else len(text)


LETTERS = st.text("abcdefgh", min_size=1, max_size=6).map(lambda word: f"secret_{word}")


@ORDINARY
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["//{}\n", "/*{}*/", '"{}"', 'R"x({})x"', "'{}'", "/*\n{}\n*/", '"\\"{}"', "//\\\n{}\n"]),
            LETTERS,
        )
    )
)
def test_what_strings_and_comments_say_is_no_name(parts: list[tuple[str, str]]) -> None:
    text = " name ".join(["", *(frame.replace("{}", word) for frame, word in parts), ""])
    tokens = tokenize(text)
    assert not [token for token in tokens if token.kind == IDENTIFIER and token.text.startswith("secret_")]
    assert sum(token.text == "name" for token in tokens) == len(parts) + 1
    quoted = [frame for frame, _ in parts if not frame.startswith("/")]
    assert sum(token.kind in (STRING, CHARACTER) for token in tokens) == len(quoted)


@ORDINARY
@given(st.text(st.characters(codec="utf-8", exclude_characters='"\\\n'), max_size=40))
def test_a_string_says_what_is_written(said: str) -> None:
    plain = tokenize(f'before "{said}" after')
    assert [token.kind for token in plain] == [IDENTIFIER, STRING, IDENTIFIER]
    assert plain[1].value == said
    raw = tokenize(f'before R"mark({said})mark" after')
    assert raw[1].value == said


@ORDINARY
@given(st.text("abc/._ ", min_size=1, max_size=20))
def test_a_header_is_one_token(name: str) -> None:
    token = tokenize(f"#include <{name}>\nint x;")[2]
    assert token.kind == HEADER
    assert token.text == f"<{name}>"


@ORDINARY
@given(TEXTS)
def test_any_text_is_preprocessed_or_too_much(text: str) -> None:
    try:
        made = preprocess(text)
    except TooMuch:
        return
    assert all(0 <= token.start < token.end <= len(text) + 1 for token in made.tokens)


@ORDINARY
@given(TEXTS)
def test_any_native_text_is_judged(text: str) -> None:
    found = check_native(text)
    assert found is None or found.reason


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(TEXTS | MODULES)
@example("x = " + "(" * 300)
@example("\0")
@example("x = 1" + " + 1" * 5000)
@example("a" + ".a" * 5000)
@example("x = '" + "\\ud800" + "'")
def test_any_text_is_checked(text: str) -> None:
    found = check(text, "ModelNew", text)
    assert found is None or (found.reason and (found.line is None or found.line >= 1))
    assert isinstance(flags(text, "ModelNew"), tuple)
    assert all(isinstance(name, str) for name in kernels(text).names)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(MODULES, PROGRAMS)
def test_any_kernel_in_any_module_is_checked(module: str, code: str) -> None:
    text = f"{module}\nCODE = {code!r}\nimport torch.utils.cpp_extension as c\nc.load_inline('n', [CODE])\n"
    found = check(text, "ModelNew", module)
    assert found is None or found.reason
    kernels(text)
