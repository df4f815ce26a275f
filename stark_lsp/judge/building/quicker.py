"""Quicker ways to build what torch has laid out: the same compilers and flags, with lighter headers where they do.

- `facade`: headers of our own that declare what bindings commonly use, compiled in a second or two, and linked with a
  support library that was compiled once with torch's headers.
- `light`: torch's own headers, but only those that the source's words call for.
- `stock`: as torch wrote it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

from . import tokens
from .steps import MANY_CORES, Step, Way, commands, run_all

FACADE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "facade")
PCH = "stark_pch.h"
SUPPORT = "support.o"
_CUDA = (".cu", ".cuh")
# Symbols of Python itself, which the interpreter provides when the library is loaded.
_OF_PYTHON = re.compile(r"undefined reference to [`'](?:_?Py|_Py)")
_UNDEFINED = re.compile(r"undefined reference to")


class Compile:
    """One compile command of torch, taken apart."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.source = words[words.index("-c") + 1]
        self.target = words[words.index("-o") + 1]
        self.cuda = self.source.endswith(_CUDA)

    def to(self, target: str, *more: str) -> list[str]:
        """Return it with another target, and words put in front of its flags."""
        words = list(self.words)
        words[words.index("-o") + 1] = target
        if "-MF" in words:
            words[words.index("-MF") + 1] = target + ".d"
        # A compiler may be called through another program, such as ccache: the flags begin at the first dash.
        first = next(index for index, word in enumerate(words) if word.startswith("-"))
        return [*words[:first], *more, *words[first:]]


class Build:
    """The carrying out of one build that torch has written for ninja.

    Parameters
    ----------
    aids
        Paths of what was made ahead: `support` and `pch`, each where there is one.
    include
        Folder of torch's headers.
    stock
        Do all as torch wrote it.
    """

    def __init__(self, aids: dict[str, str], include: str, stock: bool, cores: int) -> None:
        self._aids = aids
        self._include = include
        self._stock = stock
        self._cores = cores
        self.steps: list[Step] = []
        self.why: list[str] = []
        """What kept quicker ways from being taken."""

    def run(self, folder: str) -> str:
        """Build; return what failed in the compiler's words, empty if nothing did."""
        found = commands(folder)
        compiles = [Compile(words) for words in found if "-c" in words]
        others = [words for words in found if "-c" not in words]
        self.steps = [self._step(item, folder) for item in compiles]
        failed = run_all(self.steps, folder, self._cores, self._cores >= MANY_CORES)
        if failed is not None:
            return _report(failed)
        for words in others:
            text = self._link(words, folder)
            if text:
                return text
        return ""

    def records(self) -> list[dict[str, Any]]:
        """Return how every step was done."""
        return [step.record() for step in self.steps]

    def _step(self, item: Compile, folder: str) -> Step:
        ways = []
        name = os.path.basename(item.source)
        with open(item.source, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if not self._stock and tokens.uses_torch(text):
            if "support" in self._aids:
                ways += self._facade(item, text, folder)
            ways.append(self._light(item, text, folder))
        ways.append(Way("stock", item.words))
        return Step(name, item.target, ways, lambda printed: self._genuine(printed, name))

    def _facade(self, item: Compile, text: str, folder: str) -> list[Way]:
        """Return the ways with headers of our own: with what was compiled ahead, and without."""
        place = os.path.join(folder, f"facade-{os.path.basename(item.source)}")
        needs = tokens.facade_needs(text, item.cuda)
        standard = tokens.standard_headers(text)

        def prepare() -> None:
            os.makedirs(place, exist_ok=True)
            _write(os.path.join(place, "stark_needs.h"), needs)
            _write(os.path.join(place, "stark_standard.h"), [f"#include <{header}>" for header in standard])

        more = ["-I", os.path.join(FACADE, "include"), "-I", place]
        last = ["-include", os.path.join(place, "stark_standard.h")] if standard else []
        ways = []
        if "pch" in self._aids and not item.cuda and not needs:
            first = ["-include", self._aids["pch"][: -len(".gch")]]
            ways.append(Way("facade-pch", item.to(item.target + ".facade-pch", *more, *first, *last), prepare))
        ways.append(Way("facade", item.to(item.target + ".facade", *more, *last), prepare))
        return ways

    def _light(self, item: Compile, text: str, folder: str) -> Way:
        """Return the way with those of torch's headers that the source's words call for."""
        place = os.path.join(folder, f"light-{os.path.basename(item.source)}")

        def prepare() -> None:
            write_light(place, text, self._include, item.cuda)

        return Way("light", item.to(item.target + ".light", "-I", place), prepare)

    def _link(self, words: list[str], folder: str) -> str:
        """Link; what was compiled with the facade must find all that it refers to, or all is done as torch wrote it."""
        target = words[words.index("-o") + 1] if "-o" in words else ""
        quick = any(step.how.startswith("facade") for step in self.steps)
        if quick:
            # Beside the other objects: libraries that come before what needs them may be dropped.
            checked = [*words[:1], self._aids["support"], *words[1:], "-Wl,-z,defs", "-Wl,--warn-unresolved-symbols"]
            checked[checked.index("-o") + 1] = target + ".facade"
            step = Step("link", target, [Way("facade", checked), Way("stock", ["false"])], lambda printed: True)
            failed = run_all([step], folder, 1, False)
            missing = [
                line for line in step.log.splitlines() if _UNDEFINED.search(line) and not _OF_PYTHON.search(line)
            ]
            # What is missing although all sources saw the same headers is missing in the sources themselves; torch's
            # own build would leave that to be found when the library is loaded.
            alike = all(step.how.startswith("facade") for step in self.steps)
            their_own = alike and not any("stark_support" in line for line in missing)
            if failed is None and (not missing or their_own):
                self.steps.append(step)
                return ""
            self.why.append(missing[0] if missing else step.log)
            self._stock = True
            text = self.run_again(folder)
            if text:
                return text
        step = Step("link", target, [Way("stock", words)])
        failed = run_all([step], folder, 1, False)
        self.steps.append(step)
        return _report(failed) if failed is not None else ""

    def run_again(self, folder: str) -> str:
        """Compile with torch's headers what was compiled with others."""
        redo = [Compile(words) for words in commands(folder) if "-c" in words]
        quick = {step.name for step in self.steps if step.how.startswith("facade")}
        again = [self._step(item, folder) for item in redo if os.path.basename(item.source) in quick]
        failed = run_all(again, folder, self._cores, False)
        self.steps = [step for step in self.steps if step.name not in quick] + again
        return _report(failed) if failed is not None else ""

    def _genuine(self, printed: str, name: str) -> bool:
        """Whether a quicker way failed for what any other way would fail for as well: a slip in the source itself."""
        return genuine(printed, name, self._include)


_ERROR = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?:\((?P<nvcc>\d+)\)|:(?P<gnu>\d+)(?::\d+)?): (?:fatal )?error: (?P<text>.*)$", re.M
)
_NAME = re.compile(
    r"identifier \"(\w+)\" is undefined|[‘'](\w+)[’'] was not declared in this scope"
    r"|has no member (?:named )?[\"‘'](\w+)[\"’']|[‘'](\w+)[’'] is not a member of"
)
_SYNTAX = re.compile(
    r"expected (?:a|an|[‘'])|unterminated|missing terminating|unrecognized token|extra text after expected"
)


def genuine(printed: str, name: str, include: str) -> bool:
    """Whether all errors are slips of the source that have nothing to do with the headers.

    Such are a sign that is missing, and a name that no header of torch so much as mentions; only the first error is
    looked at as to signs, for what follows it may be nonsense.
    """
    found = [match for match in _ERROR.finditer(printed) if os.path.basename(match.group("file")) == name]
    if not found or len(found) != len(list(_ERROR.finditer(printed))):
        return False
    for index, match in enumerate(found):
        named = _NAME.search(match.group("text"))
        if named is not None:
            if _mentioned(next(group for group in named.groups() if group), include):
                return False
        elif not (index == 0 and _SYNTAX.match(match.group("text"))):
            return index > 0
    return True


def _mentioned(name: str, include: str) -> bool:
    """Whether any header of torch holds this word."""
    tool = shutil.which("grep")
    if tool is None:
        return True
    done = subprocess.run(
        [tool, "-rqwF", "--", name, include], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return done.returncode != 1


def _report(step: Step) -> str:
    """Return what ninja would say of a failed step."""
    return f"FAILED: {os.path.basename(step.target)}\n{step.log}"


def _write(path: str, lines: list[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in ["#pragma once", *lines]))


_CONSTANTS = (
    "constexpr auto kUInt8 = at::kByte; constexpr auto kInt8 = at::kChar; constexpr auto kInt16 = at::kShort;",
    "constexpr auto kInt32 = at::kInt; constexpr auto kInt64 = at::kLong; constexpr auto kFloat16 = at::kHalf;",
    "constexpr auto kFloat32 = at::kFloat; constexpr auto kFloat64 = at::kDouble;",
)


def write_light(place: str, text: str, include: str, cuda: bool) -> None:
    """Write headers named as torch's large ones, which include only what the source's words call for."""
    used = tokens.words(text)
    lines = ["#include <ATen/core/Tensor.h>", "#include <c10/util/Exception.h>"]
    lines += [f"#include <{header}>" for header in tokens.standard_headers(text)]
    lines += [
        f"#include <ATen/ops/{word}.h>"
        for word in sorted(used)
        if os.path.isfile(os.path.join(include, "ATen", "ops", f"{word}.h"))
    ]
    if any(word.startswith("AT_DISPATCH") for word in used):
        lines.append("#include <ATen/Dispatch.h>")
    lines.append("#include <ATen/TensorOperators.h>")
    if used & {"device_of", "OptionalCUDAGuard"}:
        lines.append("#include <ATen/DeviceGuard.h>")
    lines += ["namespace torch {", "using namespace at;", *_CONSTANTS, "}"]
    python = not cuda or bool(used & {"PYBIND11_MODULE", "pybind11", "py"})
    for header in ("torch/extension.h", "torch/types.h", "torch/all.h", "torch/torch.h", "ATen/ATen.h"):
        path = os.path.join(place, header)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        more = (
            ["#include <torch/csrc/utils/pybind.h>", "#include <torch/csrc/Exceptions.h>"]
            if python and header.startswith("torch/extension")
            else []
        )
        _write(path, ["#include <stark_light.h>", *more])
    _write(os.path.join(place, "stark_light.h"), lines)
    if cuda and not used & {"getCurrentCUDASparseHandle", "getCurrentCUDASolverDnHandle"}:
        path = os.path.join(place, "ATen", "cuda", "CUDAContext.h")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, ["#include <c10/cuda/CUDAStream.h>", "#include <c10/cuda/CUDAException.h>", *_cuda_context()])


def _cuda_context() -> list[str]:
    return [
        "#include <cuda_runtime.h>",
        "namespace at::cuda {",
        "using c10::cuda::CUDAStream; using c10::cuda::getCurrentCUDAStream; using c10::cuda::getStreamFromPool;",
        "cudaDeviceProp* getCurrentDeviceProperties();",
        "cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);",
        "}",
        "#ifndef AT_CUDA_CHECK",
        "#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)",
        "#endif",
    ]


def prepare(what: str, folder: str, place: str, cuda: bool) -> str:
    """Make an aid out of the build of a small extension that torch has written for ninja.

    Parameters
    ----------
    what
        `support` or `pch`.
    folder
        Where torch has written the build.
    place
        Path of the file to make.

    Returns
    -------
    str
        What failed; empty if nothing did.
    """
    compile_ = next(Compile(words) for words in commands(folder) if "-c" in words)
    words = [word for word in compile_.words if not word.startswith("-DTORCH_EXTENSION_NAME")]
    # The record of what was included is of no use here.
    for flag in ("-MMD", "-MF"):
        if flag in words:
            index = words.index(flag)
            del words[index : index + (2 if flag == "-MF" else 1)]
    words[words.index("-o") + 1] = place
    source = words.index("-c") + 1
    if what == "support":
        words[source] = os.path.join(FACADE, "support.cpp")
        words += ["-O2", *(["-DSTARK_CUDA"] if cuda else [])]
    else:
        header = os.path.join(folder, PCH)
        _write(os.path.join(folder, "stark_needs.h"), [])
        with open(header, "w", encoding="utf-8") as file:
            file.write("#include <torch/extension.h>\n")
        words[source - 1 : source + 1] = ["-x", "c++-header", header]
        first = next(index for index, word in enumerate(words) if word.startswith("-"))
        words[first:first] = ["-I", os.path.join(FACADE, "include"), "-I", folder]
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return "" if done.returncode == 0 else done.stdout.decode("utf-8", "replace")
