"""The build service with real builders and a real compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stark_lsp.contract import process_trees
from stark_lsp.judge.building import cache, loops, proxy
from stark_lsp.judge.building.service import BuildService, Built, Failure

SECONDS = 120.0


def raw(text: str, name: str = "plain", **more: Any) -> dict[str, Any]:
    """Return a request in the raw dialect: no torch header, no Python module."""
    return {
        "kind": "inline",
        "name": name,
        "cpp_sources": [text],
        "no_implicit_headers": True,
        "is_python_module": False,
        **more,
    }


ANSWER = 'extern "C" int answer() { return 42; }'


def test_a_library_is_built_once_also_if_several_ask_and_then_found_until_it_is_damaged(
    service: BuildService, builders: Any, tmp_path: Path
) -> None:
    from torch.utils import cpp_extension

    found: list[Built] = []
    threads = [
        threading.Thread(target=lambda: found.append(service.build(raw(ANSWER), seconds=SECONDS))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [built.error for built in found] == ["", "", ""]
    first = service.build(raw(ANSWER), seconds=SECONDS)
    assert {built.library for built in found} == {first.library}
    assert len(builders.started) == 1
    builders.started[0].kill()
    # Since torch 2.14 it is the kernel that locks the file, until the process ends.
    locked = os.path.exists(os.path.join(builders.started[0].files.out, "build", "lock"))
    assert not locked or hasattr(cpp_extension, "FileLock")
    # A copy: what is cut off while it is loaded ends this process by SIGBUS when it unloads.
    assert ctypes.CDLL(shutil.copy(first.library, tmp_path / "first.so")).answer() == 42

    with open(first.library, "r+b") as file:
        file.seek(100)
        file.write(b"damaged")
    second = service.build(raw(ANSWER), seconds=SECONDS)
    assert len(builders.started) == 2
    assert ctypes.CDLL(shutil.copy(second.library, tmp_path / "second.so")).answer() == 42
    os.truncate(second.library, 10)
    third = service.build(raw(ANSWER), seconds=0.05)
    assert third.failure is Failure.TIMED_OUT, "it was begun anew, and ended"
    assert "stopped after" in third.error


def test_a_compile_error_names_its_line_and_is_remembered(service: BuildService, builders: Any) -> None:
    wrong = raw('int before;\nextern "C" int answer() { return missing; }\n', name="wrong")
    for _ in range(2):
        built = service.build(wrong, seconds=SECONDS)
        assert built.failure is Failure.COMPILER
        assert built.library == ""
        assert built.error.startswith("Error building extension 'wrong'")
        assert built.compiler[0]["line"] == 2
        assert "missing" in built.compiler[0]["text"]
    assert len(builders.started) == 1


def test_kernels_of_inductor_wait_for_no_headers_of_our_own(service: BuildService, builders: Any) -> None:
    text = "#include <torch/csrc/inductor/cpp_prefix.h>\n" + ANSWER
    built = service.build(raw(text, extra_cflags=["-fopenmp"], extra_ldflags=["-lgomp"]), seconds=SECONDS)
    assert (built.error, built.ways) == ("", ["stock"])
    assert len(builders.started) == 1, "nothing was compiled ahead, which takes longer than this build"


def test_a_killed_build_leaves_nothing_that_the_next_one_waits_for(
    service: BuildService, builders: Any, tmp_path: Path
) -> None:
    slow = raw(
        "template <int N> struct F { enum { value = (F<N - 1>::value + F<N - 2>::value) % 1000003 }; };\n"
        "template <> struct F<0> { enum { value = 0 }; };\ntemplate <> struct F<1> { enum { value = 1 }; };\n"
        '#include <regex>\n#include <iostream>\nextern "C" int answer() { return F<800>::value; }\n',
        name="slow",
    )
    killed: list[Built] = []
    thread = threading.Thread(target=lambda: killed.append(service.build(slow, seconds=SECONDS)))
    thread.start()
    # What PyTorch starts while it is imported, as `ldconfig` in a build for CUDA, is no compiler.
    while not builders.started or not os.path.isdir(os.path.join(builders.started[0].files.out, "build")):
        time.sleep(0.005)
    while not process_trees.descendants(builders.started[0].pid):
        time.sleep(0.005)
    process_trees.kill(builders.started[0].pid)
    thread.join()
    assert killed[0].failure is Failure.BROKEN
    assert killed[0].library == ""
    assert not process_trees.descendants(builders.started[0].pid)
    again = service.build(slow, seconds=SECONDS)
    assert again.error == ""
    assert len(builders.started) == 2


@pytest.mark.parametrize(
    "flags",
    [
        {"extra_cflags": ["-fplugin=/tmp/evil.so"]},
        {"extra_cflags": ["-specs=/tmp/specs"]},
        {"extra_cflags": ["-wrapper", "/bin/sh,-c"]},
        {"extra_cflags": ["@/etc/passwd"]},
        {"extra_cflags": ["-B/tmp"]},
        {"extra_cflags": ["-O2; touch /tmp/x"]},
        {"extra_cflags": ["-O2 $(id)"]},
        {"extra_cflags": ["-O2\n  command = id"]},
        {"extra_cflags": ["-include", "/etc/passwd"]},
        {"extra_cflags": ["-I../../.."]},
        {"extra_cuda_cflags": ["-Xcompiler=-fplugin=/tmp/evil.so"]},
        {"extra_cuda_cflags": ["--compiler-bindir=/tmp"]},
        {"extra_cuda_cflags": ["--options-file", "x"]},
        {"extra_ldflags": ["-Wl,-plugin,/tmp/evil.so"]},
        {"extra_ldflags": ["-Wl,-T,/home/me/secret"]},
        {"extra_include_paths": ["/home/me"]},
        {"extra_include_paths": ["/usr/../root"]},
        {"name": "a b"},
        {"name": "../x"},
        {"functions": [['f); system("id"', "f"]]},
        {"cpp_sources": ["a\0b"]},
        {"cpp_sources": ["x" * (5 << 20)]},
        {"cpp_sources": "text"},
        {"is_python_module": 1},
        {"kind": "other"},
    ],
)
def test_what_could_do_more_than_compile_is_refused(
    service: BuildService, builders: Any, flags: dict[str, Any]
) -> None:
    built = service.build({**raw(ANSWER), **flags}, seconds=SECONDS)
    assert built.failure is Failure.REFUSED
    assert built.error.startswith("Error building extension")
    assert not builders.started


def test_the_flags_that_kernels_are_built_with_are_taken(service: BuildService) -> None:
    flags = {
        "extra_cflags": ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-std=c++17", "-DSIZE=4"],
        "extra_cuda_cflags": [
            "-O3", "--use_fast_math", "-lineinfo", "--ptxas-options=-v", "-gencode arch=compute_90a,code=sm_90a",
            "-Xcompiler -fPIC", "--expt-relaxed-constexpr", "-maxrregcount=64", "-U__CUDA_NO_HALF_OPERATORS__",
        ],
        "extra_ldflags": ["-lgomp", "-L/usr/lib", "-Wl,--no-as-needed"],
        "extra_include_paths": ["/usr/include"],
    }  # fmt: skip
    built = service.build({**raw(ANSWER), **flags}, seconds=SECONDS)
    assert built.error == ""


def test_the_stand_ins_build_and_load_what_torch_would(
    service: BuildService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch
    from torch.utils import cpp_extension

    asked: list[dict[str, Any]] = []

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        built = service.build(request, seconds=SECONDS)
        return {"error": built.error} if built.error else {"library": built.library}

    for name in ("load", "load_inline"):
        monkeypatch.setattr(cpp_extension, name, getattr(cpp_extension, name))
    proxy.install(ask)
    from torch.utils.cpp_extension import load, load_inline

    path = load_inline("raw_one", ANSWER, no_implicit_headers=True, is_python_module=False)
    assert ctypes.CDLL(path).answer() == 42
    assert load_inline("raw_one", ANSWER, no_implicit_headers=True, is_python_module=False) == path
    assert len(asked) == 1

    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "twice.h").write_text("inline int twice(int x) { return 2 * x; }\n")
    source = tmp_path / "sources" / "ext.cpp"
    source.write_text(
        '#include "twice.h"\n#include <Python.h>\n'
        "static PyObject* twice(PyObject*, PyObject* x) { return PyLong_FromLong(twice(PyLong_AsLong(x))); }\n"
        'static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {}};\n'
        'static PyModuleDef made = {PyModuleDef_HEAD_INIT, "twice_module", "", -1, methods};\n'
        "PyMODINIT_FUNC PyInit_twice_module() { return PyModule_Create(&made); }\n"
    )
    module = load(name="twice_module", sources=[str(source)])
    assert module.twice(21) == 42

    with pytest.raises(RuntimeError, match="Error building extension 'bad'"):
        load_inline("bad", "int f( {", no_implicit_headers=True)
    with pytest.raises(TypeError):
        load_inline("bad", ANSWER, no_such_option=True)
    assert isinstance(torch.__version__, str)


def test_the_cache_keeps_what_was_used_last_and_sweeps_what_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "RECENT_S", -1.0)
    root = tmp_path / "kept"
    kept = cache.Cache(str(root), entries=2)
    source = tmp_path / "file"
    source.write_bytes(b"x" * 100)
    for index, key in enumerate(("aa1", "bb2", "cc3")):
        entry = kept.put(key, str(source), "file", {"index": index})
        os.utime(os.path.join(os.path.dirname(entry.path), "entry.json"), (index, index))
    kept.put("dd4", str(source), "file", {})
    assert [key for key in ("aa1", "bb2", "cc3", "dd4") if kept.get(key)] == ["cc3", "dd4"]
    (root / "new-aa1-half").mkdir()
    (root / "new-bb2-busy").mkdir()
    with kept.hold("bb2", 1.0) as held:
        assert held
        cache.Cache(str(root), entries=2)
    assert not (root / "new-aa1-half").exists()
    assert (root / "new-bb2-busy").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_only_a_regular_file_is_taken_from_a_builder(tmp_path: Path, kind: str) -> None:
    left = tmp_path / "left"
    if kind == "link":
        left.symlink_to("/etc/hostname")
    elif kind == "pipe":
        os.mkfifo(left)
    elif kind == "folder":
        left.mkdir()
    with pytest.raises((cache.NotTaken, IsADirectoryError)):
        cache.take(str(left), str(tmp_path / "taken"))


def test_a_source_is_not_blamed_for_what_the_machine_did_to_its_compiler(service: BuildService) -> None:
    errors = [{"line": 3, "column": 1, "text": "no such thing"}]
    for number, (text, line, remembered) in enumerate(
        [
            ("main.cpp:3:1: error: no such thing", 3, True),
            (
                "main.cpp:3:1: error: no such thing\ng++: fatal error: Killed signal terminated program cc1plus",
                3,
                False,
            ),
            ("g++: internal compiler error", 0, False),
            ("main.cpp:3:1: error: no such thing\nNo space left on device", 3, False),
        ]
    ):
        built = Built(error=text, failure=Failure.COMPILER)
        built.compiler = [{**errors[0], "line": line}]
        service._remember(str(number), built)
        assert (service._kept(str(number)) is not None) is remembered, text


LOOPS = """\
#include <cmath>
#include <cstdint>
extern "C" void rows(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * cols;
    float* to = y + row * cols;
    for (int64_t i = 0; i < cols; ++i) to[i] = from[i] * 2.0f;
    for (int64_t i = 1; i < cols; ++i) to[i] += to[i - 1];
    for (int64_t i = 0; i < cols; ++i) to[i] = std::exp(to[i]);
  }
}
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [(1, 0), (2, 0), (4, 4), (6, 7), (9, 0), (10, 10), (11, 0), (12, 12), (13, 0), (14, 0), (99, 0)],
    ids=str,
)
def test_of_loops_within_loops_the_innermost_are_told(line: int, found: int) -> None:
    text = """\
#pragma omp parallel for
for (int row = 0; row < rows; ++row) {
  float* to = y + row * cols;
  for (int i = 0; i < cols; ++i) to[i] = 0.0f;
}
#pragma omp parallel for
for (int i = 0; i < n; ++i) {  // for all
  if (x[i] > 0) { y[i] = x[i]; }
}
while (more(left)) left -= 1;
for (; j + LANES <= end; j += LANES)
  for (int k = 0; k < LANES; ++k) sum[k] += x[j + k];
int after = 0;
for (; j + 8 <= end; j += 8) _mm256_storeu_ps(y + j, _mm256_loadu_ps(x + j));
"""
    assert loops.innermost(text.splitlines(), line) == found


@pytest.mark.skipif(
    b"Free Software Foundation" not in subprocess.run(["c++", "--version"], capture_output=True).stdout,
    reason="only GCC tells of its loops",
)
@pytest.mark.slow
@pytest.mark.ci
def test_the_loops_that_were_not_vectorized_are_told_and_kept(service: BuildService) -> None:
    asked = raw(LOOPS, extra_cflags=["-O3"])
    built = service.build(asked, seconds=SECONDS)
    assert built.error == built.log == ""
    assert built.loops == [
        "line 8: for (int64_t i = 1; i < cols; ++i) to[i] += to[i - 1];",
        "line 9: for (int64_t i = 0; i < cols; ++i) to[i] = std::exp(to[i]);",
    ]
    assert service.build(asked, seconds=SECONDS).loops == built.loops
    assert service.build({**asked, "stock": True}, seconds=SECONDS).loops == [], "a finalist is built as torch does"
