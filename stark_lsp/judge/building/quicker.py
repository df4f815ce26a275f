"""A quicker way to build what torch has laid out: the same compilers and flags, with lighter headers where they do.

`facade` holds headers of our own that declare what bindings commonly use, compiled in a second or two, and linked with
a support library that was compiled once with torch's headers. What they lack is built as torch wrote it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from . import diagnostics, loops, tokens
from .steps import STOCK, Run, Step, commands, run_all

FACADE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "facade")
INCLUDE = os.path.join(FACADE, "include")
QUICK = "facade"
"""The way with headers of our own."""
PCH = "stark_pch.h"
SUPPORT = "support.o"
CHECKED = ("-Wl,-z,defs", "-Wl,--warn-unresolved-symbols")
"""Has the linker tell of what is referred to and nowhere defined."""
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


@dataclass(eq=False)
class Build:
    """The carrying out of one build that torch has written for ninja."""

    aids: dict[str, str]
    """Paths of what was made ahead: `support` and `pch`, each where there is one."""
    stock: bool
    """Do all as torch wrote it."""

    def __post_init__(self) -> None:
        self._tells = not self.stock
        self.stock = self.stock or "support" not in self.aids
        self.steps: list[Step] = []
        self.loops: list[str] = []
        """Those of sources for the CPU without torch's headers that were not vectorized."""

    def run(self, folder: str) -> str:
        """Build; return what failed in the compiler's words, empty if nothing did."""
        found = commands(folder)
        compiles = [Compile(words) for words in found if "-c" in words]
        links = [words for words in found if "-c" not in words]
        failed = self._compile(compiles, folder)
        quick = {step.target for step in self.steps if step.how == QUICK}
        if not failed and quick:
            if self._linked(links, folder):
                return ""
            self.stock = True
            self.steps = [step for step in self.steps if step.how != QUICK]
            failed = self._compile([item for item in compiles if item.target in quick], folder)
        for words in links if not failed else ():
            link = Run(words, folder)
            text = link.text()
            if link.code() != 0:
                return f"FAILED: {os.path.basename(words[words.index('-o') + 1])}\n{text}"
        return failed

    def _compile(self, items: list[Compile], folder: str) -> str:
        steps = [self._step(item, folder) for item in items]
        self.steps += steps
        failed = run_all(steps, os.cpu_count() or 1)
        for item in items:
            self.loops += loops.scalar(os.path.join(folder, item.target), item.source)
        return "" if failed is None else f"FAILED: {os.path.basename(failed.target)}\n{failed.log}"

    def _step(self, item: Compile, folder: str) -> Step:
        ways = {STOCK: item.words}
        with open(item.source, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if not self.stock and tokens.may_be_quick(text):
            ways = {QUICK: self._quick(item, text, folder), **ways}
        elif self._tells and not item.cuda and not tokens.uses_torch(text):
            ways = {STOCK: [*item.words, *loops.told_by(item.words)]}
        name = os.path.basename(item.source)
        return Step(folder, item.target, ways, lambda printed: genuine(printed, name, headers()))

    def _quick(self, item: Compile, text: str, folder: str) -> list[str]:
        """Return the command with headers of our own, and what was compiled of them ahead."""
        place = os.path.join(folder, f"{QUICK}-{os.path.basename(item.source)}")
        os.makedirs(place, exist_ok=True)
        needs = tokens.facade_needs(text, item.cuda)
        _write(os.path.join(place, "stark_needs.h"), needs)
        standard = tokens.standard_headers(text)
        _write(os.path.join(place, "stark_standard.h"), [f"#include <{header}>" for header in standard])
        first: list[str] = []
        if "pch" in self.aids and not item.cuda and not needs:
            # A compiler that cannot use what was compiled ahead reads the header beside it.
            header = os.path.join(place, PCH)
            _write(header, ["#include <torch/extension.h>"])
            with contextlib.suppress(FileExistsError):
                os.symlink(self.aids["pch"], f"{header}.gch")
            first = ["-include", header]
        last = ["-include", os.path.join(place, "stark_standard.h")]
        return item.to(item.target, "-I", INCLUDE, "-I", place, *first, *last)

    def _linked(self, links: list[list[str]], folder: str) -> bool:
        """Link with the support library; returns whether all was found that is referred to."""
        missing: list[str] = []
        for words in links:
            # Beside the other objects: libraries that come before what needs them may be dropped.
            link = Run([*words[:1], self.aids["support"], *words[1:], *CHECKED], folder)
            text = link.text()
            if link.code() != 0:
                return False
            missing += [line for line in text.splitlines() if _UNDEFINED.search(line) and not _OF_PYTHON.search(line)]
        # What is missing although all sources saw the same headers is missing in the sources themselves; torch's own
        # build would leave that to be found when the library is loaded.
        alike = all(step.how == QUICK for step in self.steps)
        return not missing or (alike and not any("stark_support" in line for line in missing))


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
    found = diagnostics.errors(printed)
    if not found or any(os.path.basename(error["file"]) != name for error in found):
        return False
    for index, error in enumerate(found):
        named = _NAME.search(error["text"])
        if named is not None:
            if _mentioned(next(group for group in named.groups() if group), include):
                return False
        elif not (index == 0 and _SYNTAX.match(error["text"])):
            return index > 0
    return True


def headers() -> str:
    """Return the folder of torch's headers."""
    import torch

    return os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "include")


def _mentioned(name: str, include: str) -> bool:
    """Whether any header of torch holds this word."""
    tool = shutil.which("grep")
    if tool is None:
        return True
    done = subprocess.run(
        [tool, "-rqwF", "--", name, include], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return done.returncode != 1


def _write(path: str, lines: list[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in ["#pragma once", *lines]))


def prepare(what: str, folder: str, place: str, cuda: bool) -> str:
    """Make an aid out of the build of a small extension that torch has written for ninja.

    Parameters
    ----------
    what
        `support` or `pch`.
    folder, place
        Where torch has written the build, and the file to make.

    Returns
    -------
    str
        What failed; empty if nothing did.
    """
    compile_ = next(Compile(words) for words in commands(folder) if "-c" in words)
    first = [] if what == "support" else ["-I", INCLUDE, "-I", folder]
    words = [word for word in compile_.to(place, *first) if not word.startswith("-DTORCH_EXTENSION_NAME")]
    source = words.index("-c") + 1
    if what == "support":
        words[source] = os.path.join(FACADE, "support.cpp")
        words += ["-O2", *(["-DSTARK_CUDA"] if cuda else [])]
    else:
        header = os.path.join(folder, PCH)
        _write(os.path.join(folder, "stark_needs.h"), [])
        _write(header, ["#include <torch/extension.h>"])
        words[source - 1 : source + 1] = ["-x", "c++-header", header]
    run = Run(words, folder)
    text = run.text()
    return text if run.code() != 0 else ""
