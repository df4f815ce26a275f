"""What a candidate may ask to be built: the normal form of a request, and what is refused.

A request comes from a candidate's process and is hostile: everything in it is checked here before it is used.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from ..sandbox.paths import packages

SOURCES = 4 << 20
"""Bytes of all sources of one request together."""
FILES = 64
FLAGS = 64
FLAG = 1024
KINDS = ("inline", "files")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_:<>, ]{0,511}\Z")
_FILE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,127}(?:/[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,127}){0,8}\Z")
# Torch writes flags into a ninja file, and ninja hands them to a shell: nothing that means something to either.
_PLAIN = re.compile(r"[A-Za-z0-9_+\-=,.:/%^@ ]*\Z")
# Flags that load code into a compiler, run a program, or read options that nobody has looked at.
_FORBIDDEN = (
    "-fplugin", "-plugin", "--plugin", "-load", "-specs", "--specs", "-wrapper", "--wrapper", "-B", "@", "-run",
    "--run", "-ccbin", "--compiler-bindir", "-optf", "--options-file", "-fuse-linker-plugin", "-dumpdir", "-save-temps",
    "--save-temps", "-o", "--output-file", "-odir", "--output-directory", "-keep", "--keep", "-gcc-toolchain",
    "--gcc-toolchain", "--sysroot", "-isysroot", "-ldir", "-ddir", "-idp", "--dynamic-linker", "-T", "--script",
    "-dryrun", "--dryrun", "-clean", "--clean-targets", "-MF", "--dependency-output", "-fdump", "-fprofile",
    "-fauto-profile", "-aux-info", "-M", "-Xclang",
)  # fmt: skip
_HARMLESS = ("-MD", "-MMD", "-Bsymbolic", "-Ofast", "-options")


class Refused(Exception):
    """A request that is not carried out; the text says why."""


def normal(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with every field present and checked.

    Parameters
    ----------
    request
        As `proxy` sends it.

    Raises
    ------
    Refused
    """
    kind = request.get("kind", "inline")
    name = request.get("name")
    if kind not in KINDS:
        raise Refused("A request to build is of no known kind.")
    if not isinstance(name, str) or not _NAME.match(name):
        raise Refused("The name of an extension must be a plain identifier.")
    allowed = default_allowed()
    found: dict[str, Any] = {"kind": kind, "name": name}
    for key in ("cpp_sources", "cuda_sources"):
        found[key] = _strings(request.get(key) or [], key, FILES, SOURCES)
    found["files"] = _files(request.get("files") or [])
    if kind == "files" and not any(item["source"] for item in found["files"]):
        raise Refused("No source file was named.")
    total = sum(len(text) for key in ("cpp_sources", "cuda_sources") for text in found[key])
    if total + sum(len(item["text"]) for item in found["files"]) > SOURCES:
        raise Refused(f"The sources are longer than {SOURCES >> 20} MiB.")
    found["functions"] = _functions(request.get("functions"))
    for key in ("extra_cflags", "extra_cuda_cflags", "extra_ldflags"):
        found[key] = _strings(request.get(key) or [], key, FLAGS, FLAG)
        for flag in found[key]:
            check_flag(flag, allowed)
    found["extra_include_paths"] = _strings(request.get("extra_include_paths") or [], "extra_include_paths", 16, FLAG)
    for path in found["extra_include_paths"]:
        if not _PLAIN.match(path) or not _below(path, allowed):
            raise Refused(f"Headers cannot be taken from {path!r}.")
    for key, default in (
        ("is_python_module", True),
        ("no_implicit_headers", False),
        ("with_pytorch_error_handling", True),
        ("stock", False),
    ):
        value = request.get(key, default)
        if not isinstance(value, bool):
            raise Refused(f"{key} must be true or false.")
        found[key] = value
    with_cuda = request.get("with_cuda")
    if with_cuda is not None and not isinstance(with_cuda, bool):
        raise Refused("with_cuda must be true, false or none.")
    found["with_cuda"] = with_cuda
    return found


def default_allowed() -> list[str]:
    """Return the folders whose files are everybody's: the system's, the toolkit's, the interpreter's, torch's."""
    found = ["/usr", "/lib", "/lib64", "/opt", sys.prefix, sys.base_prefix, *packages()]
    found += [os.environ[key] for key in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX") if os.environ.get(key)]
    return [os.path.realpath(path) for path in found] + found


def check_flag(flag: str, allowed: list[str]) -> None:
    """Refuse a flag that could do more than steer the compiler.

    Raises
    ------
    Refused
    """
    if not _PLAIN.match(flag):
        raise Refused(f"The flag {flag[:80]!r} holds signs that a shell would read.")
    for piece in re.split(r"[\s,=]+", flag):
        if piece.startswith(_FORBIDDEN) and not piece.startswith(_HARMLESS):
            raise Refused(f"The flag {flag[:80]!r} is not allowed.")
    if ".." in flag:
        raise Refused(f"The flag {flag[:80]!r} leads out of the folder that is built in.")
    for token in re.split(r"[\s,=:]+", flag):
        if "/" in token and not _below(token[token.index("/") :], allowed):
            raise Refused(f"The flag {flag[:80]!r} names a place that builds do not use.")


def _below(path: str, allowed: list[str]) -> bool:
    """Whether a path, its symbolic links followed, lies in one of the folders."""
    if not os.path.isabs(path) or ".." in path:
        return False
    real = os.path.realpath(path)
    return any(real == root or real.startswith(root.rstrip("/") + "/") for root in allowed)


def _text(value: object, key: str, limit: int) -> str:
    if not isinstance(value, str):
        raise Refused(f"{key} must be text.")
    if "\0" in value:
        raise Refused(f"{key} holds a NUL.")
    if len(value) > limit:
        raise Refused(f"{key} is longer than {limit} characters.")
    return value


def _strings(value: object, key: str, count: int, limit: int) -> list[str]:
    if not isinstance(value, list):
        raise Refused(f"{key} must be a list.")
    if len(value) > count:
        raise Refused(f"{key} has more than {count} entries.")
    return [_text(item, key, limit) for item in value]


def _files(value: object) -> list[dict[str, Any]]:
    """Return named files; their names stay below the folder that is built in."""
    if not isinstance(value, list) or len(value) > FILES:
        raise Refused(f"files must be a list of at most {FILES}.")
    found = []
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("source"), bool):
            raise Refused("A file must have a path, a text and whether it is a source.")
        path = item.get("path")
        if not isinstance(path, str) or not _FILE.match(path):
            raise Refused("The name of a source file must be plain.")
        found.append({"path": path, "text": _text(item.get("text"), "files", SOURCES), "source": item["source"]})
    if len({item["path"] for item in found}) != len(found):
        raise Refused("Two source files have the same name.")
    return found


def _functions(value: object) -> list[list[str]] | None:
    """Return the functions to bind as pairs of name and docstring, in their order."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > 256:
        raise Refused("functions must be a list of at most 256.")
    found = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise Refused("A function must be a name and a docstring.")
        name, text = _text(item[0], "functions", 512), _text(item[1], "functions", 4096)
        if not _FUNCTION.match(name):
            raise Refused(f"{name[:80]!r} names no function.")
        found.append([name, text])
    return found
