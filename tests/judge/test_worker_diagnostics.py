"""Compilers' diagnostics as they are really printed."""

from stark_lsp.judge.building.diagnostics import LIMIT, compiler_messages, summary

GNU = """Error building extension 'fused': [1/2] g++ -MMD -c /tmp/x/main.cpp -o main.o
FAILED: main.o
/tmp/x/main.cpp: In function ‘void f()’:
/tmp/x/main.cpp:6:39: error: ‘flot’ was not declared in this scope; did you mean ‘float’?
    6 |   flot v = x[i];
      |   ^~~~
/tmp/x/main.cpp:9:10: fatal error: nothing.h: No such file or directory
ninja: build stopped: subcommand failed.
"""

NVCC = """Error building extension 'k': [1/2] /usr/local/cuda/bin/nvcc -c cuda.cu
/tmp/x/cuda.cu(14): error: identifier "blokIdx" is undefined
    int i = blokIdx.x;
            ^
/tmp/x/cuda.cu(20): error #20014-D: calling a __host__ function from a __global__ function is not allowed

2 errors detected in the compilation of "/tmp/x/cuda.cu".
"""

LINKER = """[2/2] g++ main.o -shared -o fused.so
/usr/bin/ld: cannot find -lnothing: No such file or directory
collect2: error: ld returned 1 exit status
"""


def test_diagnostics_of_gcc_have_line_column_and_text() -> None:
    messages = compiler_messages(GNU)
    assert [(m["line"], m["column"]) for m in messages] == [(6, 39), (9, 10)]
    assert messages[0]["text"].startswith("‘flot’ was not declared")
    assert summary(messages, GNU).startswith("The kernel does not compile: line 6: ‘flot’")
    assert "1 more" in summary(messages, GNU)


def test_diagnostics_of_nvcc_have_line_and_text() -> None:
    messages = compiler_messages(NVCC)
    assert [m["line"] for m in messages] == [14, 20]
    assert messages[0]["text"] == 'identifier "blokIdx" is undefined'


def test_a_linker_that_names_no_line_is_quoted() -> None:
    messages = compiler_messages(LINKER)
    assert messages[0]["line"] == 0
    assert any("ld returned 1" in m["text"] for m in messages)


def test_repeated_and_many_diagnostics_are_cut() -> None:
    text = "\n".join(f"a.cpp:{1 + i % 50}:1: error: no" for i in range(500))
    messages = compiler_messages(text)
    assert len(messages) == LIMIT
    assert len({m["line"] for m in messages}) == LIMIT


def test_a_silent_compiler_still_gives_a_sentence() -> None:
    assert compiler_messages("") == []
    assert summary([], "") == "The kernel does not compile: the compiler said nothing."
